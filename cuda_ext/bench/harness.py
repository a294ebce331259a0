"""Times an op beside its peers: in one process, in turns, as a share of the copy bandwidth measured in the same turns.

A file `cuda_ext/bench/<op>.py` gives the cases of its op:

    def cases(device: torch.device, few: bool = False) -> Iterable[Case]:  # few: only those that matter most
        ...
        yield Case(
            op="add_norm forward", shape="65536 x 768", dtype="bfloat16", moved_bytes=4 * x.nbytes,
            ours=lambda ops: ops.add_norm(x, residual, weight, None, 1e-5, False),
            peers={"torch": lambda: ..., "torch.compile": compiled(function, x, residual)},
            goal=0.9,
        )

`ours` is called with `torch.ops.sentinel`, and again with a namespace of the same ops whose statistics were compiled out. A
generator frees one case's tensors before the next. On a GPU a case should move several times the L2 cache (1 GB is right); on a
CPU a few hundred megabytes at most. A peer that is not installed is left out (`installed`); one that fails is recorded.
"""

from __future__ import annotations

import ctypes
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

Way = Callable[[], object]
OURS, BARE, COPY = "ours", "ours, no statistics", "copy"
BLOCK_S = {"cuda": 0.004, "cpu": 0.02}  # of calls timed as one: long beside what an event or the clock costs
COPY_BYTES = {"cuda": 1 << 31, "cpu": 1 << 27}
CALLS_MAX = 1000
WARM_UP_CALLS = 3
AHEAD_CYCLES = 2_000_000  # a millisecond: as long as the host may take until the first call of a block is under way


@dataclass(frozen=True)
class Case:
    op: str
    shape: str
    dtype: str
    moved_bytes: int
    """The unavoidable traffic: each tensor that is read or written, once."""
    ours: Callable[[Any], object]
    peers: Mapping[str, Way] = field(default_factory=dict)
    goal: float | None = None
    """The share of the copy bandwidth to reach on an H200."""
    is_bare_too: bool = True
    """False where nothing is left of the op without its statistics."""


@dataclass(frozen=True)
class Measured:
    op: str
    shape: str
    dtype: str
    moved_bytes: int
    goal: float | None
    copy_gb_s: float
    ms: dict[str, float]
    """Each way's median time of a call."""
    share: dict[str, float]
    """Each way's share of the copy bandwidth: moved_bytes over its time, over the copy's rate."""
    statistics_cost: list[float] | None
    """Quartiles of how much longer a call takes with statistics than without, each round compared within itself."""
    failed: dict[str, str]
    """Ways that could not run, and why."""


def keep_memory() -> None:
    """Keeps freed memory in the process on a CPU, as torch does on a GPU. Otherwise large results sometimes come anew from the
    system, and its zeroing of pages is timed with one way and not with the next. By glibc's mallopt(3) (M_MMAP_MAX 0,
    M_TRIM_THRESHOLD); elsewhere it does nothing."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-4, 0)
        mallopt(-1, 2**31 - 1)


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def compiled(function: Callable[..., Any], *arguments: Any) -> Way:
    """`function(*arguments)` under torch.compile; it is compiled at its first call, before anything is timed."""
    fast = torch.compile(function, dynamic=False)
    return lambda: fast(*arguments)


class Timer:
    """Seconds a call, of a block of calls: by events on a GPU, by the clock on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def time(self, way: Way, calls: int) -> float:
        if self.device.type != "cuda":
            began_s = time.perf_counter()
            for _ in range(calls):
                way()
            return (time.perf_counter() - began_s) / calls
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(self.device)
        # With an idle device the Python time of the first call would be counted too, which is long for lists of tensors.
        torch.cuda._sleep(AHEAD_CYCLES)
        before.record()
        for _ in range(calls):
            way()
        after.record()
        after.synchronize()
        return float(before.elapsed_time(after)) / 1e3 / calls

    def calls_for(self, way: Way) -> int:
        """How many calls make a block; the way is warm afterwards."""
        for _ in range(WARM_UP_CALLS):
            way()
        return max(1, min(CALLS_MAX, round(BLOCK_S[self.device.type] / max(self.time(way, 1), 1e-9))))


def measure(case: Case, device: torch.device, *, bare: Any = None, rounds: int = 30, alone: bool = False) -> Measured:
    """Every way of the case in turns, each round beginning with another. `bare` is the namespace without statistics; `alone`
    leaves the peers out."""
    if "torch._dynamo" in sys.modules:  # after eight shapes of a function torch.compile gives up, and the peer would run plain
        torch.compiler.reset()
    ways: dict[str, Way] = {COPY: copying(device), OURS: lambda: case.ours(torch.ops.sentinel)}
    if bare is not None and case.is_bare_too:
        ways[BARE] = lambda: case.ours(bare)
    ways |= {} if alone else case.peers
    timer, calls, failed = Timer(device), {}, {}
    for name, way in ways.items():
        try:
            calls[name] = timer.calls_for(way)
        except Exception as error:  # noqa: BLE001  a peer of another version must not end the bench; it is recorded
            failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    if COPY in failed:
        raise RuntimeError(f"a copy of {COPY_BYTES[device.type] >> 20} MiB, the ceiling of all, could not run: {failed[COPY]}")
    names = list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(timer.time(ways[name], calls[name]))
    return summed_up(case, device, times, failed)


def summed_up(case: Case, device: torch.device, times: dict[str, list[float]], failed: dict[str, str]) -> Measured:
    middle = {name: statistics.median(seconds) for name, seconds in times.items()}
    copy_rate = 2 * COPY_BYTES[device.type] / middle.pop(COPY)
    cost = None
    if OURS in times and BARE in times:
        over = [ours / bare - 1 for ours, bare in zip(times[OURS], times[BARE], strict=True)]
        cost = statistics.quantiles(over, n=4)
    return Measured(
        op=case.op,
        shape=case.shape,
        dtype=case.dtype,
        moved_bytes=case.moved_bytes,
        goal=case.goal,
        copy_gb_s=copy_rate / 1e9,
        ms={name: seconds * 1e3 for name, seconds in middle.items()},
        share={name: case.moved_bytes / seconds / copy_rate for name, seconds in middle.items()},
        statistics_cost=cost,
        failed=failed,
    )


@cache
def copying(device: torch.device) -> Way:
    """The ceiling: a copy within the device's memory, counted as read and written."""
    source = torch.randint(0, 256, (COPY_BYTES[device.type],), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
