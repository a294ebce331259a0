"""One check of a checkpoint beside what is remembered of it: which files need not be read whole, and what is kept of this one.

    recall = Recall(run_dir, "step-00001000", "sampled", seed="verify/7/1000")
    verified = verify_checkpoint(path, counting, recall=recall)
    recall.keep()
    recall.read_back(seconds)

A memory speaks for a checkpoint and never against it: a sample that does not match only means that the file is read whole, and
the manifest alone says what is damage.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sentinel.checkpoints.memory import FileMemory, RememberedFiles, Stamp, memory_path, read_memory, write_memory
from sentinel.clock import Clock, SystemClock
from sentinel.model.saved import How, ReadBack, SavedValues

KEEP_EVERY_S = 5.0


class Recall:
    """`how` full: nothing is believed, and nothing is remembered. `seed`: what samples are drawn by. `known` may be called by
    several threads at once, everything else by one."""

    def __init__(self, run_dir: Path, name: str, how: How = "full", seed: str = "", clock: Clock | None = None) -> None:
        self.how = how
        self.seed = seed
        self.trouble = ""  # why the memory could not be kept, which changes no verdict
        self._place = memory_path(run_dir, name)
        self._clock = clock or SystemClock()
        self._kept_s = self._clock.now_s()
        self._before = RememberedFiles()
        self._now: dict[str, FileMemory] = {}
        self._files = self._bytes = self._whole = self._sampled = self._read_bytes = 0
        self._since_s: float | None = None

    @property
    def remembers(self) -> bool:
        return self.how != "full"

    def begin(self, digest: str) -> None:
        """Of the manifest that was just read."""
        self._before = read_memory(self._place, digest) if self.remembers else RememberedFiles()
        self._before = replace(self._before, digest=digest)

    def known(self, name: str, sha256: str, stamp: Stamp, with_values: bool) -> FileMemory | None:
        """What is remembered of a file as it lies there now; None: nothing that holds for it."""
        found = self._before.files.get(name)
        if found is None or found.stamp != stamp or found.sha256 != sha256.lower() or (with_values and found.values is None):
            return None
        return found

    def looks_at_s(self) -> float:
        """Wall time, for a file that is about to be read."""
        return self._clock.wall_s()

    def fresh(self, stamp: Stamp, sha256: str, crcs: tuple[int, ...], began_s: float) -> FileMemory | None:
        """Of a file that was read whole, from wall time `began_s` on; None where it was so young then that it may have changed
        since under the same stamp."""
        return None if not self.remembers or stamp.is_young(began_s) else FileMemory(stamp, sha256, crcs, began_s)

    def note(self, name: str, size: int, read_bytes: int, was: FileMemory | None, now: FileMemory | None) -> None:
        """How a file that holds was looked at: `was` where what is remembered was enough, `now` what is from here on."""
        self._files += 1
        self._bytes += size
        self._read_bytes += read_bytes
        if was is not None:
            self._sampled += self.how == "sampled"
            self._since_s = was.at_s if self._since_s is None else min(self._since_s, was.at_s)
            self._now[name] = was
        else:
            self._whole += 1
        if now is not None:
            self._now[name] = now
        if self.remembers and self._clock.now_s() - self._kept_s > KEEP_EVERY_S:
            self.keep()

    def with_values(self, file: FileMemory | None, values: SavedValues | None) -> FileMemory | None:
        return None if file is None else replace(file, values=values)

    def keep(self) -> None:
        """Write down what is remembered now: of the files that were looked at, and, while some were not, of those as before."""
        if not self.remembers or self._now == self._before.files:
            return
        try:
            write_memory(self._place, RememberedFiles(self._before.digest, {**self._before.files, **self._now}))
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{self._place}: cannot be written ({error.strerror}): the next check reads all of it again"
        self._kept_s = self._clock.now_s()

    def read_back(self, seconds: float) -> ReadBack:
        known = self._files - self._whole - self._sampled
        return ReadBack(
            self.how, self._files, self._bytes, self._whole, self._read_bytes, self._sampled, known, self._since_s, seconds,
            self.seed if self._sampled else "",
        )  # fmt: skip
