"""The bundled trainer with `--warm`, two ranks: supervisor and ranks killed, resumed warm, equal bit for bit."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sentinel.cli.bundled_trainer import launch_words, slowed_words
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.run_files.warm_standing import read_warm
from tests.integration.supervised import Supervised, wait_for
from tests.integration.test_trainer_launch import SIZES, launch
from tests.integration.test_trainer_recovery import shards_of

__all__ = ["launch"]
STEPS = 1500
SETTING = ("--set", f"schedule.steps={STEPS}", "checkpoint.every=100", "parallel.threads=1")


def reserve_of(run: Supervised) -> list[int]:
    """Warm ranks that wait: those of the run's attempts carry its mark."""
    found = [p.pid for p in psutil.process_iter(["cmdline"]) if any("warm_rank.py" in word for word in p.info["cmdline"] or ())]
    return [pid for pid in found if pid not in run.living()]


def is_ready(run: Supervised) -> bool:
    standing = read_warm(run.run_dir)
    return standing is not None and standing.state == "ready"


@contextlib.contextmanager
def supervised(run_dir: Path, *setting: str) -> Iterator[Supervised]:
    command = ["env", "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1", *launch_words(2), *SIZES, *setting]
    run = Supervised(run_dir, command, options=["--warm"])
    yield run
    if not run.has_ended:
        run.kill()
    for pid in run.living():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Supervised]:
    with supervised(tmp_path / "run", *SETTING) as run:
        yield run


@pytest.mark.slow
def test_a_killed_rank_is_resumed_warm_and_the_run_ends_as_an_unhurt_one(run, launch) -> None:  # type: ignore[no-untyped-def]
    run.start()
    wait_for("a reserve", lambda: is_ready(run))
    waiting = reserve_of(run)
    assert len(waiting) >= 2
    run.kill()
    wait_for("the end of its reserve", lambda: not set(waiting) & set(reserve_of(run)))
    assert run.living(), "training outlives its supervisor"

    (run.run_dir / "warm.json").unlink()
    run.start()
    wait_for("another reserve", lambda: is_ready(run))
    assert run.attempts() == [1]
    beat = json.loads((AttemptFiles.of(run.run_dir, 1).heartbeats / "rank-00001.json").read_text())
    os.kill(beat["pid"], signal.SIGKILL)
    wait_for("a step of the second attempt", lambda: run.last_step(2) > 0)
    standing = read_warm(run.run_dir)
    assert standing is not None
    assert standing.last == "attempt 2: warm"
    assert run.wait(240.0) == 0, run.log
    assert run.attempts() == [1, 2]
    assert len(run.incidents()) == 1, "the crash, and nothing else"
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))

    assert_equal_to_the_bit(run, launch(1, *SETTING, ranks=2, run="whole").finish(), STEPS)


def assert_equal_to_the_bit(run: Supervised, whole: Any, steps: int) -> None:
    last = run.run_dir / "checkpoints" / f"step-{steps:08d}"
    assert {p.name: p.read_bytes() for p in last.iterdir() if p.suffix in (".distcp", ".bin")} == shards_of(whole, steps)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_killed_three_times_and_resumed_warm_each_time_it_ends_equal_to_the_bit(tmp_path, launch, precision) -> None:  # type: ignore[no-untyped-def]
    """What tests/integration/test_trainer_bitwise.py asks of cold launches. The unhurt run is not slowed down."""
    steps, drawn = 500, random.Random(20261127)
    setting = ("--set", f"schedule.steps={steps}", "checkpoint.every=10", "parallel.threads=1", f"numerics.precision={precision}")
    with supervised(tmp_path / "run", *setting, *slowed_words(2)) as run:
        run.start()
        for attempt in (1, 2, 3):
            wait_for(f"a reserve beside attempt {attempt}", lambda n=attempt: is_ready(run) and run.last_step(n) > 0)
            rank = drawn.randrange(2)
            beat = json.loads((AttemptFiles.of(run.run_dir, attempt).heartbeats / f"rank-{rank:05d}.json").read_text())
            os.kill(beat["pid"], signal.SIGKILL)
            wait_for(f"a step of attempt {attempt + 1}", lambda n=attempt: run.last_step(n + 1) > 0)
            standing = read_warm(run.run_dir)
            assert standing is not None
            assert standing.last == f"attempt {attempt + 1}: warm"
        assert run.wait(600.0) == 0, run.log
        assert sorted(run.surviving()) == list(range(1, steps + 1))
        assert [one["kind"] for one in run.incidents()] == ["crash"] * len(run.incidents())
        assert_equal_to_the_bit(run, launch(1, *setting, ranks=2, run="whole").finish(), steps)
