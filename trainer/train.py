"""The training loop: agree on live changes, train a step, report it, save."""

from __future__ import annotations

import os
from dataclasses import replace

import torch
import torch.distributed as dist

from sentinel.client import Overrides, Session, warm
from sentinel.client.settings import SETTINGS

from .command_line import Launch, check_out_dir, check_world, with_precision
from .control import Control, Decision, unknown_settings
from .data_order import ranges_of
from .exits import FINISHED, STOPPED
from .fault_injection.wrappers import install_faults
from .flight_recorder import turn_on
from .inspection import inspect_samples
from .run import Run, apply_overrides, build_run, count_skipped, effective, settings_at
from .saves import await_saves, checkpoint_now, report_commits, save
from .start import begin
from .step import Hooks, evaluate, seed_dropout, train_step
from .world import join_world

# torch._dynamo: fully_shard imports it at the first layer, and it is half of all imports.
IMPORTED_AHEAD = ("torch", "torch._dynamo", "torch.profiler", __name__)


def train(launch: Launch, session: Session | None) -> int:
    """Train to the end or to a request to stop; the exit code. Raises the errors of `exits`, or any unexpected one."""
    torch.set_num_threads(launch.config.parallel.threads)
    if launch.config.numerics.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch asks for it, before the first use of a GPU
        torch.use_deterministic_algorithms(True)
    if session is not None:
        precision = "fp32" if session.spec.inspect is not None else session.spec.overrides.precision
        launch = replace(launch, config=with_precision(launch.config, precision))
    if session is not None and torch.cuda.is_available():
        turn_on(os.environ, session.run_dir, session.attempt)
    world = join_world(launch.config.parallel.replicas)
    check_world(launch, world.size)
    if session is None:
        check_out_dir(launch)
    run = build_run(launch, session, world)
    install_faults(run, launch.faults)
    with run.telemetry:
        if session is not None and session.spec.inspect is not None:
            return inspect_samples(run)
        return _train(run, Control(world, session, lambda: run.saver.failed))


def _train(run: Run, control: Control) -> int:
    session = run.session
    begin(run)
    warm.offer(*IMPORTED_AHEAD)
    control.offer()
    request = _handle_request(run, session.spec.overrides.request if session is not None else None)
    while request is None and run.step < run.config.schedule.steps:
        run.telemetry.phase("optimizer")  # a save or an evaluation is over: what follows waits for the other ranks
        decision = control.decide()
        _check_saves(run, decision)
        request = _apply_decision(run, decision)
        if request is None:
            _train_one(run, control)
            if run.step % run.settings.checkpoint_interval == 0:
                save(run)
    if request is not None:
        return _stop(run, request)
    _refuse_late(run, control.decide())
    save(run)
    await_saves(run)
    run.telemetry.end(run.step, "finished")
    return FINISHED


def _train_one(run: Run, control: Control) -> None:
    step, telemetry = run.step + 1, run.telemetry
    telemetry.begin(step)
    _report_lapsed(run, step, settings_at(run, step))
    indices, next_position = run.position.take(run.schedule.batch_size(step))
    batch = run.loader.batch(indices, run.position, run.world.rank, run.world.size, run.schedule.seq_len(step))
    telemetry.loaded()
    seed_dropout(run.config, step, run.world.rank)
    hooks = Hooks(phase=telemetry.phase, after_backward=control.offer)
    statistics = train_step(run.model, run.optimizer, run.scaler, batch, hooks, run.config)
    run.loader.prefetch(next_position.take(run.schedule.batch_size(step + 1))[0], next_position, run.world.rank, run.world.size)
    telemetry.measured(statistics.names, statistics.values)
    known = run.optimizer.scheduled()
    run.step, run.position = step, next_position
    last, every = step == run.config.schedule.steps, run.config.evaluation.every
    if last or (every and step % every == 0):
        known["val_loss"] = _evaluate(run)
    sizes = {"tokens": run.schedule.tokens(step), "seq_len": run.schedule.seq_len(step)}
    telemetry.step(step, ranges_of(indices), known, **sizes, last=last)
    count_skipped(run)


def _report_lapsed(run: Run, step: int, keys: list[str]) -> None:
    if keys:
        run.telemetry.event("override_lapsed", step, keys=keys, effective=effective(run))


def _evaluate(run: Run) -> float:
    config, world = run.config, run.world
    batches = [
        lambda number=number: run.loader.evaluation_batch(number, config.data.batch_size, world.rank, world.size)
        for number in range(config.evaluation.batches)
    ]
    loss = evaluate(run.model, batches, lambda: run.telemetry.phase("eval"), config.parallel.micro_batch)
    dist.all_reduce(loss)
    mean: float = loss.item() / world.size
    return mean


def _check_saves(run: Run, decision: Decision) -> None:
    """Report what was committed meanwhile. Where a save failed on any rank, all raise together, each its own error."""
    report_commits(run)
    if decision.save_failed:
        await_saves(run)


def _apply_decision(run: Run, decision: Decision) -> str | None:
    """Act on what all ranks agreed upon, before the next step; the request to stop, if it is one."""
    step = run.step + 1
    if decision.unreadable is not None:
        run.telemetry.event("override_refused", step, id=None, reason=decision.unreadable)
    request = "stop_after_checkpoint" if decision.stop_signal else None
    if decision.overrides is not None:
        stop_request = _apply_live(run, decision.overrides, step)
        request = stop_request if stop_request is not None else request
    return request


def _apply_live(run: Run, overrides: Overrides, step: int) -> str | None:
    """Put a live change in force from `step` on, answer it, and act on its request."""
    refused = dict.fromkeys(unknown_settings(overrides), "this trainer has no such setting")
    if overrides.precision not in (None, run.config.numerics.precision):
        refused["precision"] = f"the model is sharded for {run.config.numerics.precision}; it takes a relaunch"
    refused |= {key: why for key, why in run.idle.items() if SETTINGS[key].is_asked(getattr(overrides, key))}
    late = apply_overrides(run, overrides)
    _report_lapsed(run, step, [key for key in settings_at(run, step) if key not in overrides.given])
    if refused:
        reason = "; ".join(f"{key}: {why}" for key, why in refused.items())
        run.telemetry.event("override_refused", step, id=overrides.id, reason=reason, keys=sorted(refused))
    live = effective(run)
    run.telemetry.event("override_applied", step, id=overrides.id, effective=live, request=overrides.request, skip_clamped=late)
    return _handle_request(run, overrides.request)


def _handle_request(run: Run, request: str | None) -> str | None:
    """A request to stop is handed on; a checkpoint is written now."""
    if request == "checkpoint_now" and run.step > 0:
        checkpoint_now(run)
    return request if request in ("stop_now", "stop_after_checkpoint") else None


def _refuse_late(run: Run, decision: Decision) -> None:
    if decision.overrides is not None or decision.unreadable is not None:
        own = decision.overrides.id if decision.overrides is not None else None
        run.telemetry.event("override_refused", run.step, id=own, reason="the last step is done; nothing is left to change")


def _stop(run: Run, request: str) -> int:
    if request == "stop_after_checkpoint" and run.step > 0:
        save(run)
    await_saves(run)
    run.telemetry.end(run.step, "stopped_on_request")
    return STOPPED
