"""Checkpoints of an attached run: what the program has written becomes one, behind training.

The program writes its files; training goes on. A thread syncs them, reads them back for their digests, writes the manifest, asks
the lease and renames. (hashlib leaves the interpreter's lock, so the digest takes another core, and none of the loop's time.) One
commit is under way at most. Of several ranks each reads back a part of the files that it sees, and hands rank 0 what it found
in a file beside them: one rank would take as long as all of them together. What a disk refuses is reported and ends nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.checkpoint_files import LeaseLost, commit, list_files, make_aside, name_of
from sentinel.client.file_digest import SHA256
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.client.torch.numbers import measure
from sentinel.client.torch.ranks import Alone
from sentinel.client.torch.reading_back import read_all_back, read_part_back, share_out

# torch.save says of a full disk no OSError but one of these.
OF_THE_DISK = ("PytorchStreamWriter", "inline_container", "No space left on device", "Disk quota exceeded", "Input/output error")


def is_of_the_disk(error: BaseException) -> bool:
    """Whether a save failed because the filesystem did not take it. Any other error is the program's own."""
    return isinstance(error, OSError) or (isinstance(error, RuntimeError) and any(sign in str(error) for sign in OF_THE_DISK))


@dataclass(frozen=True)
class Commit:
    """What is to become a checkpoint. `began_s` on time.perf_counter; `blocked_s`: for which training stood still."""

    here: Path
    step: int
    manifest: Mapping[str, Any]
    shares: list[list[str]]  # the files that each rank reads back, by rank
    began_s: float
    blocked_s: float
    algorithm: str = SHA256  # of the digests


class Committer:
    """Of rank 0. `tell(event, step, **fields)` writes a line."""

    def __init__(self, root: Path, may_commit: Callable[[], bool], tell: Callable[..., None]) -> None:
        self.folder = root / CHECKPOINTS
        self._may_commit, self._tell = may_commit, tell
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self.parent: dict[str, Any] | None = None  # the newest of this lineage
        self.is_lost = False  # a later attempt holds the run

    def room(self, step: int) -> Path:
        """A directory to write into. Raises OSError."""
        return make_aside(self.folder, step)

    def hand_over(self, asked: Commit) -> None:
        """Commit it behind training. The one before it is over: `wait` was called."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._commit, args=(asked,), name="sentinel-commit", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until nothing is under way; False where it still is after so long."""
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return False
            self._thread = None
        return True

    def failed(self, step: int, error: BaseException, here: Path | None) -> None:
        """It is not going to be one: say so, and leave nothing behind."""
        if here is not None and here.name.startswith(".step-"):
            shutil.rmtree(here, ignore_errors=True)
        reason = f"{type(error).__name__}: {error}"
        self._tell("checkpoint_failed", step, reason=reason)
        print(f"sentinel: the checkpoint of step {step} was not written: {reason}; training goes on", file=sys.stderr)

    def _commit(self, asked: Commit) -> None:
        try:
            target = self.folder / name_of(asked.step)
            files = read_all_back(asked.here, asked.shares, asked.algorithm)
            if not files:
                raise FileNotFoundError(f"{asked.here}: the program wrote no file")
            manifest = {"v": 1, "step": asked.step, **asked.manifest, "parent": self.parent, "files": files}
            ensure_directory(self.folder)
            digest = commit(asked.here, target, manifest, self._may_commit)
        except LeaseLost as error:
            self.is_lost = True
            self.failed(asked.step, error, asked.here)
            return
        except Exception as error:  # noqa: BLE001 - a thread that dies of it would leave a checkpoint that nobody misses
            self.failed(asked.step, error, asked.here)
            return
        path = f"{CHECKPOINTS}/{target.name}"
        self.parent = {"step": asked.step, "path": path, "digest": digest}
        seconds = max(time.perf_counter() - asked.began_s, asked.blocked_s)
        cost = {"seconds": round(seconds, 4), "blocked_s": round(asked.blocked_s, 4)}
        self._tell("checkpoint_committed", asked.step, path=path, digest=digest, **cost)


class RankCheckpoints:
    """Of one rank; every rank makes the same calls.

    Attributes:
    saved_step: the newest that was saved, under way or committed; None before the first.
    asked_now: somebody asks for one, whatever the interval.
    """

    def __init__(
        self, committer: Committer | None, ranks: Alone, model: Any, optimizers: list[Any], attempt: int, algorithm: str = SHA256
    ) -> None:
        """`committer`: of rank 0, None on the others. `algorithm`: of the digests in manifests."""
        self.saved_step: int | None = None
        self.asked_now = False
        self._part_thread: threading.Thread | None = None  # of a rank that reads its share back
        self._committer, self._ranks, self._attempt = committer, ranks, attempt
        self._algorithm = algorithm
        self._model, self._optimizers = model, optimizers

    def bind(self, model: Any, optimizers: list[Any]) -> None:
        """What is measured from here on."""
        self._model, self._optimizers = model, optimizers

    @property
    def is_lost(self) -> bool:
        """A later attempt holds the run, as far as this rank knows."""
        return self._committer is not None and self._committer.is_lost

    def continue_from(self, step: int, path: Path, digest: str | None) -> None:
        self.saved_step = step
        if self._committer is not None:
            self._committer.parent = {"step": step, "path": f"{CHECKPOINTS}/{path.name}", "digest": digest}

    def save(self, step: int, save_fn: Callable[[str], Any], data: Mapping[str, Any]) -> None:
        """Let the program write, and commit that behind training. `data`: where the run stands in its data."""
        began_s = time.perf_counter()
        self.saved_step, waits = step, self.asked_now
        self.asked_now = False
        here, error = self._room(step)
        seen: list[str] = []
        if here is not None:
            try:
                save_fn(str(here))
                seen = list_files(here)
            except Exception as raised:
                if not is_of_the_disk(raised):
                    raise
                error = raised
        reports = self._ranks.gather((None if error is None else repr(error), seen))
        problems = [problem for problem, _ in reports if problem is not None]
        found = measure(self._model, self._optimizers, self._ranks.add_up, self._ranks.rank)
        shares = share_out([names for _, names in reports])
        if self._committer is None:
            if here is not None and not problems and shares[self._ranks.rank]:
                own = (here, self._ranks.rank, shares[self._ranks.rank], self._algorithm)
                self._part_thread = threading.Thread(target=read_part_back, args=own, name="sentinel-commit", daemon=True)
                self._part_thread.start()
            return
        if here is None or problems:
            self._committer.failed(step, error or OSError(problems[0]), here)
            return
        blocked_s = time.perf_counter() - began_s
        manifest = self._manifest(found, data)
        self._committer.hand_over(Commit(here, step, manifest, shares, began_s, blocked_s, self._algorithm))
        if waits:
            self._committer.wait()

    def _room(self, step: int) -> tuple[Path | None, Exception | None]:
        """The directory that every rank writes into. Waits for the commit before it."""
        here, error = None, None
        self.wait()
        if self._committer is not None:
            try:
                here = self._committer.room(step)
            except OSError as refused:
                error = refused
        return self._ranks.from_first(here), error

    def take(self, directory: Path, step: int, data: Mapping[str, Any]) -> None:
        """Commit what the program has written whole. On rank 0; of several ranks it cannot measure the state alone."""
        if self._committer is None:
            return
        began_s = time.perf_counter()
        self._committer.wait()
        found = measure(self._model, self._optimizers, self._ranks.add_up) if self._ranks.size == 1 else {}
        self.saved_step = step
        manifest = self._manifest(found, data)
        try:
            shares = [list_files(directory)]
        except OSError as error:
            self._committer.failed(step, error, directory)
            return
        self._committer.hand_over(Commit(directory, step, manifest, shares, began_s, time.perf_counter() - began_s))

    def wait(self, timeout_s: float | None = None) -> None:
        if self._committer is not None:
            self._committer.wait(timeout_s)
        if self._part_thread is not None:
            self._part_thread.join(timeout_s)

    def _manifest(self, found: Mapping[str, float], data: Mapping[str, Any]) -> dict[str, Any]:
        own = {"time_s": time.time(), "attempt": self._attempt, "world_size": self._ranks.size, "torch": torch.__version__}
        return own | {"metrics": dict(found), **data}
