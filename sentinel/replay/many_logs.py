"""Several logs in processes of their own, each with the memory and the core of one; answers in the order of the arguments.
A few small ones are read here, sooner than a process would have started.

Directories are walked: a directory that holds TensorBoard event files, or a run of MLflow or Weights & Biases, is one log;
every other file with a log's ending is one.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from sentinel.detectors.reference import Reference
from sentinel.policy.schema import Policy
from sentinel.replay.findings import ReplayResult
from sentinel.replay.one_log import replay_file
from sentinel.signals import interrupt_deferred, let_through
from sentinel.telemetry.mlflow_log import is_mlflow_run
from sentinel.telemetry.tensorboard import event_files
from sentinel.telemetry.wandb_log import wandb_files

ENDINGS = (".csv", ".tsv", ".jsonl", ".log", ".out", ".txt")
DOCUMENTS = ("trainer_state", "golden_values")  # most other files of JSON are settings
FILES_MAX = 100_000
SMALL_BYTES = 1 << 20  # about 20,000 rows: read in the half second that a process needs to start
PACKED = 10  # bytes of text in a byte of a compressed log, about


@dataclass(frozen=True, slots=True)
class Log:
    """`file`: how the person named it. `asked`: named on the command line, and not merely met in a directory."""

    path: Path
    file: str
    asked: bool


def find_logs(paths: Iterable[Path]) -> list[Log]:
    """The logs behind the arguments, in their order, each once."""
    found: dict[Path, Log] = {}
    for path in paths:
        if not _is_folder(path):
            found.setdefault(path, Log(path, str(path), asked=True))
            continue
        inside = list(_walk(path))
        for one in inside or [path]:
            found.setdefault(one, Log(one, str(one), asked=not inside))
    return list(found.values())


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # whoever opens it says why


def _walk(root: Path) -> Iterator[Path]:
    count = 0
    for place, folders, names in os.walk(root):
        folders.sort()
        here = Path(place)
        if is_mlflow_run(here) or wandb_files(here):
            yield here
            folders.clear()  # what the run printed lies below, and is no other log
            continue
        if event_files(here):
            yield here
        for name in sorted(names):
            if name.removesuffix(".gz").endswith(ENDINGS) or (name.endswith(".json") and name.startswith(DOCUMENTS)):
                yield here / name
                count += 1
                if count >= FILES_MAX:
                    return


def replay_many(
    logs: list[Log],
    policy: Policy,
    format: str = "auto",
    *,
    draw: bool = False,
    reference: Reference | None = None,
    done: Callable[[], None] = lambda: None,
) -> Iterator[ReplayResult]:
    """Results in the order of `logs`, each as soon as those before it are there. `done` is called as each is finished."""
    count = min(len(logs), len(os.sched_getaffinity(0)))
    if count <= 1 or sum(_size(log.path) for log in logs) <= SMALL_BYTES:
        for log in logs:
            result = replay_file(log.path, policy, format, log.file, draw, reference)
            done()
            yield result
        return
    with ProcessPoolExecutor(
        count, mp_context=get_context("spawn"), initializer=_begin, initargs=(policy, format, draw, reference)
    ) as pool:
        with interrupt_deferred():  # a worker that is being started has no answer to Ctrl-C yet, but a traceback
            futures = [pool.submit(_one, log) for log in logs]
        for future in futures:
            future.add_done_callback(lambda _: done())
        try:
            for log, future in zip(logs, futures, strict=True):
                yield _result_of(log, future)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _size(path: Path) -> float:
    """Bytes of text, about; of what is no plain file more than can be read here."""
    try:
        parts = event_files(path) if _is_folder(path) else [path]
        plain = [part for part in parts if part.is_file()]
        packed = PACKED if path.suffix in (".gz", ".xz", ".bz2", ".zst") else 1
        return packed * sum(part.stat().st_size for part in plain) if plain else math.inf
    except OSError:
        return 0.0  # whoever opens it says why


def _result_of(log: Log, future: Future[ReplayResult]) -> ReplayResult:
    try:
        return future.result()
    except BrokenProcessPool:
        return ReplayResult(log.file, error=f"{log.file}: the process that read it was killed (out of memory?)")


_policy: Policy | None = None
_format = "auto"
_draw = False
_reference: Reference | None = None


def _begin(policy: Policy, format: str, draw: bool, reference: Reference | None) -> None:
    """In the new process: what is the same for every log of it."""
    global _policy, _format, _draw, _reference
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # interrupted: the parent says so, once
    let_through()
    _policy, _format, _draw, _reference = policy, format, draw, reference


def _one(log: Log) -> ReplayResult:
    assert _policy is not None, "the process was not begun"
    return replay_file(log.path, _policy, _format, log.file, _draw, _reference)
