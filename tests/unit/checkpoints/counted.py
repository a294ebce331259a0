"""Counts the values of files as a verification does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from sentinel.checkpoints.tensors.counting import Counting
from sentinel.model.saved import SavedValues


def count(folder: Path, *names: str, block_bytes: int = 1 << 20) -> SavedValues:
    counting = Counting(folder)
    counting.expect(names)
    for name in names:
        data = (folder / name).read_bytes()
        counted = counting.begin(name, len(data))
        for offset in range(0, len(data), block_bytes):
            counted.feed(offset, data[offset : offset + block_bytes])
        counting.end(name, counted)
    return counting.found()


def commit(run_dir: Path, step: int) -> Path:
    """A manifest without numbers over whatever lies in the folder of this step."""
    folder = run_dir / "checkpoints" / f"step-{step:08d}"
    files = {}
    for path in (path for path in sorted(folder.rglob("*")) if path.is_file()):
        data = path.read_bytes()
        files[path.relative_to(folder).as_posix()] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps({"v": 1, "step": step, "attempt": 1, "cursor": step, "files": files}))
    return folder
