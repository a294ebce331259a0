"""Live where there is a terminal that can move its cursor, plain lines elsewhere. `rich` knows which."""

from __future__ import annotations

from pathlib import Path

from sentinel.view.live import LiveNarrator
from sentinel.view.plain import PlainNarrator


def choose_narrator(run_dir: Path) -> PlainNarrator | LiveNarrator:
    """Close it when the run is over: the live view then gives the terminal back."""
    from rich.console import Console

    console = Console()
    if console.is_interactive:
        return LiveNarrator(run_dir, console)
    return PlainNarrator(run_dir)
