"""How a supervisor leaves a run: with which code, and what it leaves behind for people."""

from __future__ import annotations

from pathlib import Path

from sentinel.model.state import RIGHTLY_ENDED, RunState
from sentinel.report.chronicle.write import leave_chronicle
from sentinel.report.summary import leave_report
from sentinel.supervisor.journal_outage import say

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_AGAIN, EXIT_STOPPED = 0, 1, 2, 75, 130  # 75 is EX_TEMPFAIL


def leave_ended(run_dir: Path, state: RunState) -> int:
    """Whoever ended the run while this supervisor waited, for its disk or in reserve, meant it."""
    say(f"{run_dir}: {state.ended}: {state.end_reason}; this supervisor leaves it so")
    return exit_code(state)


def leave(run_dir: Path, state: RunState, now_s: float) -> int:
    leave_report(run_dir, state, now_s)
    leave_chronicle(run_dir)
    return exit_code(state)


def exit_code(state: RunState) -> int:
    """Of `sentinel run`."""
    if state.ended in RIGHTLY_ENDED:
        return EXIT_OK
    return {"stopped": EXIT_STOPPED, "suspended": EXIT_AGAIN}.get(state.ended, EXIT_FAILED)
