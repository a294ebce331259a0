"""The part of spec.json that tells how a trainer under a profile is started and followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.file_digest import SHA256
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import spec_path
from sentinel.client.strict_json import loads
from sentinel.trainers.profile import TrainerProfile, as_document


@dataclass(frozen=True, slots=True)
class TrainerSpec:
    """`argv`: the trainer's command as rendered. `root`: of its checkpoints. `asserted`: settings that were passed as arguments,
    and `skip`. `resume_step`: None for a start from the beginning, or by the trainer's own choice where it `is_first`. `cwd`:
    where it is started. `reads_digests`: the algorithms that the supervisor of this attempt reads."""

    profile: TrainerProfile
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str
    root: Path | None
    asserted: Mapping[str, Any]
    resume_step: int | None
    is_first: bool
    reads_digests: tuple[str, ...] = (SHA256,)

    def to_json(self) -> dict[str, Any]:
        return {
            "profile": as_document(self.profile),
            "argv": list(self.argv),
            "environment": dict(self.environment),
            "root": None if self.root is None else str(self.root),
            "asserted": dict(self.asserted),
            "is_first": self.is_first,
        }


def read_trainer_spec(run_dir: Path, attempt: int) -> TrainerSpec | None:
    """Of an attempt; None where it was started without a profile. Raises OSError, ValueError."""
    raw = loads(read_regular(spec_path(run_dir, attempt)))
    plain = raw.get("trainer")
    if plain is None:
        return None
    return TrainerSpec(
        profile=TrainerProfile.model_validate(plain["profile"]),
        argv=tuple(plain["argv"]),
        environment=dict(plain["environment"]),
        cwd=raw["cwd"],
        root=None if plain["root"] is None else Path(plain["root"]),
        asserted=dict(plain["asserted"]),
        resume_step=None if raw["resume"] is None else raw["resume"]["step"],
        is_first=plain["is_first"],
        reads_digests=tuple(raw.get("reads_digests") or (SHA256,)),
    )
