"""Finds committed checkpoints and reports each one once, oldest first. It verifies no digests and judges no age.

A poll costs one stat while nothing happens. The directory is listed again only when its mtime changed, while that change is
young (a filesystem's clock is coarse), and every RELIST_S (network filesystems cache attributes); a directory that still lacks
its manifest is looked at every time. A manifest that makes no checkpoint of its directory is told once, and not read again while
its file stays as it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from sentinel.checkpoints.files import CheckpointFound, list_checkpoints, list_entries, read_committed, step_of_name
from sentinel.checkpoints.manifest import MANIFEST, NotACheckpoint, TooLarge
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.model.readings import CheckpointReading, Reading
from sentinel.telemetry.source import SourceHealth, describe_os_error

READINGS_PER_POLL = 256
RELIST_S = 30.0
YOUNG_S = 2.0
UNFINISHED_MAX = 64  # directories without a manifest that are looked at again at every poll, the newest ones

Signature = tuple[int, int, int, int, int]


class Refusal(NamedTuple):
    """A manifest that was read at `at_s` and is none. One that was new then is judged once more: it may have been half written,
    and the rest have come within the same tick of the filesystem's clock."""

    signature: Signature
    at_s: float
    is_final: bool


def read_all(run_dir: Path) -> tuple[CheckpointReading, ...]:
    """Every committed checkpoint, by rising step. Raises OSError where the directory cannot be read: none is no answer then."""
    return tuple(_reading(found) for found in list_checkpoints(run_dir))


def _reading(found: CheckpointFound) -> CheckpointReading:
    return CheckpointReading(found.step, found.path, found.attempt, found.samples_end, found.digest, found.bytes)


class CheckpointSource:
    """The checkpoints of the run, over all attempts."""

    def __init__(self, run_dir: Path, health: SourceHealth | None = None) -> None:
        self._run_dir = run_dir
        self._health = health if health is not None else SourceHealth("checkpoints")
        self._known: dict[str, Signature] = {}
        self._refused: dict[str, Refusal] = {}
        self._unfinished: list[str] = []
        self._mtime_ns: int | None = None
        self._changed_s = 0.0
        self._listed_s = 0.0
        self._has_more = False

    @property
    def has_more(self) -> bool:
        return self._has_more

    def look_again(self) -> None:
        """List the directory at the next poll, whatever its mtime says."""
        self._mtime_ns = None

    def poll(self, now_s: float) -> list[Reading]:
        """The checkpoints that were committed since the last poll, by rising step, at most READINGS_PER_POLL."""
        out: list[Reading] = []
        try:
            names = list_entries(self._run_dir) if self._is_list_due(now_s) else self._unfinished
        except OSError as error:
            self._mtime_ns, self._has_more = None, False
            return [*self._health.lost(describe_os_error(error))]
        out += self._health.regained()
        if names is not self._unfinished:
            present = set(names)
            self._known = {name: known for name, known in self._known.items() if name in present}
            self._refused = {name: refusal for name, refusal in self._refused.items() if name in present}
        self._report(names, now_s, out)
        return out

    def _is_list_due(self, now_s: float) -> bool:
        try:
            mtime_ns = os.stat(self._run_dir / CHECKPOINTS).st_mtime_ns
        except FileNotFoundError:
            mtime_ns = -1
        if mtime_ns != self._mtime_ns:
            self._mtime_ns, self._changed_s = mtime_ns, now_s
        elif now_s - self._changed_s > YOUNG_S and now_s - self._listed_s < RELIST_S and not self._has_more:
            return False
        self._listed_s = now_s
        return True

    def _report(self, names: list[str], now_s: float, out: list[Reading]) -> None:
        self._has_more = False
        unfinished = []
        for name in sorted((name for name in names if step_of_name(name) is not None), key=lambda name: step_of_name(name) or 0):
            signature = self._signature(name)
            if signature is not None and self._known.get(name) == signature:
                continue
            if len(out) >= READINGS_PER_POLL:
                self._has_more = True
                break
            found = self._read(name, signature, now_s, out) if signature is not None else None
            if signature is None or found is None:
                unfinished.append(name)
                continue
            self._known[name] = signature
            out.append(_reading(found))
        self._unfinished = unfinished[-UNFINISHED_MAX:]

    def _read(self, name: str, signature: Signature, now_s: float, out: list[Reading]) -> CheckpointFound | None:
        """None where it is no checkpoint, which is said when it is sure, or cannot be read now."""
        known = self._refused.get(name)
        if known is not None and known.signature != signature:
            known = None
        if known is not None and (known.is_final or now_s - known.at_s <= YOUNG_S):
            return None
        try:
            return read_committed(self._run_dir, name)
        except NotACheckpoint as no:
            is_final = known is not None or isinstance(no, TooLarge)
            self._refused[name] = Refusal(signature, now_s, is_final)
            if is_final:
                out += self._health.remark(f"{no}; it is passed over, and nothing goes back to {CHECKPOINTS}/{name}")
        except OSError:
            pass
        return None

    def _signature(self, name: str) -> Signature | None:
        """What changes when the manifest does; None when there is none."""
        try:
            status = os.stat(self._run_dir / CHECKPOINTS / name / MANIFEST)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
