"""The logs that an autopsy reads: one file, or the files of a folder under the ranks that their names say.

Of a run directory, and of torchrun's log directory, the newest attempt counts. What is no log by its name is passed over. How
many files are read, how deep and how much of each is bounded.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sentinel.detectors.crash_class import Owner
from sentinel.report.log_owners import owners_of
from sentinel.telemetry.crash_log import LINES_KEPT, SEARCH_BYTES_MAX, TAIL_BYTES, LogEnd, read_log_end

FILES_MAX = 20_000
DEPTH_MAX = 5
MANY_FILES = 64
LINES_OF_MANY = 40  # whole lines of each end, where there are many files
SEARCH_OF_MANY_BYTES = 16 << 20
BREAKS_OFF = "{}: the compressed data breaks off; its end, where a death would stand, is unknown"
TOO_LONG = f"{{}}: no line of its end could be read, for they are longer than {TAIL_BYTES:,} bytes"

_NO_LOG = (
    ".pt", ".pth", ".bin", ".safetensors", ".npy", ".npz", ".distcp", ".pkl", ".idx", ".arrow", ".parquet", ".png", ".svg",
    ".html", ".py", ".pyc", ".so", ".sh", ".yaml", ".yml", ".toml", ".db", ".sqlite", ".tar", ".zip", ".whl", ".json", ".jsonl",
    ".csv", ".md", ".prom", ".lock", ".pid", ".head",
)  # fmt: skip
_LOG = (".log", ".out", ".err", ".txt")
_FLIGHT_RECORDER = re.compile(r"(?:^|/)(?:_dump_|nccl_trace_rank_|\w*flight_recorder\w*_)\d+$")


@dataclass(frozen=True, slots=True)
class Logs:
    """Lines under their owners, and for each where it stands."""

    tails: dict[Owner, tuple[str, ...]]
    places: dict[Owner, tuple[tuple[Path, int], ...]]
    is_cut: bool
    unread: tuple[str, ...]


def read_logs(path: Path) -> Logs:
    """The ends of all logs. OSError for an argument that cannot be read; a file of a folder that cannot be is in `unread`."""
    return _read_folder(path) if stat.S_ISDIR(path.stat().st_mode) else _read_file(path)


def _read_file(path: Path) -> Logs:
    end = _read_text(path, SEARCH_BYTES_MAX)
    unread = tuple(_troubles(path, end))
    if not end.lines:
        return Logs({}, {}, False, unread)
    return Logs({None: end.lines}, {None: _places(path, end)}, end.is_cut, unread)


def _read_text(path: Path, limit_bytes: int, lines_kept: int = LINES_KEPT) -> LogEnd:
    """OSError also for what is no text: from lines that cannot be in it nothing may be concluded."""
    end = read_log_end(path, limit_bytes, lines_kept=lines_kept, numbered=True)
    if end.no_text:
        raise OSError(22, end.no_text, str(path))
    return end


def _troubles(path: Path, end: LogEnd) -> list[str]:
    """Why what was read of a log is not all that its end says."""
    return [words.format(path) for words, is_so in ((BREAKS_OFF, end.breaks_off), (TOO_LONG, end.is_unbroken)) if is_so]


def _places(path: Path, end: LogEnd) -> tuple[tuple[Path, int], ...]:
    return tuple((path, number) for number in end.numbers)


def _read_folder(folder: Path) -> Logs:
    """Each file under its rank, where its name says one; several of one rank together, standard error last."""
    unread: list[str] = []
    with os.scandir(folder):
        pass  # the argument itself must be readable; of what is in it, each is reported by itself
    paths = sorted(_log_files(folder, unread), key=_order)[:FILES_MAX]
    lines_kept, limit = (LINES_KEPT, SEARCH_BYTES_MAX) if len(paths) <= MANY_FILES else (LINES_OF_MANY, SEARCH_OF_MANY_BYTES)
    ends: dict[Path, LogEnd] = {}
    for path in paths:
        try:
            end = _read_text(path, limit, lines_kept)
        except OSError as error:
            unread.append(f"{path}: {error.strerror or error}")
            continue
        unread += _troubles(path, end)
        if end.lines:
            ends[path] = end
    owners = owners_of(folder, {path: end.lines for path, end in ends.items()})
    tails: dict[Owner, tuple[str, ...]] = {}
    places: dict[Owner, tuple[tuple[Path, int], ...]] = {}
    for path, end in ends.items():
        owner = owners[path]
        tails[owner] = (*tails.get(owner, ()), *end.lines)
        places[owner] = (*places.get(owner, ()), *_places(path, end))
    return Logs(tails, places, any(end.is_cut for end in ends.values()), tuple(unread))


def _order(path: Path) -> tuple[str, bool, bool]:
    """Standard output before the standard error beside it: the last word is that of standard error."""
    is_error = "err" in path.name or "stderr" in path.as_posix()
    name = path.as_posix().replace("stderr", "stdout").replace(".err", ".out")
    return name.removesuffix(".tail"), is_error, not name.endswith(".tail")  # what was cut off a log came before the rest


def _log_files(folder: Path, unread: list[str], depth: int = 0) -> Iterator[Path]:
    """What cannot be looked into is added to `unread`."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        unread.append(f"{folder}: {error.strerror or error}")
        return
    newest = max((number for entry in found if (number := _attempt(folder, entry.name)) is not None), default=None)
    for entry in found:
        if entry.name.startswith(".") or _attempt(folder, entry.name) not in (None, newest):
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth < DEPTH_MAX:
                yield from _log_files(Path(entry.path), unread, depth + 1)
        elif _may_be_log(entry.name) and _is_file(entry, unread):
            yield Path(entry.path)


def _is_file(entry: os.DirEntry[str], unread: list[str]) -> bool:
    """What is called a log and is a pipe or a device stands in the place of one; other pipes are nobody's log."""
    try:
        is_file = entry.is_file()
        if not is_file and entry.name.endswith(_LOG) and not entry.is_dir():
            unread.append(f"{entry.path}: not a regular file")
        return is_file
    except OSError as error:  # a link that leads to itself
        unread.append(f"{entry.path}: {error.strerror or error}")
        return False


def _attempt(folder: Path, name: str) -> int | None:
    """The number of an attempt, for its folder: attempts/0003 of a run directory, attempt_3 of torchrun's."""
    text = name if folder.name == "attempts" else name.removeprefix("attempt_") if name.startswith("attempt_") else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _may_be_log(name: str) -> bool:
    return not name.endswith(_NO_LOG) and "tfevents" not in name and _FLIGHT_RECORDER.search(name) is None
