"""The start of an attempt: continue from a checkpoint, put the launch's overrides in force, write the receipt of what then holds.

The receipt claims (`deterministic`) whether this attempt computes again, to the bit, what those before it computed; a supervisor
who repeats a stretch calls a difference hardware where it is claimed. Another number of ranks adds up in another order, and other
kernels round otherwise: a relaunch on a machine without a compiler is no broken one. What can be repeated begins at the
checkpoint, so the attempts since the one that wrote it count, and no older.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sentinel.client import loads
from sentinel.client.run_layout import stream_path

from . import checkpoint
from .config.changes import free_changes
from .config.loading import written_out
from .data_order import Span
from .exits import ConfigError
from .resuming import resume
from .run import Run, apply_overrides, effective, settings_at

CAPABILITIES = ["skip", "live_overrides", "attribution"]  # of PROTOCOL.md: all there are
BEFORE_KERNELS = "torch"  # what ran where a receipt or a manifest names none
RECEIPT_BYTES = 1 << 22


def begin(run: Run) -> None:
    """Continue from the checkpoint asked for, put the launch's overrides in force, and write the receipt of what then holds."""
    requested = run.session.spec.resume if run.session is not None else None
    found: checkpoint.Verified | None = None
    passed_over: list[dict[str, Any]] = []
    if run.session is None and run.world.rank == 0:
        checkpoint.discard_unfinished(run.root)  # a supervisor does it itself, when it knows the old attempt to be dead
    if requested is not None or (run.session is None and run.launch.resume):
        found, passed_over = resume(run, requested)
    late: list[Span] = []
    if run.session is not None:
        overrides = run.session.spec.overrides
        if overrides.loss_scale is not None and not run.scaler.active:
            precision = run.config.numerics.precision
            raise ConfigError(f"spec.json: overrides.loss_scale: {precision} has none; write null, or precision fp16")
        late = apply_overrides(run, overrides)
    settings_at(run, run.step + 1)
    config_changed = changed_since(run, found) if found is not None else {}
    run.repeats = repeats_others(run, found)
    run.telemetry.log(f"{written_out(run.config)}# kernels: {run.kernels.name}: {run.kernels.why}")
    run.telemetry.start(
        resume_step=run.step,
        resume_digest=found.digest if found is not None else None,
        world_size=run.world.size,
        params=run.params,
        tokens_per_step=run.schedule.tokens_per_step,
        effective=effective(run),
        resume_asked=asdict(requested) if requested is not None else None,
        resume_verified=None if found is None else "supervisor" if found.is_vouched else "trainer",
        passed_over=passed_over,
        skip_clamped=late,
        preset=run.launch.recipe,
        steps=run.config.schedule.steps,
        gpus=run.world.size if run.world.device.type == "cuda" else 0,
        kernels=asdict(run.kernels),
        cursor=run.position.cursor,
        capabilities=CAPABILITIES,
        config_changed=config_changed,
    )
    if config_changed:
        changes = ", ".join(f"{name} {was} → {now}" for name, (was, now) in config_changed.items())
        run.telemetry.log(f"other settings than those of the checkpoint: {changes}")
    for one in passed_over:
        run.telemetry.log(f"passed over the checkpoint of step {one['step']}: {one['reason']}")
    if passed_over:
        run.telemetry.event("resumed_older", run.step, asked_step=requested.step if requested else None, passed_over=passed_over)


def changed_since(run: Run, found: checkpoint.Verified) -> dict[str, list[Any]]:
    """Name → [was, is] of what differs from the checkpoint: settings, and which kernels ran, by which the last bits differ."""
    differing, was = free_changes(found.manifest["config"], run.config), found.manifest.get("kernels", BEFORE_KERNELS)
    return differing | ({"kernels": [was, run.kernels.name]} if was != run.kernels.name else {})


def repeats_others(run: Run, found: checkpoint.Verified | None) -> bool:
    """Asked by rank 0 alone, who writes the receipt."""
    if run.session is None or run.world.rank != 0:
        return True
    since = found.manifest.get("attempt") if found is not None else None
    first = since if isinstance(since, int) else 1
    return repeats(run.session.run_dir, range(first, run.session.attempt), run.world.size, run.kernels.name)


def repeats(run_dir: Path, attempts: Iterable[int], world_size: int, kernels: str) -> bool:
    """Did all of these attempts that trained at all train on so many ranks, with kernels of this name?"""
    receipts = [receipt for attempt in attempts if (receipt := _receipt(stream_path(run_dir, attempt))) is not None]
    return all((receipt.get("world_size"), _kernels(receipt)) == (world_size, kernels) for receipt in receipts)


def _receipt(stream: Path) -> dict[str, Any] | None:
    """The first line of a stream. None where there is none: nothing that could be compared follows."""
    try:
        with stream.open("rb") as file:
            line = loads(file.readline(RECEIPT_BYTES))
    except (OSError, ValueError):
        return None
    return line if isinstance(line, dict) and line.get("kind") == "start" else None


def _kernels(receipt: dict[str, Any]) -> Any:
    kernels = receipt.get("kernels")
    return kernels.get("name") if isinstance(kernels, dict) else BEFORE_KERNELS
