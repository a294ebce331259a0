"""What the supervisor's own view says that its run needs, in the words of the page, `sentinel status` and `sentinel top`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from sentinel.report.machine_warnings import threats_beside
from sentinel.report.needs import needs_document
from sentinel.report.reading import is_attempt_alive
from sentinel.report.snapshot import RunSnapshot, are_ranks_asked
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.heartbeats import read_ranks
from sentinel.run_files.stall import stall_of
from sentinel.terminal.picture import shown_incident

Shown = tuple[Mapping[str, Any] | None, tuple[str, ...]]


def own_needs(run_dir: Path, policy: Policy) -> Callable[[RunState, float], Shown]:
    """By a state and a session time: the document of `needs`, and the sentences of what threatens the run. Of the supervisor that
    asks: it lives. Reads small files, and signals nobody."""

    def look(state: RunState, now_s: float) -> Shown:
        senses, attempt = read_standings(run_dir), state.attempt
        are_asked = are_ranks_asked(state, stall_of(state, now_s, senses), "alive")
        snapshot = RunSnapshot(
            run_dir=run_dir,
            state=state,
            now_s=now_s,
            supervisor="alive",
            attempt_alive=is_attempt_alive(run_dir, state),
            senses=senses,
            ranks=read_ranks(run_dir, attempt.attempt) if attempt is not None and are_asked else (),
        )
        shown = shown_incident(state)
        threats = threats_beside(shown.id if shown is not None else None, state, now_s, senses)
        return needs_document(snapshot, policy), threats

    return look
