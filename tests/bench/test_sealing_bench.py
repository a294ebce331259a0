"""What sealing a checkpoint costs training: ranks that compute on every processor all the time and meet after each step, and a
checkpoint that is sealed beside them as the follower does it, at nice 10.

    make bench-sealing            # ROUNDS=6 for a shorter one

Training can lose no more than the processor time that the seal takes; that is printed first. Then what it lost by the clock. In
each round there are windows, there and back, in which nothing is done, the checkpoint is sealed with its files linked, with its
files copied, and a known time of a processor is burnt at nice 10. The last shows whether the clock can be believed: what is found
for it must be more than nothing, and no more than was burnt. What other programs took of the processors meanwhile is told, too.
Prints; asserts nothing about time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.profile import CheckpointFiles
from sentinel.trainers.sealing import seal_new
from tests.bench.busy_ranks import PROCESSORS, SPAWN, BusyRanks
from tests.bench.spread import Loss, Window, lost_s, there_and_back

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]
MIB = 1 << 20
SIZE_MIB = 512
GIB = SIZE_MIB / 1024
ROUNDS = int(os.environ.get("ROUNDS", "10"))
WINDOW_S = 6.0
KNOWN_S = 0.3
NOTHING, KNOWN = "nothing", "known"
SEALED = {"linked": "replaced", "copied": "rewritten"}  # by how it is called here, what a profile says of the files
WAYS = (NOTHING, "linked", KNOWN, "copied")
MINUTES = (10, 30, 60)
QUIET_SHARE = 0.02


def do_when_asked(root: Path, run_dir: Path, pipe: Any) -> None:
    """As a follower: at nice 10. Does what it is asked for, and sends the seconds of a processor that it took; cleans up when it
    is asked for that, which is no part of a seal."""
    os.nice(10)
    while (way := pipe.recv()) is not None:
        began_s = time.process_time()
        if way == KNOWN:
            burn(KNOWN_S)
        elif way in SEALED:
            words = {"path": "x", "pattern": "step-{step}", "complete": ["state"], "files": SEALED[way]}
            places = CheckpointFiles.model_validate(words)
            assert len(list(seal_new(run_dir, places, find_checkpoints(places, root), 1))) == 1
        elif way == "clean up":
            shutil.rmtree(run_dir, ignore_errors=True)
        pipe.send(time.process_time() - began_s)


def burn(seconds: float) -> None:
    block, began_s = bytes(MIB), time.process_time()
    while time.process_time() - began_s < seconds:
        hashlib.sha256(block).digest()


@pytest.fixture
def ranks() -> Iterator[BusyRanks]:
    ranks = BusyRanks()
    yield ranks
    ranks.kill()


def test_sealing_beside_ranks_that_compute(tmp_path: Path, ranks: BusyRanks) -> None:
    state = tmp_path / "out" / "step-100" / "state"
    state.parent.mkdir(parents=True)
    with open(state, "wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    pipe, theirs = SPAWN.Pipe()
    follower = SPAWN.Process(target=do_when_asked, args=(tmp_path / "out", tmp_path / "run", theirs), daemon=True)
    follower.start()
    assert follower.pid is not None
    ranks.beside.append(follower.pid)
    cpu_s: dict[str, list[float]] = {way: [] for way in WAYS}

    def ask(way: str) -> float:
        pipe.send(way)
        return float(pipe.recv())

    ask("clean up")  # it is up
    ranks.warm_up(WINDOW_S)
    losses: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    for _ in range(ROUNDS):
        windows: dict[str, list[Window]] = {way: [] for way in WAYS}
        for way in there_and_back(WAYS):
            read(state)
            windows[way].append(ranks.during(lambda way=way: cpu_s[way].append(ask(way)), WINDOW_S))
            ask("clean up")
        for way, found in losses.items():
            found.append(lost_s(windows, way, NOTHING) / (1.0 if way == KNOWN else GIB))
    pipe.send(None)
    tell(cpu_s, {way: Loss.of(found) for way, found in losses.items()}, ranks.others_share)


def read(state: Path) -> None:
    """Into memory, where a trainer leaves it; a seal lets go of what it has read."""
    with open(state, "rb") as file:
        while file.read(MIB):
            pass


def tell(cpu_s: dict[str, list[float]], losses: dict[str, Loss], others: list[float]) -> None:
    print(f"\nsealing   {len(PROCESSORS)} ranks on as many processors, {SIZE_MIB} MiB, {ROUNDS} rounds there and back")
    for way in SEALED:
        took_s = statistics.median(cpu_s[way]) / GIB
        print(f"sealing   {way}: {took_s:.2f} s of a processor a GiB ({shares(took_s)})")
        print(f"sealing   {way}: by the clock training {losses[way].words('s a GiB')}: at most {shares(losses[way].high)}")
    seen = "can be believed" if losses[KNOWN].sees(KNOWN_S) else "cannot be believed"
    print(f"sealing   the clock {seen}: beside {KNOWN_S:.2f} s burnt at nice 10 training {losses[KNOWN].words('s')}")
    quiet = "quiet" if statistics.median(others) < QUIET_SHARE else "not quiet, so measure again when it is"
    print(f"sealing   others took {statistics.median(others):.1%} of the processors, {max(others):.1%} at most: {quiet}")


def shares(lost_s: float) -> str:
    """Of the time between two checkpoints."""
    return ", ".join(f"{max(0.0, lost_s) / (minutes * 60):.3%} of {minutes} minutes" for minutes in MINUTES)
