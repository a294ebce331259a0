"""A run's saves: what goes into a manifest, and how the loop reports asynchronous commits."""

from __future__ import annotations

import time
from typing import Any

import torch

from .run import Run, count_skipped


def save(run: Run) -> None:
    """Save the step just done, behind the steps to come; if that is done or under way already, nothing. Raises SaveError or
    LeaseLostError where an earlier save, or this one, could not be committed."""
    if run.saver.newest == run.step:
        return
    began_s = run.telemetry.clock()
    run.telemetry.phase("checkpoint")
    telemetry_state = run.telemetry.state()
    count_skipped(run)
    details = {
        "time_s": time.time(),
        "samples": run.schedule.samples_before(run.step + 1),
        "attempt": run.session.attempt if run.session is not None else 0,
        "world_size": run.world.size,
        "rng": {"seed": run.config.init.seed, "streams": "rng-*.bin"},
        "loss_scaler": run.scaler.state(),
        "cursor": run.position.cursor,
        "orders": [[order.start, order.data_seed] for order in run.position.orders],
        "skip": [list(entry[:2] if entry[2] == run.position.data_seed else entry) for entry in run.position.skip],
        "skipped_in_row": run.skipped_in_row,
        "history": run.optimizer.history(),
        "metrics": run.optimizer.numbers() | _last_metrics(telemetry_state["recent"]),
        **telemetry_state,
        "torch": torch.__version__,
        "kernels": run.kernels.name,
        "config": run.config.model_dump(mode="json"),
        "padded_vocab": run.model.embed.weight.shape[0],
        "corpus": run.loader.corpus.digest,
    }
    run.saver.save(run.step, run.optimizer.state(), details, began_s)
    report_commits(run)


def report_commits(run: Run) -> None:
    """Report the saves that were committed since the last call."""
    for saved in run.saver.committed():
        cost = {"seconds": round(saved.seconds, 4), "blocked_s": round(saved.blocked_s, 4)}
        run.telemetry.event("checkpoint_committed", saved.step, path=saved.path, digest=saved.digest, **cost)
        if saved.pruned:
            steps = ", ".join(map(str, saved.pruned))
            run.telemetry.log(f"deleted the checkpoints of steps {steps} (checkpoint.keep_last, checkpoint.keep_every)")


def await_saves(run: Run) -> None:
    """Wait until no save is in flight, and report the commits. Raises as `save` does."""
    if run.saver.in_flight:
        run.telemetry.phase("checkpoint")
        try:
            run.saver.wait()
        finally:
            report_commits(run)


def checkpoint_now(run: Run) -> None:
    """Save the step just done, wait for its commit and report it; report it again if it was saved already."""
    was_saved = run.saver.newest == run.step and not run.saver.in_flight
    save(run)
    await_saves(run)
    if was_saved and run.saver.parent is not None:
        place = {"path": run.saver.parent["path"], "digest": run.saver.parent["digest"]}
        run.telemetry.event("checkpoint_committed", run.step, seconds=0.0, blocked_s=0.0, **place)


def _last_metrics(recent: list[dict[str, Any]]) -> dict[str, Any]:
    """Loss and gradient norm of the last step's line."""
    last = recent[-1] if recent else {}
    return {name: last[name] for name in ("loss", "grad_norm") if name in last}
