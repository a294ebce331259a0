"""The simulated trainer: receipt, steps, beats, checkpoints, overrides, faults and exits as the bundled trainer has them.

Equal state, samples and settings give equal numbers, so a resume is bitwise. All ranks move together or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from signal import SIGKILL, SIGSTOP, SIGTERM

from sentinel.launcher.spec_file import overrides_to_json
from sentinel.model.attempts import AttemptSpec, SampleRange
from sentinel.model.readings import Phase, Receipt, StepReading
from sentinel.sim.data_order import Span, take
from sentinel.sim.fault_injector import FaultInjector
from sentinel.sim.faults import PHASES, Fault
from sentinel.sim.learning import HEALTHY, Weights, noise, own_norms_and_scale, param_norm, update
from sentinel.sim.machine import ScheduledEvent
from sentinel.sim.outside_faults import inject_from_outside, place_ranks
from sentinel.sim.processes import Job
from sentinel.sim.settings import Mailbox, SimSettings, in_force
from sentinel.sim.shape import Shape
from sentinel.sim.store import KILLED_BY_LOAD, NONE_TO_TRUST, REFUSED, SimCheckpoint
from sentinel.sim.stuck import Stuck
from sentinel.sim.trainer_output import TrainerOutput
from sentinel.sim.world import World

PEER_LOST_S = 0.7  # a survivor notices a closed connection and leaves within about 1 s (measured)
INTERRUPTS = ("kill", "hang", "crash", "exit")


class SimTrainer:
    """One attempt's program. `trail` is what really happened: every update made, with the samples it consumed; `struck`: the
    first update that shows each fault in this attempt."""

    def __init__(self, world: World, shape: Shape, injector: FaultInjector, spec: AttemptSpec) -> None:
        self.world = world
        self.shape = shape
        self.spec = spec
        self.attempt = spec.attempt
        self.hosts = place_ranks(shape.ranks, shape.nodes, spec.exclude_nodes)
        self.output = TrainerOutput(world, spec.attempt)
        self.trail: list[tuple[int, tuple[Span, ...]]] = []
        self.resumed: SimCheckpoint | None = None
        self.step = 0
        self.cursor = 0
        self.weights: Weights = HEALTHY
        self.is_over = False
        self.on_resume: Callable[[int, SimCheckpoint | None], None] = lambda *_: None
        self.hurt_since: dict[str, int] = {}
        self.struck: dict[str, int] = {}
        self._injector = injector
        self._settings = SimSettings(shape.checkpoint_every)
        self._mailbox = Mailbox(world, spec.attempt, spec.overrides.id)
        self._must_stop = False
        self._is_deaf = False
        self._skipped_in_row = 0
        self._unsaid: list[Span] = []
        self._saved_step = -1
        self.stuck: Stuck | None = None
        self._pending: ScheduledEvent | None = None

    def begin(self, job: Job) -> None:
        self.job = job
        self.world.after(0.05, lambda: self._beat("init"))
        self._pending = self.world.after(self.shape.startup_s, self._set_up)

    def on_signal(self, rank: int, number: int) -> bool:  # noqa: ARG002 - any rank's flag is everybody's at the next step
        if number == SIGTERM:
            self._must_stop = True
            return True
        return False

    def on_death(self, rank: int) -> None:  # noqa: ARG002
        if self._pending is not None:
            self._pending.cancel()
        self._pending = None

    def on_peer_lost(self, rank: int) -> None:
        if not self.is_over:
            self.world.after(PEER_LOST_S, lambda: self._leave_lost(rank))

    def _leave_lost(self, rank: int) -> None:
        if rank in self.job.living_ranks and not self.job.is_stuck(rank):
            self._abandon(rank)
            self.job.leave(rank, 1, "RuntimeError: connection closed by peer")

    def _abandon(self, rank: int) -> None:
        if rank == 0 and self.output.stream:
            self.output.end(self.output.beats[0][0], "failed")  # the step it was working on

    def _set_up(self) -> None:
        """Load what was asked for, obey the launch's overrides, write the receipt of what then holds."""
        due = self._injector.due(0, self.attempt)
        self._is_deaf = any(fault.kind == "deaf" for fault in due)
        if self._interrupted([fault for fault in due if fault.kind in INTERRUPTS]):
            return None
        asked = self.spec.resume
        if asked is not None:
            word = self.spec.vouched
            found = self.world.store.choose_resume(asked.step, asked.digest, word.digest if word is not None else None)
            if found is None:
                return self._leave_all(4, NONE_TO_TRUST)
            if found.kills(found.step):
                return self._leave_all(1, KILLED_BY_LOAD)
            self.resumed, self._saved_step, self._skipped_in_row = found, found.step, found.skipped_in_row
            self.step, self.cursor, self.weights, self._settings.skip = found.step, found.cursor, found.weights, found.skip
            self._settings.orders = found.orders
        self.hurt_since = self.weights.since
        self.on_resume(self.attempt, self.resumed)
        given = overrides_to_json(self.spec.overrides, self.attempt)
        if not self._is_deaf:
            self._settings.apply(given, self.cursor)
        repeated, effective = {} if self._is_deaf else in_force(given), self._settings.effective(self.cursor)
        digest = self.resumed.digest if self.resumed is not None else None
        self.output.say(
            Receipt(
                attempt=self.attempt,
                time_s=self.world.now_s,
                resume_step=self.step,
                resume_digest=digest,
                world_size=self.shape.ranks,
                overrides=repeated,
                effective=effective,
                cursor=self.cursor,
            )
        )
        if asked is not None and self.step != asked.step:
            self.output.note("resumed_older", self.step, passed_over=[{"step": asked.step, "reason": REFUSED}])
        return self._next(self.shape.first_step_s)

    def _next(self, extra_s: float = 0.0) -> None:
        """What all ranks decide between two steps, then the step."""
        self._pending = None
        if self.step >= self.shape.steps:
            return self._finish()
        if self.resumed is not None and self.resumed.kills(self.step):
            return self._leave_all(1, KILLED_BY_LOAD)
        request = "stop_after_checkpoint" if self._must_stop else self._read_overrides()
        if request is not None:
            return self._save(self._next) if request == "checkpoint_now" else self._stop(request)
        step = self.step + 1
        lapsed = self._settings.lapse(step)
        if lapsed:
            self.output.note("override_lapsed", step, keys=lapsed, effective=self._settings.effective(self.cursor))
        due = self._injector.due(step, self.attempt)
        self._beat("data", step)
        if due:
            if self._interrupted([fault for fault in due if fault.kind in INTERRUPTS]):
                return None
            extra_s += sum(fault.number("for") for fault in due if fault.kind == "slow")
            stuck = next((fault for fault in due if fault.kind == "stuck"), None)
            if stuck is not None:
                return self._stick(stuck, step, due)
        return self._compute(step, due, extra_s)

    def _compute(self, step: int, due: list[Fault], extra_s: float) -> None:
        self._beat("forward", step)
        jitter = 1.0 + 0.08 * min(4.0, abs(noise(self.shape.curve.seed + 2, step * 5 + self.attempt)))
        self._pending = self.world.after(self.shape.step_s * jitter + extra_s, lambda: self._done(step, due))
        if due:
            inject_from_outside(self.world, self.job, self.hosts, due)

    def _stick(self, fault: Fault, step: int, due: list[Fault]) -> None:
        """One rank stands still; each of the others says where it waits. It ends with the attempt, or after a while."""
        phase = next(phase for phase in PHASES if phase == fault.options["phase"])
        self.stuck = stuck = Stuck(fault, self.shape.ranks, phase)
        for rank, (place, delay_s) in stuck.beats.items():
            self.world.after(delay_s, partial(self._say_where, stuck, rank, step, place))
        if (seconds := fault.number("for")) > 0.0:
            self._pending = self.world.after(seconds, partial(self._unstick, step, due))

    def _say_where(self, stuck: Stuck, rank: int, step: int, phase: Phase) -> None:
        if self.stuck is stuck and rank in self.job.living_ranks:
            self.output.beat((rank,), step, phase)
            self.world.wake()

    def _unstick(self, step: int, due: list[Fault]) -> None:
        self.stuck = None
        self._compute(step, due, 0.0)

    def _done(self, step: int, due: list[Fault]) -> None:
        """The update is made: say so, save when it is time, go on."""
        shape, settings = self.shape, self._settings
        spans, behind = take(self.cursor, shape.batch, settings.skip)
        hurts = self._injector.hurts(step, self.attempt, spans, shape.batch, due, settings.orders)
        for hurt in hurts:
            self.hurt_since.setdefault(hurt.fault, step)
            self.struck.setdefault(hurt.fault, max(step, hurt.shows))
        overflowed, gated = (self._injector.lasting(kind, step, self.attempt) for kind in ("scale_collapse", "nan_grad"))
        more = own_norms_and_scale(self.weights, hurts, step, shape.ranks, self._injector.is_fp16, overflowed is not None)
        made = update(shape.curve, self.weights, step, spans[0][0], hurts, settings.lr_scale, settings.clip_norm)
        loss, norm, weights = made
        for fault in filter(None, (overflowed, gated)):
            self.struck.setdefault(fault.text, step)
        if skipped := bool(overflowed or gated):
            norm, weights = math.nan, self.weights.overflowed() if overflowed else self.weights
        ruin = next((fault for fault in due if fault.kind == "nan_state"), None)
        if ruin is not None:
            weights = Weights(weights.wounds, ruin.text, step)
            self.hurt_since.setdefault(ruin.text, step)
            self.struck.setdefault(ruin.text, step)
        self.step, self.cursor, self.weights = step, behind, weights
        self.trail.append((step, spans))
        usable = not skipped and loss - loss == 0.0 and norm - norm == 0.0
        self._unsaid += spans
        if step % shape.log_every == 0 or step == shape.steps:
            self._report(step, {"loss": loss, "grad_norm": norm, "skipped": float(not usable), **more})
        self._skipped_in_row = 0 if usable else self._skipped_in_row + 1
        if self._skipped_in_row >= shape.max_skipped:
            return self._leave_all(5, f"NonFiniteError: step {step}: {self._skipped_in_row} updates in a row were not finite")
        if step % settings.interval == 0:
            return self._save(self._next)
        return self._next()

    def _report(self, step: int, metrics: dict[str, float]) -> None:
        """The line of this step, with the samples since the last one."""
        shape, curve, settings, cursor = self.shape, self.shape.curve, self._settings, self._unsaid[0][0]
        metrics["lr"] = 1e-3 * settings.lr_scale * (1.0 - (1.0 - shape.lr_end) * step / shape.steps)
        metrics["activation_norm"] = curve.activation_norm(step, cursor)
        metrics["clip_fraction"] = curve.clip_fraction(step, cursor, settings.clip_norm)
        if step == shape.steps:
            metrics["val_loss"] = metrics["loss"]
        for declining in self._injector.declining:
            name = declining.decline.metric
            metrics[name] = declining.bend(metrics[name], step)
        samples = tuple(SampleRange(start, end) for start, end in self._unsaid)
        self._unsaid = []
        torn = self._injector.lasting("damaged_line", step, self.attempt) is not None
        self.output.say(None if torn else StepReading(self.attempt, step, self.world.now_s, samples, metrics))

    def _save(self, then: Callable[[], None]) -> None:
        """Written aside for `save_s`, then committed by a rename; whoever is killed in between leaves a torn save."""
        if self._saved_step == self.step:
            self.output.note("checkpoint_committed", self.step, seconds=0.0, path=f"checkpoints/step-{self.step:08d}")
            return then()
        self._beat("checkpoint")
        self.world.store.begin_save(self.attempt, self.step)
        self._pending = self.world.after(self.shape.save_s, lambda: self._commit(then))
        return None

    def _commit(self, then: Callable[[], None]) -> None:
        if self.world.lease_attempt > self.attempt:
            return self._leave_all(1, "LeaseLostError: lease.json names a later attempt")
        healthy = param_norm(self.step + 1, HEALTHY)
        made = SimCheckpoint(
            step=self.step,
            attempt=self.attempt,
            cursor=self.cursor,
            skip=self._settings.skip,
            weights=self.weights,
            skipped_in_row=self._skipped_in_row,
            committed_s=self.world.now_s,
            bent=self._injector.bend("param_norm", healthy, self.step + 1) / healthy,
            orders=self._settings.orders,
        )
        self._injector.spoil(made)
        self.world.store.commit(made)
        self._saved_step = self.step
        self.output.note("checkpoint_committed", self.step, seconds=self.shape.save_s, path=made.path, digest=made.digest)
        return then()

    def _read_overrides(self) -> str | None:
        """Obey a changed overrides.json and answer it; the request to stop in it, if there is one."""
        given = self._mailbox.read()
        if given is None:
            return None
        step, own = self.step + 1, given.get("id")
        if self._is_deaf:
            self.output.note("override_refused", step, id=own, reason="this trainer does not listen", keys=[])
            return None
        self._settings.apply(given, self.cursor)
        self.world.record_change("obey", str(own))
        effective, request = self._settings.effective(self.cursor), given.get("request")
        self.output.note("override_applied", step, id=own, effective=effective, request=request)
        return request

    def _stop(self, request: str) -> None:
        def leave() -> None:
            self.output.end(self.step, "stopped_on_request")
            self._leave_all(6, None)

        return self._save(leave) if request == "stop_after_checkpoint" and self.step > 0 else leave()

    def _finish(self) -> None:
        def leave() -> None:
            self.output.end(self.step, "finished")
            self._leave_all(0, None)

        return self._save(leave) if self._saved_step != self.step else leave()

    def _interrupted(self, due: list[Fault]) -> bool:
        """Kill, stop, crash or leave; True when no step follows."""
        for fault in due:
            rank = int(fault.options.get("rank", "0")) % self.shape.ranks
            if fault.kind == "exit":
                self._leave_all(int(fault.number("code")), f"TrainerError: {fault.text}")
            elif fault.kind == "crash":
                self._abandon(rank)
                self.job.leave(rank, 1, f"InjectedCrash: {fault.text}")
            else:
                self.job.send(self.job.rank_process(rank).pid, SIGKILL if fault.kind == "kill" else SIGSTOP)
                self._beat("backward", self.step + 1)
        return bool(due)

    def _leave_all(self, code: int, error: str | None) -> None:
        """Everybody leaves for the same reason, with a record."""
        self.is_over = True
        if error is not None:
            self._abandon(0)
        else:
            self._beat("idle")
        for rank in self.job.living_ranks:
            self.job.leave(rank, code, error)

    def _beat(self, phase: Phase, step: int | None = None) -> None:
        """Every rank that can still run says where it is."""
        self.output.beat(self.job.running_ranks, self.step if step is None else step, phase)
