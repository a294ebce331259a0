"""What doctor's checks look at, and what they give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sentinel.journal.run_file import RunFile
from sentinel.model.state import Attempt, RunState
from sentinel.trainers.spec import TrainerSpec

Standing = Literal["fine", "note", "unknown", "missing"]
YOUNG_S = 600.0  # a large model is loaded and compiled for minutes before its first step


@dataclass(frozen=True, slots=True)
class Check:
    """One thing. `what`: how it stands, a sentence. `remedy`: one line; empty where it is fine. note: it is as it is meant
    to be, and still worth knowing."""

    topic: str
    standing: Standing
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What the checks look at. `alive`: whether processes of the newest attempt live; None where that cannot be seen."""

    run_dir: Path
    run: RunFile
    state: RunState
    attempt: Attempt | None
    alive: bool | None
    now_s: float
    spec: TrainerSpec | None

    @property
    def is_young(self) -> bool:
        """Whether what is not there yet may still come."""
        return self.attempt is not None and self.alive is not False and self.now_s - self.attempt.launched_s < YOUNG_S
