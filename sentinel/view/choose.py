"""Live where there is a terminal, plain lines elsewhere."""
from pathlib import Path

from sentinel.view.plain import PlainNarrator


def choose_narrator(run_dir: Path) -> PlainNarrator:
    return PlainNarrator()
