"""The run of `told_run` with its streams and some evidence: attempt 2 spikes at step 379 and is rolled back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import stream_path
from sentinel.journal.session import take_run
from sentinel.model import facts as f
from tests.unit.told_run import Facts, at, write_run

ONSET = 379


def write_streamed(run_dir: Path, until: float = 1e9, facts: Facts | None = None) -> Path:
    write_run(run_dir, until, facts=facts)
    write_steps(run_dir, 1, range(1, 133))
    write_steps(run_dir, 2, range(101, 385), spike=ONSET)
    write_steps(run_dir, 3, range(351, 601))
    return run_dir


def write_steps(run_dir: Path, attempt: int, steps: Sequence[int], spike: int | None = None, **more: Any) -> Path:
    path = stream_path(run_dir, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        start = {"kind": "start", "v": 1, "attempt": attempt, "resume_step": steps[0] - 1, "steps": 600, "world_size": 2}
        file.write(json.dumps(start) + "\n")
        for step in steps:
            is_bad = spike is not None and step >= spike
            loss = 8.6 if is_bad else 2.2 + math.exp(-step / 90)
            file.write(json.dumps({"step": step, "loss": loss, "grad_norm": 40.0 if is_bad else 0.5, "lr": 3e-4, **more}) + "\n")
    return path


def add_facts(run_dir: Path, facts: Iterable[tuple[float, f.Fact]]) -> None:
    """At the end of its journal."""
    with take_run(run_dir) as session:
        for when, moment in groupby(facts, key=lambda one: one[0]):
            session.journal.append(at(when), [fact for _, fact in moment], session.epoch)
