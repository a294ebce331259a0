"""The simulated runner: actions take time, fail as told, and may be cut short by the death of the supervisor.

The same lanes as the real one has. What an action does is done by the launcher and the store; what is
under way when the supervisor dies is lost before its effect, or its outcome is lost after it. An action that no part of the
simulated world shows is only recorded as a change of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sentinel.actions.inspection import inspect_samples
from sentinel.actions.node_check import check_nodes
from sentinel.actions.runner import Found, Handler, carry_out, lane_of
from sentinel.errors import GiveUp, RetryLater
from sentinel.launcher.node_reach import NodeReach
from sentinel.launcher.spec_file import overrides_to_json
from sentinel.model import actions as a
from sentinel.model.attempts import AttemptSpec
from sentinel.model.environment import Environment
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.model.node_checks import NodeVerdicts
from sentinel.model.readings import CheckpointRead, StepReading
from sentinel.model.recorded import recorded_name
from sentinel.model.records import Attribution, Comparison, LoadedPolicy
from sentinel.model.saved import ReadBack, SavedNorm, SavedNumbers
from sentinel.plan.diagnosis import compare
from sentinel.sim.faults import Fault
from sentinel.sim.inspection import sample_source
from sentinel.sim.launcher import SimLauncher
from sentinel.sim.machine import ScheduledEvent
from sentinel.sim.store import CHECKPOINT_BYTES
from sentinel.sim.telemetry import read_whole
from sentinel.sim.world import World, WorldChange

SIGTERM = 15
TAKES_S: dict[type[a.Action], float] = {
    a.StartAttempt: 0.3, a.KillAttempt: 0.5, a.VerifyCheckpoint: 0.6, a.Quarantine: 0.1, a.Capture: 0.2, a.SendPage: 0.3,
    a.PruneCheckpoint: 1.0, a.ReadAnchor: 0.6, a.CheckNodes: 3.0,
}  # fmt: skip
QUICK_S = 0.05
HANGS_S, AGAIN_S = 20.0, 5.0  # of a route that hangs: a try ends, and the next begins
ROWS = 20

AtEffect = Callable[[str], None]
RecordOf = Callable[[int, int, int], Mapping[int, StepReading]]  # of an attempt, from a step to a step


class Failures:
    """The actions that are told to fail, over all supervisors of a run."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._left = {fault.text: int(fault.number("times")) for fault in faults}
        self._faults = tuple(faults)

    def check(self, action: a.Action) -> None:
        """Raises RetryLater or GiveUp when it is this action's turn to fail."""
        for fault in self._faults:
            if fault.word == recorded_name(type(action)) and self._left[fault.text] > 0:
                self._left[fault.text] -= 1
                if fault.number("retry") > 0:
                    raise RetryLater(f"{fault.word}: told to fail", fault.number("retry"))
                raise GiveUp(f"{fault.word}: told to fail for good")


class SimRunner:
    """`at_effect(side)` is called before and after every effect, and may kill the supervisor there."""

    def __init__(
        self,
        world: World,
        launcher: SimLauncher,
        command: tuple[str, ...],
        failures: Failures,
        at_effect: AtEffect,
        record: RecordOf,
        load_policy: Callable[[a.LoadPolicy], LoadedPolicy],
        reach: NodeReach,
    ) -> None:
        self._world = world
        self._record = record
        self._launcher = launcher
        self._reach = reach
        self._command = command
        self._failures = failures
        self._at_effect = at_effect
        self._lane_free_s: dict[str, float] = {}
        self._under_way: list[ScheduledEvent] = []
        self._outcomes: list[ActionDone | ActionFailed] = []
        handlers: dict[type[a.Action], Callable[[Any], Found]] = {
            a.StartAttempt: self._start,
            a.KillAttempt: self._kill,
            a.SignalRanks: self._signal,
            a.RequestStop: self._request,
            a.WriteOverrides: self._override,
            a.VerifyCheckpoint: self._verify,
            a.Quarantine: self._quarantine,
            a.PruneCheckpoint: self._prune,
            a.ReadAnchor: self._read_anchor,
            a.Capture: lambda action: f"evidence of attempt {action.attempt}",
            a.SendPage: self._page,
            a.CompareRecords: self._compare,
            a.InspectSamples: self._inspect,
            a.LoadPolicy: load_policy,
            a.CheckNodes: self._check_nodes,
        }
        handlers = {kind: handlers.get(kind, self._pretend) for kind in a.ACTIONS}
        self._handlers = cast(Mapping[type[a.Action], Handler], handlers)

    def submit(self, action: a.Action) -> None:
        lane = lane_of(action)
        takes_s = TAKES_S.get(type(action), QUICK_S)
        if isinstance(action, a.SendPage) and self._world.routes.get(action.route) == "hangs":
            takes_s = HANGS_S
        begins_s = max(self._world.now_s, self._lane_free_s.get(lane, 0.0))
        ends_s = begins_s + takes_s
        self._lane_free_s[lane] = ends_s
        self._under_way.append(self._world.after(ends_s - self._world.now_s, lambda: self._carry_out(action)))

    def outcomes(self) -> Sequence[ActionDone | ActionFailed]:
        found, self._outcomes = self._outcomes, []
        return found

    def progress(self, key: str) -> None:
        """Every simulated act ends by itself."""

    def abandon(self, key: str) -> None:
        raise AssertionError(f"{key} was given up, and every simulated act ends by itself")

    def die(self) -> None:
        """The supervisor is dead, its threads with it."""
        for event in self._under_way:
            event.cancel()

    def _carry_out(self, action: a.Action) -> None:
        self._at_effect("before")
        outcome = carry_out(self._handlers, action)
        self._at_effect("after")
        self._outcomes.append(outcome)
        self._world.wake()

    def _pretend(self, action: a.Action) -> str:
        self._failures.check(action)
        self._world.record_change(recorded_name(type(action)), action.words, action.key)
        return "simulated"

    def _start(self, action: a.StartAttempt) -> tuple[str, Environment]:
        self._failures.check(action)
        self._world.lease_attempt = max(self._world.lease_attempt, action.attempt)
        found = self._world.runs(action.attempt)
        spec = AttemptSpec(
            action.attempt, self._command, "/", action.resume, action.overrides, None, found, action.exclude_nodes,
            vouched=action.vouched,
        )  # fmt: skip
        return recorded_name(type(self._launcher.ensure_started(spec))).lower(), found

    def _kill(self, action: a.KillAttempt) -> str:
        self._failures.check(action)
        return recorded_name(type(self._launcher.ensure_stopped(action.attempt))).lower()

    def _signal(self, action: a.SignalRanks) -> str:
        self._failures.check(action)
        count = self._launcher.signal_ranks(action.attempt, SIGTERM)
        self._world.record_change("signal", f"attempt {action.attempt}", action.key)
        return f"SIGTERM sent to {count} ranks"

    def _request(self, action: a.RequestStop) -> str:
        self._failures.check(action)
        value = {"v": 1, "id": action.overrides.id, "attempt": action.attempt, "request": action.request}
        self._world.write_overrides(value)
        self._world.record_change("request", f"attempt {action.attempt}", action.key)
        return f"{action.request} requested"

    def _override(self, action: a.WriteOverrides) -> str:
        self._failures.check(action)
        self._world.write_overrides({"v": 1, **overrides_to_json(action.overrides, action.attempt)})
        self._world.record_change("override", f"attempt {action.attempt}", action.key)
        return f"overrides {action.overrides.id} written"

    def _verify(self, action: a.VerifyCheckpoint) -> SavedNumbers:
        self._failures.check(action)
        ok, detail = self._world.store.verify(action.step)
        if not ok:
            raise GiveUp(detail)
        committed = self._world.store.committed
        older = max((step for step in committed if step < action.step), default=None)
        numbers, norm = committed[action.step].numbers, self._norm(action.step)
        read = ReadBack(action.how or "full", 1, CHECKPOINT_BYTES, 1, CHECKPOINT_BYTES, seconds=TAKES_S[a.VerifyCheckpoint])
        return SavedNumbers(detail, numbers=numbers, norm=norm, older=None if older is None else self._norm(older), read=read)

    def _norm(self, step: int) -> SavedNorm:
        """A checkpoint's norm, and what its maker's stream says around its step."""
        found = self._world.store.committed[step]
        first, last = step - ROWS + 1, step + 1
        record = self._record(found.attempt, first, last)
        rows = ((at, record[at].metrics["param_norm"]) for at in range(first, last + 1) if at in record)
        return SavedNorm(step, dict(found.numbers)["param_norm"], tuple(rows))

    def _quarantine(self, action: a.Quarantine) -> str:
        """One rename after the other: a death in between leaves some moved."""
        self._failures.check(action)
        doomed = self._world.store.above(action.above_step)
        for step in doomed:
            self._world.store.quarantine(step)
            self._world.record_change("quarantine", f"checkpoint {step}", action.key)
            self._at_effect("between")
        swept = self._world.store.sweep_unfinished()
        return f"{len(doomed) + swept} moved to quarantine"

    def _read_anchor(self, action: a.ReadAnchor) -> CheckpointRead:
        self._failures.check(action)
        return read_whole(self._world.store, action.step, action.digest)

    def _prune(self, action: a.PruneCheckpoint) -> str:
        """Taken away at once; a death between that and the deleting leaves it hidden."""
        self._failures.check(action)
        try:
            is_taken = self._world.store.prune(action.step, action.digest)
        except OSError as error:
            raise GiveUp(f"{action.path} cannot be taken away: {error.strerror}") from error
        if is_taken:
            self._world.record_change("prune", f"checkpoint {action.step}", action.key)
        self._at_effect("between")
        return ""

    def _compare(self, action: a.CompareRecords) -> Comparison:
        self._failures.check(action)
        first, last = action.first_step, action.last_step
        old, new = (self._record(attempt, first, last) for attempt in (action.old_attempt, action.new_attempt))
        return compare(old, new, first, last)

    def _inspect(self, action: a.InspectSamples) -> Attribution:
        self._failures.check(action)
        self._world.lease_attempt = max(self._world.lease_attempt, action.attempt)
        return inspect_samples(self._launcher, sample_source(self._world), action, self._command, "/")

    def _check_nodes(self, action: a.CheckNodes) -> NodeVerdicts:
        self._failures.check(action)
        return check_nodes(self._reach, action)

    def _page(self, action: a.SendPage) -> str:
        self._failures.check(action)
        does = self._world.routes.get(action.route)
        if does == "refuses":
            raise GiveUp(f"{action.route}: refused")
        if does == "hangs":
            raise RetryLater(f"{action.route}: no answer", AGAIN_S)
        self._world.pages.append(WorldChange(self._world.now_s, action.stage, str(action.incident), action.key))
        return "delivered"
