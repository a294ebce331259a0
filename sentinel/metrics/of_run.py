"""What one run amounts to, row by row: the family, the values of its labels (without `run`), and its value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from sentinel import __version__
from sentinel.curves.registry import CURVES
from sentinel.engine.goodput import account
from sentinel.metrics.of_cost import cost_rows
from sentinel.model.disks import PLACES
from sentinel.model.findings import Severity, Verdict
from sentinel.model.state import ENDINGS, UNSEEN
from sentinel.plan.verifying import expected_s
from sentinel.report.following import RunSnapshot
from sentinel.report.snapshot import still_since_s
from sentinel.report.tally import ACTIONS, Durations
from sentinel.run_files.detector_standings import OLD_AFTER_S
from sentinel.run_files.stall import STALLED, run_word, stall_of

Row = tuple[str, tuple[str, ...], float | Durations]

STATES = (
    "starting", "training", STALLED, "recovering", UNSEEN, "probation", "paused", "held", "observing", *ENDINGS,
)  # fmt: skip
UNREADABLE = "sentinel_journal_unreadable"
SEVERITIES = get_args(Severity)
LAYERS_MAX = 256
DETECTORS_MAX = 64
WITH_LAYERS = {curve.gauge for curve in CURVES if curve.gauge and curve.is_family}
FINAL = "final"  # the value of the label `layer` for the metric that stands for all layers


def rows(snapshot: RunSnapshot) -> Iterator[Row]:
    """All of them; each part stands for itself. Of a run of which nothing could be read, that alone."""
    if not snapshot.state.run_id and snapshot.trouble:
        yield UNREADABLE, (), 1.0
        return
    yield from _standing(snapshot)
    yield from _goodput(snapshot)
    yield from cost_rows(snapshot)
    yield from _checkpoints(snapshot)
    yield from _training(snapshot)
    yield from _incidents(snapshot)
    yield from _detectors(snapshot)
    yield from _disks(snapshot)
    yield from _actions(snapshot)
    yield from _pages(snapshot)


def _standing(snapshot: RunSnapshot) -> Iterator[Row]:
    state, tally = snapshot.state, snapshot.tally
    stands = run_word(state, stall_of(state, snapshot.now_s, snapshot.senses))
    yield "sentinel_info", (__version__, state.policy_name), 1.0
    if state.policy_name:
        by = state.applied.by if state.applied is not None else ""
        yield "sentinel_policy_info", (state.policy_name, state.policy_digest[:12], by), 1.0
    for word in STATES:
        yield "sentinel_run_state", (word,), float(stands == word)
    yield "sentinel_observe_only", (), float(state.observe_only)
    if snapshot.heartbeat_s is not None:
        yield "sentinel_heartbeat_timestamp_seconds", (), snapshot.heartbeat_s
    if snapshot.supervisor != "unknown":
        yield "sentinel_supervisor_alive", (), float(snapshot.supervisor in ("alive", "stuck"))
    yield "sentinel_supervisors_total", (), float(tally.takeovers)
    if snapshot.attempt_alive is not None:
        yield "sentinel_attempt_alive", (), float(snapshot.attempt_alive)
    yield "sentinel_attempt", (), float(state.attempt.attempt if state.attempt else 0)
    yield "sentinel_attempts_total", (), float(state.archive.attempts + len(state.attempts))
    yield "sentinel_ranks", (), float(tally.ranks)
    yield "sentinel_excluded_nodes", (), float(len(state.excluded))
    yield UNREADABLE, (), float(bool(snapshot.trouble))
    for part, lag_s in snapshot.mirror_lag_s.items():
        yield "sentinel_mirror_lag_seconds", (part,), lag_s
    for source, blind in tally.blind.items():
        yield "sentinel_source_blind", (source,), float(blind)


def _goodput(snapshot: RunSnapshot) -> Iterator[Row]:
    stall = stall_of(snapshot.state, snapshot.now_s, snapshot.senses)
    ledger = account(snapshot.state, snapshot.now_s, still_since_s(snapshot, stall))
    yield "sentinel_goodput_ratio", (), ledger.goodput_ratio
    for name, seconds in ledger.seconds.items():
        yield "sentinel_account_seconds", (name,), seconds


def _checkpoints(snapshot: RunSnapshot) -> Iterator[Row]:
    if (verified_in_s := expected_s(snapshot.state)) is not None:
        yield "sentinel_verification_expected_seconds", (), verified_in_s
    newest = next((one for one in reversed(snapshot.state.checkpoints) if not one.condemned), None)
    if newest is None:
        return
    yield "sentinel_checkpoint_step", (), float(newest.step)
    if newest.committed_s is not None:
        yield "sentinel_checkpoint_age_seconds", (), max(0.0, snapshot.now_s - newest.committed_s)


def _training(snapshot: RunSnapshot) -> Iterator[Row]:
    values = {**snapshot.last, **snapshot.newest}
    if snapshot.step is not None:
        yield "sentinel_step", (), float(snapshot.step)
    last_step_s = snapshot.senses.step_times.last_step_s
    if last_step_s is not None:
        yield "sentinel_last_step_timestamp_seconds", (), last_step_s
    if snapshot.total_steps is not None:
        yield "sentinel_total_steps", (), float(snapshot.total_steps)
    for curve in CURVES:
        if curve.gauge and curve.is_family:
            layers = [name for name in values if name.startswith(curve.name)]
            for name in layers[:LAYERS_MAX]:
                yield curve.gauge, (name.removeprefix(curve.name),), values[name]
        elif curve.gauge and curve.name in values:
            yield curve.gauge, (FINAL,) if curve.gauge in WITH_LAYERS else (), values[curve.name]


def _incidents(snapshot: RunSnapshot) -> Iterator[Row]:
    tally = snapshot.tally
    for found, count in tally.findings.items():
        yield "sentinel_findings_total", found, float(count)
    for kind, count in tally.opened.items():
        yield "sentinel_incidents_opened_total", (kind,), float(count)
    for ending, count in tally.closed.items():
        yield "sentinel_incidents_total", ending, float(count)
    open_now = Counter(one.severity for one in snapshot.state.open_incidents)
    for severity in SEVERITIES:
        yield "sentinel_open_incidents", (severity,), float(open_now[severity])
    for kind, taken in tally.detection.items():
        yield "sentinel_detection_seconds", (kind,), taken
    for kind, taken in tally.recovery.items():
        yield "sentinel_recovery_seconds", (kind,), taken
    yield "sentinel_steps_lost_total", (), float(tally.steps_lost)


def _detectors(snapshot: RunSnapshot) -> Iterator[Row]:
    """A healthy detector of an hour ago is no healthy detector."""
    standings = snapshot.senses
    is_old = snapshot.supervisor != "alive" or standings.time_s is None or snapshot.now_s - standings.time_s > OLD_AFTER_S
    for kind, verdict, _ in standings.verdicts[:DETECTORS_MAX]:
        stands = Verdict.UNKNOWN if is_old else verdict
        for word in Verdict:
            yield "sentinel_detector_state", (kind, str(word)), float(stands == word)


def _disks(snapshot: RunSnapshot) -> Iterator[Row]:
    """Room that was looked at an hour ago is not known."""
    standings = snapshot.senses
    if snapshot.supervisor != "alive" or standings.time_s is None or snapshot.now_s - standings.time_s > OLD_AFTER_S:
        return
    for disk in {disk.place: disk for disk in standings.disks if disk.place in PLACES}.values():
        yield "sentinel_disk_free_bytes", (disk.place,), float(disk.free_bytes)
        yield "sentinel_disk_size_bytes", (disk.place,), float(disk.total_bytes)
        if disk.free_inodes is not None:
            yield "sentinel_disk_free_inodes", (disk.place,), float(disk.free_inodes)


def _actions(snapshot: RunSnapshot) -> Iterator[Row]:
    for act, count in snapshot.tally.actions.items():
        yield "sentinel_actions_total", act, float(count)
    pending = Counter(ACTIONS[type(action)] for action in snapshot.state.pending.values())
    for name in ACTIONS.values():
        yield "sentinel_actions_pending", (name,), float(pending[name])


def _pages(snapshot: RunSnapshot) -> Iterator[Row]:
    tally = snapshot.tally
    for delivery, count in tally.delivered.items():
        yield "sentinel_pages_total", delivery, float(count)
    for delivery, count in tally.undelivered.items():
        yield "sentinel_pages_undelivered_total", delivery, float(count)
    still_open = [one.page for one in snapshot.state.open_pages if one.page is not None]
    yield "sentinel_pages_open", (), float(len(still_open))
    yield "sentinel_page_acknowledged", (), float(bool(still_open) and all(page.is_answered for page in still_open))
