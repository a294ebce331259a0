"""Live where there is a terminal that can move its cursor, plain lines elsewhere. `rich` knows which."""

from __future__ import annotations

from pathlib import Path

from sentinel.terminal.live import Gpus, LiveNarrator
from sentinel.terminal.plain import PlainNarrator


def choose_narrator(run_dir: Path) -> PlainNarrator | LiveNarrator:
    """Close it when the run is over: the live view then gives the terminal back."""
    from rich.console import Console

    console = Console()
    if console.is_interactive:
        return LiveNarrator(run_dir, console)
    return PlainNarrator(run_dir)


def show_gpus(narrator: object, gpus: Gpus) -> None:
    """The live view has a row for them; whoever else tells of a run has none."""
    if isinstance(narrator, LiveNarrator):
        narrator.see_gpus(gpus)
