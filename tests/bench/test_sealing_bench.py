"""What sealing a checkpoint costs training: two processes that compute all the time and meet after each step, and a checkpoint of
1 GiB that is sealed beside them as the follower does it, at nice 10.

    make bench-sealing

Training can lose no more than the processor time that the seal takes, where every processor is in use; that is printed first.
Then the loss itself: the steps while a checkpoint is sealed beside the steps of the time before and behind it. Prints; asserts
nothing about time.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.profile import CheckpointFiles
from sentinel.trainers.sealing import seal_new

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]
MIB = 1 << 20
SIZE_MIB = 1024
ROUNDS = 6
WINDOW_S = 3.0
MINUTES = (10, 30, 60)
FORK = multiprocessing.get_context("fork")


def train(meet: Any, steps: Any) -> None:
    """A rank: about ten milliseconds of a processor, then wait for the other."""
    values = numpy.random.default_rng(1).random((200, 200))
    while True:
        for _ in range(20):
            values @ values
        meet.wait()
        steps.value += 1


def seal_when_asked(root: Path, run_dir: Path, places: CheckpointFiles, pipe: Any) -> None:
    """As a follower: at nice 10. Sends the seconds of a processor that each seal took."""
    os.nice(10)
    while pipe.recv():
        began_s = time.process_time()
        assert len(list(seal_new(run_dir, places, find_checkpoints(places, root), 1))) == 1
        pipe.send(time.process_time() - began_s)
        shutil.rmtree(run_dir)


@pytest.fixture
def rate() -> Any:
    """Starts the two ranks; gives what counts their steps from one call to the next, as (seconds, steps)."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    meet, steps = FORK.Barrier(2), FORK.Value(ctypes.c_longlong, 0, lock=False)
    idle = FORK.Value(ctypes.c_longlong, 0, lock=False)
    ranks = [FORK.Process(target=train, args=(meet, count), daemon=True) for count in (steps, idle)]
    for rank in ranks:
        rank.start()

    def during(what: Callable[[], None]) -> tuple[float, int]:
        began_s, before = time.perf_counter(), steps.value
        what()
        time.sleep(max(0.0, WINDOW_S - (time.perf_counter() - began_s)))
        return time.perf_counter() - began_s, steps.value - before

    yield during
    for rank in ranks:
        rank.kill()
        rank.join()


@pytest.mark.parametrize("files", ["replaced", "rewritten"])
def test_sealing_beside_two_processes_that_compute(tmp_path: Path, rate: Any, files: str) -> None:
    places = CheckpointFiles.model_validate({"path": "x", "pattern": "step-{step}", "complete": ["state"], "files": files})
    state = tmp_path / "out" / "step-100" / "state"
    state.parent.mkdir(parents=True)
    with open(state, "wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    pipe, theirs = FORK.Pipe()
    sealer = FORK.Process(target=seal_when_asked, args=(tmp_path / "out", tmp_path / "run", places, theirs), daemon=True)
    sealer.start()
    cpu_s: list[float] = []
    lost_s: list[float] = []

    def seal() -> None:
        pipe.send(True)
        cpu_s.append(pipe.recv())

    for _ in range(ROUNDS):
        with open(state, "rb") as file:  # as a trainer leaves it, in memory; a seal lets go of what it read
            while file.read(MIB):
                pass
        quiet_s, quiet = rate(lambda: None)
        sealed_s, sealed = rate(seal)
        after_s, after = rate(lambda: None)
        lost_s.append(sealed_s - sealed * (quiet_s + after_s) / (quiet + after))
    sealer.kill()
    size = SIZE_MIB / 1024
    shares = ", ".join(f"{statistics.median(cpu_s) / (minutes * 60):.3%} of {minutes} minutes" for minutes in MINUTES)
    print(f"\nsealing   {files}: {statistics.median(cpu_s) / size:.2f} s of a processor a GiB ({shares})")
    error = statistics.stdev(lost_s) / len(lost_s) ** 0.5
    mean, median = statistics.mean(lost_s) / size, statistics.median(lost_s) / size
    print(
        f"sealing   {files}: training lost {mean:.2f} s a GiB (standard error {error:.2f}), median {median:.2f} s, {ROUNDS} seals"
    )
