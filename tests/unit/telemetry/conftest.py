"""A run directory that a test writes into like a trainer, and a launcher that shows what the test tells it to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sentinel.model.attempts import AttemptSpec, AttemptView, NotStarted


@dataclass
class World:
    run_dir: Path

    def attempt(self, number: int) -> Path:
        folder = self.run_dir / "attempts" / f"{number:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def stream(self, number: int) -> Path:
        return self.attempt(number) / "metrics.jsonl"

    def write(self, number: int, *lines: object) -> None:
        """Append lines: bytes as they are, anything else as JSON with its newline."""
        with self.stream(number).open("ab") as file:
            for line in lines:
                file.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    def start(self, number: int, resume_step: int = 0) -> None:
        self.write(number, {"kind": "start", "attempt": number, "resume_step": resume_step, "world_size": 2})

    def steps(self, number: int, first: int, last: int) -> None:
        self.write(
            number, *({"kind": "step", "step": step, "time_s": float(step), "loss": 2.0} for step in range(first, last + 1))
        )

    def beat(self, number: int, rank: int, content: object) -> None:
        folder = self.attempt(number) / "heartbeats"
        folder.mkdir(exist_ok=True)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        aside = folder / ".aside"
        aside.write_bytes(data)
        aside.rename(folder / f"rank-{rank:05d}.json")

    def checkpoint(self, step: int, attempt: int = 1, **fields: object) -> Path:
        folder = self.run_dir / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        manifest = {"v": 1, "step": step, "attempt": attempt, "cursor": step * 10, "files": {}} | fields
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder


@dataclass
class FakeLauncher:
    view: AttemptView = field(default_factory=lambda: NotStarted(1))
    looks: int = 0

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        self.looks += 1
        return self.view

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        raise AssertionError("telemetry starts nothing")

    def ensure_stopped(self, attempt: int) -> AttemptView:
        raise AssertionError("telemetry stops nothing")

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        raise AssertionError("telemetry signals nothing")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def launcher() -> FakeLauncher:
    return FakeLauncher()
