"""A trainer's own checkpoints: which lie in its folder, of which step, and which of them are complete. Nothing is changed."""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import NotRegular, kind_of_file
from sentinel.trainers.pickled_step import read_step_key
from sentinel.trainers.profile import PATTERN_STEP, CheckpointFiles
from sentinel.trainers.tracker import tracked_step
from sentinel.trainers.whole import find_torn, look, missing_metadata

TORN_S = 60.0  # a file that is still being written is cut off, too
LACKS_S = 600.0  # a large one is written for minutes, and uploaded, before it is whole
SETTLED_S = 2.0  # a checkpoint without files that tell is complete when nothing of it changed for so long
STALE_S = 60.0  # a mark that is so much older than what it marks is of an earlier save into the same place
DEPTH_MAX = 6
ENTRIES_MAX = 20_000
FILES_MAX = 100_000  # of one checkpoint
ASIDE = ".sentinel-aside"  # in the trainer's folder: what was moved out of its way

Signature = tuple[tuple[str, int, int], ...]
"""Name, bytes and time of change of every file."""


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """`path`: absolute, of a folder or of one file. `missing`: of the files that tell it complete. `trouble`: why it cannot be
    looked at; then it is not complete, and the others are what they are. `marked_ns`: when the oldest of what tells it complete
    was written; None where nothing does that has a time."""

    step: int
    path: Path
    signature: Signature
    missing: tuple[str, ...]
    trouble: str = ""
    marked_ns: int | None = None

    @property
    def key(self) -> str:
        """Names this very state of its files."""
        return hashlib.sha256(repr((str(self.path), self.signature)).encode()).hexdigest()[:32]

    @property
    def newest_change_s(self) -> float:
        return max((changed for _, _, changed in self.signature), default=0) / 1e9

    def is_complete(self, places: CheckpointFiles, wall_s: float) -> bool:
        """Whether its trainer is done with it. Raises OSError."""
        if self.missing or not self.signature or not any(size for _, size, _ in self.signature):
            return False
        shown, quiet_s = look(self.path, (name for name, _, _ in self.signature)), wall_s - self.newest_change_s
        if shown == "torn" or not _tells_complete(places):
            return shown == "whole" or (shown == "nothing" and quiet_s >= SETTLED_S)
        # A mark of an earlier save says nothing of this one; a rank may write a little behind the mark.
        return (late_s := self._marked_late_s) <= 0.0 or quiet_s >= (SETTLED_S if late_s <= STALE_S else LACKS_S)

    @property
    def _marked_late_s(self) -> float:
        """For how long it was written to behind what tells it complete."""
        return self.newest_change_s - self.marked_ns / 1e9 if self.marked_ns is not None else 0.0

    def why_torn(self, wall_s: float) -> str:
        """A sentence where what tells it complete has not come for long, or one of its files has long been cut off, and it is
        never complete; else empty. Raises OSError."""
        quiet_s = wall_s - self.newest_change_s
        if self.trouble or not self.signature or quiet_s < (LACKS_S if self.missing else TORN_S):
            return ""
        if self.missing:
            return f"{self.path}: what tells it whole has not come ({', '.join(self.missing)}), so it is not sealed"
        torn = find_torn(self.path, (name for name, _, _ in self.signature))
        return "" if torn is None else f"{torn}: is cut off, or nothing of its kind; so its checkpoint is not sealed"


def _tells_complete(places: CheckpointFiles) -> bool:
    """Whether one that lacks nothing of what is asked for is complete, if no file of it is cut off. A file of torch.save shows
    its step only when its end is written, and a tracker names none that is not whole."""
    return bool(places.complete) or places.tracker is not None or places.whole_at_once or places.step_key is not None


def find_checkpoints(places: CheckpointFiles, root: Path) -> list[FoundCheckpoint]:
    """By rising step, of those with the same step the newest. Raises OSError where the folder is there and cannot be read."""
    newest: dict[int, FoundCheckpoint] = {}
    tracked = tracked_step(places, root)
    for path in matching(places.pattern, root):
        step = _step_of(places, path)
        if step is None:
            continue
        with suppress(FileNotFoundError, NotADirectoryError):  # the trainer is deleting it
            missing = _missing(places, path)
            if places.tracker is not None and step > tracked:
                missing += (places.tracker.file,)  # it is written when all else is, and does not name this one yet
            try:
                signature = read_signature(path)
                missing += missing_metadata(name for name, _, _ in signature)
                found = FoundCheckpoint(step, path, signature, missing, marked_ns=_marked_ns(places, root, signature))
            except (FileNotFoundError, NotADirectoryError):
                raise
            except OSError as error:
                found = FoundCheckpoint(step, path, (), missing, f"{path}: cannot be looked at, so it is not sealed: {error}")
            known = newest.get(step)
            if known is None or (bool(known.missing), -known.newest_change_s) > (bool(found.missing), -found.newest_change_s):
                newest[step] = found
    return [newest[step] for step in sorted(newest)]


def _marked_ns(places: CheckpointFiles, root: Path, signature: Signature) -> int | None:
    """When the oldest of the files was written that tell it complete. Raises OSError."""
    times: list[int | None] = []
    for mark in places.complete:  # of several that a pattern names the newest
        times.append(max((changed for name, _, changed in signature if fnmatch.fnmatchcase(name, mark)), default=None))
    if places.tracker is not None:
        with suppress(FileNotFoundError):
            times.append((root / places.tracker.file).stat().st_mtime_ns)
    return min((one for one in times if one is not None), default=None)


def list_names(root: Path, limit: int = 6) -> list[str]:
    """What lies in the folder, for a sentence that says why nothing matched."""
    try:
        return sorted(entry.name for entry in os.scandir(root) if not entry.name.startswith("."))[:limit]
    except OSError:
        return []


def read_signature(path: Path) -> Signature:
    """Raises OSError."""
    files = _files_below(path)
    out = []
    for name in files:
        place = path / name if name else path
        try:
            status = os.stat(place)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP) and place.is_symlink():  # it leads nowhere, and holds nothing
                continue
            raise
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(0, f"is {kind_of_file(status.st_mode)}, not a regular file", str(place))
        out.append((name, status.st_size, status.st_mtime_ns))
    return tuple(out)


def matching(pattern: str, root: Path) -> Iterator[Path]:
    is_deep = pattern.startswith("**/")
    parts = pattern.removeprefix("**/").split("/")
    wanted = [re.compile(fnmatch.translate(PATTERN_STEP.sub("*", part))) for part in parts]
    looked = 0
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            looked += is_deep
            if looked > ENTRIES_MAX:
                raise OSError(
                    f"{root}: more than {ENTRIES_MAX:,} entries, among which {pattern} may lie at any depth; name the folder of "
                    "the checkpoints alone: --trainer NAME:root=DIR"
                )
            if entry.name == ASIDE or entry.name.startswith(".sentinel"):
                continue
            if wanted[0].fullmatch(entry.name):
                yield from _below(root, Path(entry.path), wanted[1:])
            elif is_deep and depth < DEPTH_MAX and entry.is_dir(follow_symlinks=False):
                folders.append((Path(entry.path), depth + 1))


def _below(root: Path, path: Path, wanted: list[re.Pattern[str]]) -> Iterator[Path]:
    if not wanted:
        # A pointer such as `last` is no checkpoint of its own; a link to a scratch disk is.
        if not path.is_symlink() or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            yield path
        return
    with suppress(OSError):
        for entry in os.scandir(path):
            if wanted[0].fullmatch(entry.name):
                yield from _below(root, Path(entry.path), wanted[1:])


def _step_of(places: CheckpointFiles, path: Path) -> int | None:
    if places.step_key is not None and PATTERN_STEP.search(places.pattern) is None:
        return read_step_key(path, places.step_key)
    name = places.pattern.removeprefix("**/")
    parts = len(name.split("/"))
    before, _, after = name.partition(PATTERN_STEP.search(name)[0])  # type: ignore[index]
    words = "/".join(path.parts[-parts:])
    match = re.fullmatch(f"{_as_expression(before)}0*([0-9]{{1,15}}){_as_expression(after)}", words)
    return int(match[1]) if match else None


def _as_expression(text: str) -> str:
    return "[^/]*".join(re.escape(part) for part in text.split("*"))


def _missing(places: CheckpointFiles, path: Path) -> tuple[str, ...]:
    def is_there(name: str) -> bool:
        return any(path.glob(name)) if any(char in name for char in "*?[") else (path / name).exists()

    return tuple(name for name in places.complete if not is_there(name))


def _files_below(path: Path) -> list[str]:
    """Relative names, sorted; of a single file its only name is empty. Raises OSError."""
    if path.is_file():
        return [""]
    found: list[str] = []
    for folder, _, names in os.walk(path, onerror=_raise):
        found += [os.path.relpath(os.path.join(folder, name), path) for name in names]
        if len(found) > FILES_MAX:
            raise OSError(f"{path}: more than {FILES_MAX} files")
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error
