"""Live where there is a terminal that can move its cursor, plain lines elsewhere. `rich` knows which.

The live view is imported where it is chosen: a run under Slurm has no terminal, and starts without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sentinel.terminal.plain import PlainNarrator

if TYPE_CHECKING:
    from sentinel.terminal.live import Gpus, LiveNarrator, Needs


@runtime_checkable
class _ShowsGpus(Protocol):
    def see_gpus(self, gpus: Gpus) -> None: ...


@runtime_checkable
class _ShowsNeeds(Protocol):
    def see_needs(self, needs: Needs) -> None: ...


def choose_narrator(run_dir: Path) -> PlainNarrator | LiveNarrator:
    """Close it when the run is over: the live view then gives the terminal back."""
    from rich.console import Console

    console = Console()
    if console.is_interactive:
        from sentinel.terminal.live import LiveNarrator

        return LiveNarrator(run_dir, console)
    return PlainNarrator(run_dir)


def show_gpus(narrator: object, gpus: Gpus) -> None:
    """The live view has a row for them; whoever else tells of a run has none."""
    if isinstance(narrator, _ShowsGpus):
        narrator.see_gpus(gpus)


def show_needs(narrator: object, needs: Needs) -> None:
    """The live view says first what broke and what to do; whoever else tells of a run tells each thing when it happens."""
    if isinstance(narrator, _ShowsNeeds):
        narrator.see_needs(needs)
