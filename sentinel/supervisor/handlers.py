"""How each decided action is carried out on this machine: one function for each kind, nothing decided here."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sentinel.actions.capture import capture
from sentinel.actions.control_file import write_overrides, write_request
from sentinel.actions.inspection import SampleSource, inspect_samples
from sentinel.actions.node_check import check_nodes
from sentinel.actions.runner import Found, Handler, progressed
from sentinel.checkpoints.pointers import fix_pointers
from sentinel.checkpoints.quarantine import quarantine_above
from sentinel.client.masking import Masking
from sentinel.errors import GiveUp
from sentinel.journal.lease import Lease
from sentinel.journal.run_file import RunFile
from sentinel.launcher.contract import Launcher
from sentinel.launcher.environment import LaunchQuestion, read_for_launch, start_recorded
from sentinel.launcher.living import living_attempts, unseen_attempts
from sentinel.launcher.node_reach import NodeReach
from sentinel.launcher.spec_file import read_launch
from sentinel.launcher.strangers import find_before_launch, find_strangers, refuse_strangers
from sentinel.model import actions as a
from sentinel.model.attempts import Alive, AttemptSpec, Orphaned
from sentinel.model.environment import Environment
from sentinel.model.recorded import recorded_name
from sentinel.model.records import Attribution, FoundCheckpoints
from sentinel.operator.applying import load_wanted
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.anchors import prune_sound, read_anchor
from sentinel.telemetry.checkpoints import read_all
from sentinel.telemetry.named_logs import note_before
from sentinel.telemetry.records import compare_attempts
from sentinel.telemetry.samples import has_stream, read_samples
from sentinel.telemetry.saved_numbers import verify_saved

if TYPE_CHECKING:
    from sentinel.trainers.launching import Trained


def build_handlers(
    run_dir: Path,
    launcher: Launcher,
    lease: Lease,
    run: RunFile,
    send_page: Callable[[a.SendPage], str],
    withheld: frozenset[str],
    trained: Trained | None = None,
    masking: Masking | None = None,
    reach: NodeReach | str = "this launcher reaches no node",
    named_logs: tuple[str, ...] = (),
    read: Callable[[LaunchQuestion], Environment] = read_for_launch,
) -> Mapping[type[a.Action], Handler]:
    """How each action is carried out here. `send_page`: the courier's. `withheld`: the launcher's. `trained`: of a profile.
    `masking`: of evidence. `reach`: the launcher's way to nodes, or why it has none. `named_logs`: further log files, of which is
    noted how long they are at a launch. `read`: reads what an attempt runs.

    Raises AssertionError: an action has no handler.
    """

    def start(action: a.StartAttempt) -> tuple[str, Environment]:
        spec = _spec(run_dir, lease, run, action)
        laid = spec if trained is None else trained.lay(spec)
        _note(run_dir, action.attempt, named_logs)
        return start_recorded(launcher, run_dir, laid, run.code, withheld, () if trained is None else trained.saved(), read)

    source = SampleSource(partial(has_stream, run_dir), partial(read_samples, run_dir))

    def inspect(action: a.InspectSamples) -> Attribution:
        launch = _admit(run_dir, lease, action.attempt)
        return inspect_samples(launcher, source, action, run.command, run.cwd, launch)

    def save_evidence(action: a.Capture) -> str:
        pids = view.pids if isinstance(view := launcher.observe(action.attempt), (Alive, Orphaned)) else ()
        return capture(run_dir, action.incident, action.attempt, pids, masking or Masking())

    handlers: dict[type[a.Action], Callable[[Any], Found]] = {
        a.StartAttempt: start,
        a.KillAttempt: lambda action: recorded_name(type(launcher.ensure_stopped(action.attempt))).lower(),
        a.SignalRanks: lambda action: f"SIGTERM sent to {launcher.signal_ranks(action.attempt, signal.SIGTERM)} ranks",
        a.RequestStop: lambda action: _ask_to_stop(run_dir, launcher, trained, action),
        a.WriteOverrides: lambda action: write_overrides(run_dir, action),
        a.FindCheckpoints: lambda _: _find(run_dir, trained),
        a.VerifyCheckpoint: lambda v: verify_saved(run_dir, run_dir / v.path, progressed, v.how or "full", v.key),
        a.Quarantine: lambda action: _quarantine(run_dir, launcher, action),
        a.PruneCheckpoint: lambda action: prune_sound(run_dir, action, progressed),
        a.ReadAnchor: lambda action: read_anchor(run_dir, action, progressed),
        a.Capture: save_evidence,
        a.SendPage: send_page,
        a.InspectSamples: inspect,
        a.CheckNodes: lambda action: check_nodes(reach, action),
        a.LoadPolicy: lambda action: load_wanted(run_dir, action),
        a.CompareRecords: lambda c: compare_attempts(run_dir, c.old_attempt, c.new_attempt, c.first_step, c.last_step),
    }
    assert not (missing := [kind.__qualname__ for kind in a.ACTIONS if kind not in handlers]), f"no handler for {missing}"
    held = {kind: handler if kind is a.SendPage else _held(lease, handler) for kind, handler in handlers.items()}
    return cast(Mapping[type[a.Action], Handler], held)


def _held(lease: Lease, handler: Callable[[Any], Found]) -> Callable[[Any], Found]:
    """Begun only while the run is known to be ours. A person may be called by two: silence would be worse."""

    def carry_out(action: a.Action) -> Found:
        lease.hold()
        return handler(action)

    return carry_out


def _note(run_dir: Path, attempt: int, named_logs: tuple[str, ...]) -> None:
    """How long these logs are before the launch. Where that cannot be written, the first look at them notes it, and leaves out
    what was written until then."""
    with suppress(OSError):
        note_before(run_dir, attempt, named_logs)


def _spec(run_dir: Path, lease: Lease, run: RunFile, action: a.StartAttempt) -> AttemptSpec:
    return AttemptSpec(
        attempt=action.attempt,
        argv=run.command,
        cwd=run.cwd,
        resume=action.resume,
        overrides=action.overrides,
        exclude_nodes=action.exclude_nodes,
        launch=_admit(run_dir, lease, action.attempt),
        vouched=action.vouched,
    )


def _admit(run_dir: Path, lease: Lease, attempt: int) -> str:
    """The word of this launch, which the lease names before anything else: whoever has the number from before commits nothing
    from then on. Asked again it is the same. Raises RetryLater where processes of the run live that are not of this attempt."""
    launch = read_launch(AttemptFiles.of(run_dir, attempt)) or uuid.uuid4().hex[:12]
    lease.set_attempt(attempt, launch)
    refuse_strangers(find_before_launch(run_dir, attempt), f"attempt {attempt} is not launched")
    return launch


def _ask_to_stop(run_dir: Path, launcher: Launcher, trained: Trained | None, action: a.RequestStop) -> str:
    if trained is None:
        return write_request(run_dir, action)
    number = trained.stop_signal(action.request)
    if number is None:
        return f"its profile has no signal for {action.request}: it is ended as it is"
    return f"{action.request} requested by {number.name} to {launcher.signal_ranks(action.attempt, number)} ranks"


def _find(run_dir: Path, trained: Trained | None) -> FoundCheckpoints:
    if trained is not None:
        trained.seal()
    return FoundCheckpoints(read_all(run_dir))


def _quarantine(run_dir: Path, launcher: Launcher, action: a.Quarantine) -> str:
    for number, pids in living_attempts(run_dir, launcher).items():
        raise GiveUp(f"no checkpoint is moved while attempt {number} is alive (processes {', '.join(map(str, pids[:8]))})")
    for number, reason in unseen_attempts(run_dir, launcher).items():
        raise GiveUp(f"no checkpoint is moved while attempt {number} may live: {reason}")
    refuse_strangers(find_strangers(run_dir), "no checkpoint is moved")
    left: list[str] = []
    moved = quarantine_above(run_dir, action.above_step, action.attempt, progressed, left.append)
    progressed()
    fixed = fix_pointers(run_dir, action.above_step, action.attempt)
    return "; ".join([f"{len(moved)} moved to quarantine", *left, *fixed])
