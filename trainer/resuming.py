"""A run brought back to where a checkpoint stood: all ranks agree on one; one that does not hold is passed over for an older."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from sentinel.client import Resume
from trainer import checkpoint
from trainer.config.loading import fixed_settings, value_of
from trainer.exits import ConfigError, DataError
from trainer.order import Order, Position

if TYPE_CHECKING:
    from trainer.run import Run


def resume(run: Run, asked: Resume | None) -> tuple[checkpoint.Verified | None, list[dict[str, Any]]]:
    """Restore what was asked for, or the newest older one that holds; what was passed over, and why. Raises DataError where none
    does. What a refused one left behind is overwritten by the next: a checkpoint brings back everything that `Run` lists."""
    refused: list[dict[str, Any]] = []
    while True:
        below = refused[-1]["step"] if refused else None
        found, passed_over = _agree_on_resume(run, asked, below)
        refused += passed_over
        if found is None:
            return None, refused
        try:
            restore(run, found)
            return found, refused
        except DataError as error:
            refused.append({"step": found.step, "reason": str(error)})


def restore(run: Run, found: checkpoint.Verified) -> None:
    """Stand where a verified checkpoint stood. Raises ConfigError if it is of another model, batch or data order, DataError (on
    every rank) if what was loaded is not what its manifest says."""
    manifest, own = found.manifest, run.config.model_dump(mode="json")
    for name in fixed_settings():
        was, now = value_of(manifest["config"], name), value_of(own, name)
        if was != now:
            raise ConfigError(
                f"{found.path}: was written with {name}={was!r}, this run has {now!r}; "
                f"start with --set {name}={was}, or from scratch"
            )
    state = run.optimizer.state()
    checkpoint.load(found, run.world, state)
    checkpoint.compare_numbers(found, run.optimizer.numbers())
    run.optimizer.adopt_count(state["adam.step"])
    run.optimizer.adopt_history(manifest.get("history", {}))
    run.scaler.restore(manifest["loss_scaler"])
    orders = tuple(Order(start, seed) for start, seed in manifest["orders"])
    run.position, _ = Position(orders).skipping(manifest["skip"])
    run.position = Position(orders, manifest["cursor"], run.position.skip)
    run.step = found.step
    run.skipped_in_row = manifest["skipped_in_row"]
    run.damage.restore(manifest)
    run.telemetry.restore(manifest)
    run.parent = {"step": found.step, "path": f"checkpoints/{found.path.name}", "digest": found.digest}


def _agree_on_resume(
    run: Run, asked: Resume | None, below: int | None
) -> tuple[checkpoint.Verified | None, list[dict[str, Any]]]:
    """Rank 0 verifies, all ranks get the same answer or the same DataError. `below`: older than this step."""
    answer: list[Any] = [None]
    if run.world.rank == 0:
        try:
            answer[0] = checkpoint.choose_resume(run.root, asked, below)
        except DataError as error:
            answer[0] = str(error)
    dist.broadcast_object_list(answer, src=0, group=run.world.storage)
    if isinstance(answer[0], str):
        raise DataError(answer[0])
    return answer[0]
