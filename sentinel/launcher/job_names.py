"""What a run is called at a scheduler."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path


def job_name_of(run_dir: Path) -> str:
    """Such as `big-1f0c93aa`: no other run has it, also none of the same name elsewhere. It never changes, for a job that was
    submitted by an older version is looked for by it. `run_dir`: absolute, without links."""
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in run_dir.name)[:40]
    return f"{name}-{mark_of(str(run_dir))}"


def mark_of(text: str) -> str:
    """Eight characters that tell it from another."""
    return sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]
