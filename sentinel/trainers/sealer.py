"""Seals the checkpoints of a trainer beside its follower: rows and heartbeats must not wait for a digest."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from sentinel.client.file_digest import best_of
from sentinel.client.stream import Stream
from sentinel.trainers.found import FoundCheckpoint, find_checkpoints
from sentinel.trainers.mismatch import find_mismatch, why_tracker_misleads
from sentinel.trainers.profile import CheckpointFiles
from sentinel.trainers.remarks import FollowerNotes
from sentinel.trainers.sealing import Sealed, drop_old, is_sealed, seal_new
from sentinel.trainers.spec import TrainerSpec
from sentinel.trainers.start import forget_before, read_before

SEAL_EVERY_S = 1.0
ELSEWHERE_EVERY_S = 60.0  # the patterns of all shipped profiles are tried


class Sealer:
    """Seals checkpoints while the trainer goes on, and says once why none is found."""

    def __init__(self, run_dir: Path, attempt: int, spec: TrainerSpec, remarks: FollowerNotes) -> None:
        self._run_dir, self._attempt, self._spec, self._remarks = run_dir, attempt, spec, remarks
        self._next_s = 0.0
        self._sealed: set[str] | None = None  # keys
        self._done: deque[Sealed] = deque()
        self._found: set[str] = set()  # keys of those that were reported while they waited for their seal
        self._worker = threading.Thread()
        self._elsewhere_s = 0.0
        self._has_reported_mismatch = False
        self._newest_step = -1  # of the checkpoints of this run that lie there, finished or not
        self._has_adopted = spec.resume_step is not None or not spec.is_first

    def adopt(self, resume_step: int | None) -> None:
        """A trainer that went on by itself from a checkpoint of its own makes that one this run's."""
        places, root = self._spec.profile.spec.checkpoints, self._spec.root
        if self._has_adopted or resume_step is None or places is None or root is None:
            return
        self._has_adopted = True
        if resume_step > 0:
            forget_before(self._run_dir, root, places, resume_step)

    def turn(self, stream: Stream, resume_step: int | None, now_s: float) -> None:
        """Look for what is new, and seal it beside: a digest takes a second for each gigabyte, and rows must not wait for it."""
        places, root = self._spec.profile.spec.checkpoints, self._spec.root
        while self._done and stream.is_begun:
            one = self._done.popleft()
            stream.event("checkpoint_committed", step=one.step, seconds=one.seconds, blocked_s=0.0, how=one.how)
        self._remarks.send(stream)
        if places is None or root is None or now_s < self._next_s:
            return
        try:
            self.adopt(resume_step)
            there, others = find_checkpoints(places, root), read_before(self._run_dir)
            if not there and not self._has_reported_mismatch and now_s >= self._elsewhere_s:
                self._elsewhere_s = now_s + ELSEWHERE_EVERY_S
                self._look_elsewhere(places, root)
            if why := why_tracker_misleads(places, root, there):
                self._remarks.add(why)
            for found in there:
                if found.trouble:
                    self._remarks.add(found.trouble)
            own = [found for found in there if found.key not in others]
            self._newest_step = max((found.step for found in own), default=-1)
            if self._worker.is_alive():
                self._report_waiting(stream, places, own)
            elif self._sealed is None or any(found.key not in self._sealed for found in there):
                self._worker = threading.Thread(target=self._seal, args=(places, there, others), daemon=True)
                self._worker.start()
        except OSError as error:
            self._remarks.add(f"{root}: checkpoints cannot be found: {error}")
        self._next_s = time.monotonic() + SEAL_EVERY_S

    def _report_waiting(self, stream: Stream, places: CheckpointFiles, own: list[FoundCheckpoint]) -> None:
        """What is whole and not sealed yet is saved all the same: a digest may take minutes, and the disk is slow at times."""
        if not stream.is_begun:
            return
        for found in own:
            if found.key in self._found or found.key in (self._sealed or ()):
                continue
            with suppress(FileNotFoundError):  # the trainer is deleting it
                if found.is_complete(places, time.time()):
                    self._found.add(found.key)
                    stream.event("checkpoint_found", step=found.step)

    def has_saved(self, step: int) -> bool:
        """Whether the trainer has begun to save at this step or behind it. Where no later step has come it may still be at it:
        what it wrote is uploaded, or its other ranks are waited for."""
        return self._newest_step >= max(step, 1)

    def _seal(self, places: CheckpointFiles, there: list[FoundCheckpoint], others: frozenset[str]) -> None:
        known = self._sealed or set()
        try:
            new, algorithm = [found for found in there if found.key not in known], best_of(self._spec.reads_digests)
            for sealed in seal_new(self._run_dir, places, new, self._attempt, others, algorithm=algorithm):
                self._done.append(sealed)
            drop_old(self._run_dir, places, there)
        except OSError as error:
            self._remarks.add(f"{self._spec.root}: checkpoints cannot be sealed: {error}")
        self._sealed = {found.key for found in there if found.key in known or is_sealed(self._run_dir, found)}
        for found in there:
            if found.key not in self._sealed and found.key not in others:
                with suppress(OSError):
                    if why := found.why_torn(time.time()):
                        self._remarks.add(why)

    def finish(self, stream: Stream, resume_step: int | None) -> None:
        """The trainer is gone: what it left is made this run's, and what was expected of it and is not there is said."""
        self.adopt(resume_step)
        if not self._has_reported_mismatch and (why := why_nothing_matches(self._spec)):
            self._remarks.add(why)
        self._remarks.send(stream)

    def _look_elsewhere(self, places: CheckpointFiles, root: Path) -> None:
        """Nothing lies where the profile expects it. That is usual before the first save, unless another profile knows what is
        there: a person hears of it while the run can still be started again."""
        mismatch = find_mismatch(places, root)
        if mismatch is not None and mismatch.others:
            self._has_reported_mismatch = True
            self._remarks.add(mismatch.sentence)


def why_nothing_matches(spec: TrainerSpec) -> str:
    """For a person, where checkpoints are expected and none is found; empty where one is, or none is expected."""
    places, root = spec.profile.spec.checkpoints, spec.root
    if places is None or root is None:
        return ""
    mismatch = find_mismatch(places, root)
    return "" if mismatch is None else mismatch.sentence
