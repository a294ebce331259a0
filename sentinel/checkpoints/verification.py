"""Whether every byte of a checkpoint is as its manifest says, read once, several files at a time, and several ranges of one file
where its digest is a tree.

With a `Recall` that remembers, what was read before and has not been written to since is read in samples, or not at all.

sha256 runs at about 1.5 GB/s on one core: eleven minutes for a terabyte. hashlib lets go of the interpreter while it computes, so
threads are enough to use more cores. They are daemons: a read that a dead filesystem never answers must not keep the process.

    ok, reason, digest = verify_checkpoint(run_dir / found.path)
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from sentinel.checkpoints.file_check import Checked, FileCheck
from sentinel.checkpoints.files import is_damage, shown, step_of_name
from sentinel.checkpoints.manifest import MANIFEST, ListedFile, NotACheckpoint, listed_files, read_manifest
from sentinel.checkpoints.ranged_file import SharedRanges
from sentinel.checkpoints.recall import Recall
from sentinel.checkpoints.tensors.counting import Counting
from sentinel.client.file_digest import TREE, count_ranges

READERS_MAX = 4  # the count of values holds the interpreter: eight make the loop of the same process wait 50 ms a turn
PROGRESS_EVERY_S = 0.5


class Verification(NamedTuple):
    """What a check of every byte found. `digest` is the manifest's sha256, None when there is no manifest to speak of."""

    ok: bool
    reason: str
    digest: str | None


def verify_checkpoint(
    path: Path,
    counting: Counting | None = None,
    progressed: Callable[[], None] = lambda: None,
    readers: int | None = None,
    recall: Recall | None = None,
) -> Verification:
    """Compare size and digest of every file with the manifest. Reads all of it, once: seconds per gigabyte.

    Args:
        counting: Sees every byte on the way, and counts the values that are not finite.
        progressed: Called in this thread while blocks are read. What it raises ends the check.
        readers: Files and ranges that are read at a time; by default half of the cores that this process may use, READERS_MAX
            at most.
        recall: What is remembered of it, and how much of that is believed. Without one every byte is read.

    Raises OSError for what cannot be read now (a stale handle, an I/O error, no rights, too many open files): that says
    nothing about the checkpoint. A file that is absent, of another size, or of another digest is damage, and so are a link that
    leads out of the checkpoint and a name that no file can have. Of several the first in the manifest's order is told.
    """
    try:
        manifest, digest = read_manifest(path)
    except OSError as error:
        if not is_damage(error):
            raise
        return Verification(False, f"{path / MANIFEST}: cannot be read ({error.strerror})", None)
    except NotACheckpoint as no:
        return Verification(False, str(no), None)
    named, written = step_of_name(path.name), manifest.get("step")
    if named is None or written != named:
        return Verification(False, f"{path}: the manifest is of step {shown(written)}, the directory is not", digest)
    try:
        listed = list(listed_files(manifest))
    except ValueError as error:
        return Verification(False, f"{path / MANIFEST}: {error}", digest)
    if not listed:
        return Verification(False, f"{path / MANIFEST}: lists no files", digest)
    if counting is not None:
        counting.expect(file.name for file in listed)
    readers = min(READERS_MAX, len(os.sched_getaffinity(0)) // 2) if readers is None else readers
    recall = recall or Recall(path.parent.parent, path.name)
    recall.begin(digest)
    reading = _FilesReading(path, listed, counting, recall)
    is_single = min(readers, _pieces(listed)) <= 1
    with closing(reading.in_turn(progressed) if is_single else reading.at_a_time(readers, progressed)) as checks:
        for file, checked in zip(listed, checks, strict=True):
            if checked.problem:
                return Verification(False, checked.problem, digest)
            _note(recall, file, checked, counting)
    return Verification(True, f"{len(listed)} files, {sum(file.size for file in listed)} bytes match their digests", digest)


def _pieces(listed: Sequence[ListedFile]) -> int:
    """How many can be read at a time at most."""
    return sum(count_ranges(file.size) if file.digest.algorithm == TREE else 1 for file in listed)


def _note(recall: Recall, file: ListedFile, checked: Checked, counting: Counting | None) -> None:
    """A file that holds: its values are counted with the others, and it is remembered."""
    now, is_sure = checked.now, True
    if counting is not None and checked.was is not None and checked.was.values is not None:
        counting.add(checked.was.values)
    elif counting is not None and checked.values is not None:
        now = recall.with_values(now, counting.end(file.name, checked.values))
        is_sure = counting.is_sure(file.name)
    recall.note(file.name, file.size, checked.read_bytes, checked.was, now if is_sure else None)


class _FilesReading:
    """The files of one checkpoint as they are read. What it yields is in their order, one `Checked` for each."""

    def __init__(self, path: Path, listed: Sequence[ListedFile], counting: Counting | None, recall: Recall) -> None:
        self._ranges = SharedRanges()
        self._file = FileCheck(path, counting, recall, self._ranges)
        self._listed = listed
        self._taken = iter(range(len(listed)))
        self._turn = threading.Lock()  # of taking the next file
        self._blocks = 0
        self._is_over = False

    def in_turn(self, progressed: Callable[[], None]) -> Generator[Checked]:
        for file in self._listed:
            yield self._file.check(file, progressed)

    def at_a_time(self, readers: int, progressed: Callable[[], None]) -> Generator[Checked]:
        """By so many threads, or by fewer where the system gives no more. A file that was read before its turn waits for those
        before it. What a thread raises is raised here, in its file's turn."""
        results: queue.SimpleQueue[tuple[int, Checked | BaseException]] = queue.SimpleQueue()
        early: dict[int, Checked | BaseException] = {}
        blocks_seen = 0
        try:
            if not self._start(min(readers, _pieces(self._listed)), results):
                yield from self.in_turn(progressed)
                return
            for place in range(len(self._listed)):
                while place not in early:
                    with suppress(queue.Empty):
                        done, outcome = results.get(timeout=PROGRESS_EVERY_S)
                        early[done] = outcome
                    if self._blocks != blocks_seen:
                        blocks_seen = self._blocks
                        progressed()
                checked = early.pop(place)
                if isinstance(checked, BaseException):
                    raise checked
                yield checked
        finally:
            self._is_over = True

    def _start(self, readers: int, results: queue.SimpleQueue[tuple[int, Checked | BaseException]]) -> bool:
        """Whether one runs at least. A limit of processes says nothing about the checkpoint."""
        for number in range(readers):
            reader = threading.Thread(target=self._work, args=(results,), name=f"sentinel-verifies-{number}", daemon=True)
            try:
                reader.start()
            except RuntimeError:
                return number > 0
        return True

    def _work(self, results: queue.SimpleQueue[tuple[int, Checked | BaseException]]) -> None:
        while not self._is_over:
            with self._turn:
                place = next(self._taken, None)
                if place is not None:
                    self._ranges.begin()
            if place is None:
                self._ranges.help(self._note_block, lambda: self._is_over)
                return
            try:
                results.put((place, self._file.check(self._listed[place], self._note_block)))
            except _Over:
                return
            except BaseException as error:  # noqa: BLE001 - raised again where the file's turn is waited for
                results.put((place, error))
            finally:
                self._ranges.end()

    def _note_block(self) -> None:
        self._blocks += 1  # two threads may count one: it only has to change
        if self._is_over:
            raise _Over


class _Over(Exception):
    """Nobody waits for what is read any more."""
