"""Which checkpoint an attached run goes on from: the one that is named, or an older one where that does not hold."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentinel.client.checkpoint_files import NotWhole, list_steps, name_of, open_checkpoint
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.client.spec import Resume


@dataclass(frozen=True)
class FoundResume:
    """`path` None: from the beginning. `error`: why neither; then the run cannot begin. `is_adopted`: nobody named it."""

    step: int = 0
    path: Path | None = None
    digest: str | None = None
    manifest: dict[str, Any] = field(default_factory=dict)
    passed_over: list[dict[str, Any]] = field(default_factory=list)
    is_adopted: bool = False
    error: str = ""


def choose(root: Path, requested: Resume | None, *, adopts: bool, is_supervised: bool) -> FoundResume:
    """Sentinel has compared every byte of what it names, so here the manifest and the sizes do; what nobody has looked at is read
    whole. `adopts`: without a request, the newest that is there."""
    folder = root / CHECKPOINTS
    steps = list_steps(folder)
    if not is_supervised:
        for leftover in folder.glob(".step-*.tmp"):  # nobody else writes here
            shutil.rmtree(leftover, ignore_errors=True)
    if requested is None and not adopts:
        if steps and not is_supervised:
            return FoundResume(
                error=f"{folder}: has checkpoints up to step {steps[-1]}; go on from them with attach(resume='newest_existing'), "
                "or choose another out_dir"
            )
        return FoundResume()
    below = requested.step if requested is not None else float("inf")
    candidates = [(root / requested.path, requested.step, requested.digest)] if requested is not None else []
    candidates += [(folder / name_of(step), step, None) for step in reversed(steps) if step < below]
    passed_over: list[dict[str, Any]] = []
    for path, step, digest in candidates:
        try:
            manifest, found = open_checkpoint(path, step, digest, every_byte=digest is None)
            int(manifest["cursor"])
            return FoundResume(step, path, found, manifest, passed_over, is_adopted=requested is None)
        except (NotWhole, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, NotWhole) else f"{path}: its manifest has no usable cursor ({error!r})"
            passed_over.append({"step": step, "reason": reason})
    if requested is None and not passed_over:
        return FoundResume()
    return FoundResume(
        error=f"{folder}: no checkpoint can be used; the first refusal: {passed_over[0]['reason']}. Restore one, or choose "
        "another directory"
    )
