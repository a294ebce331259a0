"""Seals the checkpoints of a trainer beside its follower: rows and heartbeats must not wait for a digest."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from pathlib import Path

from sentinel.client.stream import Stream
from sentinel.trainers.found import Found, find_checkpoints
from sentinel.trainers.profile import Checkpoints
from sentinel.trainers.sealing import Sealed, drop_old, is_sealed, seal_new
from sentinel.trainers.spec import TrainerSpec
from sentinel.trainers.start import forget_before, read_before

SEAL_EVERY_S = 1.0


class Sealer:
    """Seals checkpoints while the trainer goes on, and says once why none is found."""

    def __init__(self, run_dir: Path, attempt: int, spec: TrainerSpec) -> None:
        self._run_dir, self._attempt, self._spec = run_dir, attempt, spec
        self._next_s = 0.0
        self._sealed: set[str] | None = None  # keys
        self._done: deque[Sealed] = deque()
        self._worker = threading.Thread()
        self._complaint = ""
        self.sees_unfinished = False  # a checkpoint that its trainer is not done with
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
        if places is None or root is None or now_s < self._next_s:
            return
        try:
            self.adopt(resume_step)
            there, others = find_checkpoints(places, root), read_before(self._run_dir)
            self.sees_unfinished = any(not one.is_complete(places, time.time()) for one in there)
            if not self._worker.is_alive() and (self._sealed is None or any(found.key not in self._sealed for found in there)):
                self._worker = threading.Thread(target=self._seal, args=(places, there, others), daemon=True)
                self._worker.start()
        except OSError as error:
            self._complain(f"{root}: checkpoints cannot be found: {error}")
        self._next_s = time.monotonic() + SEAL_EVERY_S

    def _seal(self, places: Checkpoints, there: list[Found], others: frozenset[str]) -> None:
        known = self._sealed or set()
        try:
            for sealed in seal_new(
                self._run_dir, places, [found for found in there if found.key not in known], self._attempt, others
            ):
                self._done.append(sealed)
            drop_old(self._run_dir, places, there)
        except OSError as error:
            self._complain(f"{self._spec.root}: checkpoints cannot be sealed: {error}")
        self._sealed = {found.key for found in there if found.key in known or is_sealed(self._run_dir, found)}

    def _complain(self, sentence: str) -> None:
        if sentence != self._complaint:
            self._complaint = sentence
            print(sentence, file=sys.stderr, flush=True)
