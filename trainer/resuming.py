"""A run brought back to where a checkpoint stood: all ranks agree on one; one that does not hold is passed over for an older."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from sentinel.client import Resume

from . import checkpoint
from .checkpoint.sharing import assist, dismiss, read_together
from .checkpoint.writing import load
from .config.changes import refuse_changes
from .data_order import Order, Position
from .exits import DataError
from .run import Run


def resume(run: Run, requested: Resume | None) -> tuple[checkpoint.Verified | None, list[dict[str, Any]]]:
    """Restore what was asked for, or the newest older one that holds; what was passed over, and why. Raises DataError where none
    does or the data is other data, ConfigError where a fixed setting differs. What a refused one left behind is overwritten by
    the next: a checkpoint brings back everything that `Run` lists."""
    refused: list[dict[str, Any]] = []
    while True:
        below = refused[-1]["step"] if refused else None
        found, passed_over = _agree_on_resume(run, requested, below)
        refused += passed_over
        if found is None:
            return None, refused
        try:
            check_settings(found)
        except DataError as error:
            refused.append({"step": found.step, "reason": str(error)})
            continue
        refuse_another_run(run, found)
        try:
            restore(run, found)
            return found, refused
        except DataError as error:
            refused.append({"step": found.step, "reason": str(error)})


def check_settings(found: checkpoint.Verified) -> None:
    """Raises DataError for a manifest without settings: it cannot be matched with a run."""
    if not isinstance(found.manifest.get("config"), Mapping):
        raise DataError(f"{found.path}: manifest.json: config is {found.manifest.get('config')!r}, not the settings of a run")


def refuse_another_run(run: Run, found: checkpoint.Verified) -> None:
    """Raises ConfigError where the checkpoint is of other fixed settings, DataError where it is of other data: no older one
    would do either. Nothing is loaded yet, and nothing overwritten."""
    refuse_changes(str(found.path), found.manifest["config"], run.config)
    was, own = found.manifest.get("corpus"), run.loader.corpus.digest
    if was != own:
        raise DataError(
            f"{found.path}: was trained on data of digest {was}, data.path {run.config.data.path} holds {own}: the same sample "
            "ranges would mean other text. Point data.path to the data of the first launch, or start anew in another --out-dir"
        )


def restore(run: Run, found: checkpoint.Verified) -> None:
    """Continue from a verified checkpoint. Raises DataError (on every rank) if what was loaded does not match its manifest, or
    the manifest lacks what a run needs: only a supervisor knows the manifest's own digest."""
    state = run.optimizer.state()
    load(found, run.world, state)
    checkpoint.compare_numbers(found, run.optimizer.numbers())
    run.optimizer.adopt_count(state["adam.step"])
    try:
        _adopt(run, found)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise DataError(f"{found.path}: manifest.json lacks what a resume needs ({type(error).__name__}: {error})") from None


def _adopt(run: Run, found: checkpoint.Verified) -> None:
    """Restore what the manifest records of a run, the same on every rank."""
    manifest = found.manifest
    run.optimizer.adopt_history(manifest.get("history", {}))
    run.scaler.restore(manifest["loss_scaler"])
    orders = tuple(Order(start, seed) for start, seed in manifest["orders"])
    run.position, _ = Position(orders).skipping(manifest["skip"])
    run.position = Position(orders, manifest["cursor"], run.position.skip)
    run.step = found.step
    run.skipped_in_row = manifest["skipped_in_row"]
    run.telemetry.restore(manifest)
    run.saver.continue_from(found)


def _agree_on_resume(
    run: Run, requested: Resume | None, below: int | None
) -> tuple[checkpoint.Verified | None, list[dict[str, Any]]]:
    """Rank 0 chooses, and all ranks read for it; all get the same answer or the same DataError. `below`: older than this step."""
    outcome: list[Any] = [None]
    if run.world.rank == 0:
        try:
            outcome[0] = checkpoint.choose_resume(run.root, requested, below, lambda found: read_together(found, run.world))
        except DataError as error:
            outcome[0] = str(error)
        finally:
            dismiss(run.world)
    else:
        assist(run.world)
    dist.broadcast_object_list(outcome, src=0, group=run.world.storage)
    if isinstance(outcome[0], str):
        raise DataError(outcome[0])
    found, passed_over = outcome[0]
    return found, passed_over
