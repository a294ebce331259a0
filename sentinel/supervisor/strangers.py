"""At take-over: processes of the run that its journal knows nothing of are named before anything is done."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sentinel.launcher.strangers import describe_strangers, find_strangers
from sentinel.model.actions import InspectSamples, StartAttempt
from sentinel.model.state import RunState
from sentinel.supervisor.journal_outage import say


def tell_strangers(run_dir: Path, state: RunState) -> None:
    """Known to live, or to be about to, are the newest attempt until it is over, an inspection, and what is being
    started."""
    known = {action.attempt for action in state.pending.values() if isinstance(action, (StartAttempt, InspectSamples))}
    if state.attempt is not None and not state.attempt.is_over:
        known.add(state.attempt.attempt)
    if state.inspection is not None:
        known.add(state.inspection.attempt)
    with suppress(OSError):  # before a launch it is asked again, and an answer is waited for then
        if strangers := find_strangers(run_dir, known):
            say(f"{run_dir}: {describe_strangers(strangers)}. Nothing is launched while they live")
