"""Ranks, one for each processor, that compute all the time and meet after each step; and what else was computed."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

from tests.bench.spread import Window

SPAWN = multiprocessing.get_context("spawn")
PROCESSORS = sorted(os.sched_getaffinity(0))
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
STARTS_S = 120.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def train(meet: Any, steps: Any) -> None:
    """A rank: about ten milliseconds of a processor, then wait for the others. It has one thread: numpy asks for the number of
    its threads when it is loaded, so the variables must be there before. With two a rank, four threads turned in circles for two
    processors, and the pace was that of their scheduling."""
    import numpy

    values = numpy.random.default_rng(1).random((200, 200))
    values @ values
    assert len(os.listdir("/proc/self/task")) == 1, f"a rank computes in one thread; set {' and '.join(ONE_THREAD)}"
    while True:
        for _ in range(20):
            values @ values
        meet.wait()
        steps.value += 1


class BusyRanks:
    """`beside`: processes that are part of what is measured; what others use is told apart."""

    def __init__(self) -> None:
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        self._meet, self._steps = SPAWN.Barrier(len(PROCESSORS)), SPAWN.Value("q", 0, lock=False)  # kept: a rank opens it by name
        others = SPAWN.Value("q", 0, lock=False)
        counts = [self._steps, *[others] * (len(PROCESSORS) - 1)]
        self._ranks = [SPAWN.Process(target=train, args=(self._meet, count), daemon=True) for count in counts]
        for rank in self._ranks:
            rank.start()
        self.beside: list[int] = []
        self.others_share: list[float] = []  # of all processors, in each window

    def warm_up(self, seconds: float) -> None:
        """Until they make steps, and so long. Raises AssertionError where one has died."""
        deadline_s = time.monotonic() + STARTS_S
        while self._steps.value == 0:
            assert all(rank.is_alive() for rank in self._ranks), "a rank has died; its error stands above"
            assert time.monotonic() < deadline_s, f"no step within {STARTS_S:.0f} s"
            time.sleep(0.1)
        self.during(lambda: None, seconds)
        self.others_share.clear()

    def during(self, what: Callable[[], None], at_least_s: float) -> Window:
        """The steps that they make while this goes on, and until so many seconds are over."""
        used, ours, began_s, before = used_s(), self._used_s(), time.perf_counter(), self._steps.value
        what()
        time.sleep(max(0.0, at_least_s - (time.perf_counter() - began_s)))
        window = Window(time.perf_counter() - began_s, self._steps.value - before)
        foreign_s = used_s() - used - (self._used_s() - ours)
        self.others_share.append(max(0.0, foreign_s) / (window.seconds * len(PROCESSORS)))
        return window

    def _used_s(self) -> float:
        pids = [os.getpid(), *self.beside, *(rank.pid for rank in self._ranks if rank.pid is not None)]
        return sum(process_s(pid) for pid in pids)

    def kill(self) -> None:
        for rank in self._ranks:
            rank.kill()
            rank.join()


def used_s() -> float:
    """Processor seconds that these processors were not idle for, also those that the host took (steal)."""
    with open("/proc/stat", encoding="ascii") as file:
        rows = dict(line.split(maxsplit=1) for line in file if line.startswith("cpu"))
    ticks = 0
    for processor in PROCESSORS:
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, rows[f"cpu{processor}"].split())
        ticks += user + nice + system + irq + softirq + steal
    return ticks / TICKS_PER_S


def process_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
