"""A run read from outside, by any process, while it is supervised or long after: its journal, its newest step, who watches it.

The journal is opened read-only and folded with the engine's own `evolve`; nothing is written and nobody is blocked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import LEASE_NAME
from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.filesystem import is_full
from sentinel.journal.holder import Supervisor, judge_holder
from sentinel.journal.lease import read_lease
from sentinel.journal.lost_history import describe_missing
from sentinel.journal.run_file import find_run_file
from sentinel.journal.standbys import read_standbys
from sentinel.launcher.registry import DEFAULT, LaunchPlace, open_launcher
from sentinel.model.attempts import Alive, AttemptView, Orphaned, Unseen
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.report.documents import incident_documents, status_document
from sentinel.report.journal_fold import JournalFold
from sentinel.report.lineage import branch_document, lineage_text
from sentinel.report.run_policy import read_policy
from sentinel.report.schedule import schedule_rows
from sentinel.report.snapshot import RunSnapshot, are_ranks_asked
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.heartbeats import read_ranks
from sentinel.run_files.nodes_seen import read_nodes
from sentinel.run_files.stall import stall_of
from sentinel.run_files.stream import read_newest_step, read_tokens_per_sample, read_total_steps
from sentinel.run_files.warm_standing import read_warm


class NothingRecorded(UsageError):
    """A run directory whose journal holds no fact: its supervisor is just starting, or was killed before its first."""


def read_status(run_dir: Path) -> dict[str, Any]:
    """The document of `sentinel status`. Raises UsageError when the directory is not a run's, JournalError when damaged."""
    run = read_run(run_dir)
    attempt = run.state.attempt
    newest = read_newest_step(run_dir, attempt.attempt) if attempt else None
    senses = read_standings(run_dir)
    stall, supervisor = stall_of(run.state, run.now_s, senses), read_supervisor(run_dir)
    are_asked = are_ranks_asked(run.state, stall, supervisor)
    snapshot = RunSnapshot(
        run_dir=run_dir,
        state=run.state,
        now_s=run.now_s,
        last_s=run.last_s,
        step=newest,
        total_steps=read_steps_of_run(run_dir, run.state),
        supervisor=supervisor,
        attempt_alive=is_attempt_alive(run_dir, run.state),
        senses=senses,
        is_disk_full=supervisor == "stuck" and is_full(run_dir),
        ranks=read_ranks(run_dir, attempt.attempt) if attempt is not None and are_asked else (),
        standbys=() if run.state.ended else read_standbys(run_dir, SystemClock().wall_s()),
        losses=run.losses.of_incidents(run.state, run.until_s, stall.since_s if stall else None),
    )
    warning = "; ".join(filter(None, (run.warning, describe_missing(run_dir))))
    status = status_document(snapshot, read_policy(run_dir)[0], warning)
    nodes = read_nodes(run_dir, attempt.attempt) if attempt is not None and not attempt.is_over else ()
    own = {"schedule": read_schedule(run, newest), "warm": _read_warm(run_dir), "supervisor_place": _read_place(run_dir)}
    return status | own | {"nodes": [asdict(one) for one in nodes]}


def _read_place(run_dir: Path) -> dict[str, Any] | None:
    """Where the supervisor runs, or ran that did not leave in good order, as the lease says; None where nobody does."""
    lease = read_lease(run_dir)
    return None if lease is None or lease.released else {"host": lease.holder.host, "pid": lease.holder.pid}


def read_steps_of_run(run_dir: Path, state: RunState) -> int | None:
    """How many steps the run is to have, as the newest attempt says; before its receipt is there, as the newest one that has come
    so far. None where nobody says."""
    if state.attempt is None:
        return None
    found = read_total_steps(run_dir, state.attempt.attempt)
    if found is not None or state.attempt.receipt_s is not None:
        return found
    before = next((one for one in reversed(state.attempts) if one.receipt_s is not None), None)
    return read_total_steps(run_dir, before.attempt) if before is not None else None


def _read_warm(run_dir: Path) -> dict[str, Any] | None:
    """How the reserve for the next attempt stands, as the supervisor wrote it last; None where none was asked for."""
    found = read_warm(run_dir)
    return None if found is None else asdict(found) | {"words": found.words}


def read_schedule(run: JournalFold, newest_step: int | None) -> dict[str, Any]:
    """What the interventions cost. `newest_step`: of the newest attempt."""
    newest = run.lineage.newest
    tokens = read_tokens_per_sample(run.run_dir, newest) if newest is not None else None
    return run.schedule.document(run.lineage.branches(newest_step), tokens)


def read_incidents(run_dir: Path) -> list[dict[str, Any]]:
    """The documents of `sentinel incidents`, oldest first. Raises as `read_status`."""
    run = read_run(run_dir)
    losses = run.losses.of_incidents(run.state, run.until_s)
    return incident_documents(run.state, losses, read_standings(run_dir).gpus_in_use)


def read_lineage(run_dir: Path) -> list[dict[str, Any]]:
    """The document of `sentinel lineage --json`: attempts, oldest first. Raises UsageError, JournalError."""
    fold = JournalFold(run_dir)
    fold.catch_up()
    return [branch_document(branch) for branch in fold.lineage.branches()]


def lineage_page(run_dir: Path) -> str:
    """The text of `sentinel lineage`: the tree of attempts, and what the interventions cost. Raises as `read_lineage`."""
    fold = JournalFold(run_dir)
    fold.catch_up()
    branches = [branch_document(branch) for branch in fold.lineage.branches()]
    newest = read_newest_step(run_dir, branches[-1]["attempt"]) if branches else None
    cost = schedule_rows(read_schedule(fold, newest))
    return "\n".join([lineage_text(branches, newest), *(f"{what}: {words}" for what, words in cost)])


def read_run(run_dir: Path) -> JournalFold:
    """The whole journal, folded. Raises as `read_status`; NothingRecorded before its first fact."""
    fold = JournalFold(run_dir)
    fold.catch_up()
    refuse_empty(fold)
    return fold


def find_incident(run_dir: Path, incidents: Sequence[Incident], number: int) -> Incident:
    """The incident of this number. Raises UsageError, which names those there are."""
    found = next((one for one in incidents if one.id == number), None)
    if found is None:
        known = ", ".join(str(one.id) for one in incidents[-8:]) or "none"
        raise UsageError(f"{run_dir}: there is no incident {number} (there are: {known})")
    return found


def refuse_empty(fold: JournalFold) -> None:
    if not fold.state.run_id:
        why = "the run is only just being started, nothing is recorded yet; look again in a moment"
        raise NothingRecorded(f"{fold.run_dir}: {why}")


def read_supervisor(run_dir: Path) -> Supervisor:
    """Whether a supervisor holds the run: that very process on this machine, a lease kept fresh on another; and whether its loop
    turns."""
    return judge_holder(run_dir, read_lease(run_dir))


def read_heartbeat(run_dir: Path) -> float | None:
    """When the supervisor's loop last turned, Unix seconds, ten seconds out at most: a turn renews the lease, and nothing else
    does. None where nobody ever supervised."""
    try:
        return (run_dir / LEASE_NAME).stat().st_mtime
    except OSError:
        return None


def is_attempt_alive(run_dir: Path, state: RunState) -> bool | None:
    """Whether processes of the newest attempt live; None when that cannot be seen from here."""
    view = view_attempt(run_dir, state)
    return None if isinstance(view, Unseen) else isinstance(view, Alive) or (isinstance(view, Orphaned) and bool(view.pids))


def view_attempt(run_dir: Path, state: RunState) -> AttemptView | None:
    """What the run's launcher sees of the newest attempt; None when none was launched. `Unseen` where run.json names no launcher
    that this version has."""
    attempt = state.attempt
    if attempt is None:
        return None
    try:
        run = find_run_file(run_dir)
        kind, options = (run.launcher, run.launcher_options) if run is not None else (DEFAULT, {})
        return open_launcher(kind, options, LaunchPlace(run_dir)).observe(attempt.attempt)
    except UsageError as error:
        return Unseen(attempt.attempt, str(error))
