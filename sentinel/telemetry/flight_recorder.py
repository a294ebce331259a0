"""Reads dumps of PyTorch's flight recorder: one file a rank, named by a prefix and the global rank; a pickle of plain values.

A pickle can run code when it is loaded, and exhaust memory or time without any. `plain_pickle` reads plain values alone, within
bounds. Nothing that a dump holds is trusted to have the type it should have. What is no dump raises ValueError.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sentinel.model.collectives import Collective, Dumps
from sentinel.telemetry.plain_pickle import read_plain_pickle

FILE_BYTES_MAX = 64 * 1024 * 1024
FILES_MAX = 65536
ENTRIES_MAX = 20_000  # the newest; torch keeps 2,000 by default
NAME_CHARS = 80
# The variables by which a trainer says where its dumps go (torch 2.4 to 2.13).
PREFIX_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_RANK = re.compile(r"(\d{1,6})$")
_PEERS = re.compile(r"\b(send|recv) (\d{1,6})(->|<-)(\d{1,6})")


def rank_of(path: Path) -> int | None:
    """The rank whose dump it is, by the end of its name."""
    found = _RANK.search(path.name)
    return int(found[1]) if found is not None else None


def read_dump(path: Path) -> tuple[Collective, ...]:
    """What one rank recorded, oldest first. Raises OSError, and ValueError for what is no dump."""
    with open(_open(path), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_BYTES_MAX:
            raise ValueError(f"{path}: is no dump of a flight recorder (no plain file of at most {FILE_BYTES_MAX >> 20} MiB)")
        data = file.read(FILE_BYTES_MAX)
    try:
        value = read_plain_pickle(data)
    except ValueError as error:
        raise ValueError(f"{path}: is no dump of a flight recorder: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("entries"), list) or not isinstance(value.get("pg_config"), dict):
        raise ValueError(f"{path}: is no dump of a flight recorder: it has no entries and groups")
    groups = {str(name): _members(config) for name, config in value["pg_config"].items() if isinstance(config, dict)}
    return tuple(entry for raw in value["entries"][-ENTRIES_MAX:] if (entry := _entry(raw, groups)) is not None)


def _open(path: Path) -> int:
    """A pipe in the place of a dump must not hold the reader up."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def read_dumps(paths: Iterable[Path]) -> Dumps:
    """By rank. What cannot be read is left out: a dump may be half written."""
    dumps: dict[int, tuple[Collective, ...]] = {}
    for path in sorted(paths)[:FILES_MAX]:
        rank = rank_of(path)
        if rank is None:
            continue
        try:
            dumps[rank] = read_dump(path)
        except (OSError, ValueError):
            continue
    return dumps


def find_dumps(prefix: str, since_s: float = float("-inf")) -> list[Path]:
    """The files PREFIX0, PREFIX1, … written at `since_s` (wall time) or later."""
    folder, name = os.path.split(prefix)
    found: list[Path] = []
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.startswith(name) and entry.name[len(name) :].isdigit() and entry.stat().st_mtime >= since_s:
                    found.append(Path(entry.path))
    except OSError:
        return []
    return found


def dumps_in(folder: Path) -> list[Path]:
    """What looks like a dump in a folder and those below it: a name that ends with a rank, and the first byte of a pickle."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(place, name) for name in sorted(names) if _RANK.search(name) and "." not in name]
        if len(found) > FILES_MAX:
            break
    return [path for path in found[:FILES_MAX] if _is_pickle(path)]


def _is_pickle(path: Path) -> bool:
    try:
        with open(_open(path), "rb") as file:
            return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(1) == b"\x80"
    except OSError:
        return False


def _members(config: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    """A group's description and its members, which torch writes as text: `[0, 1, 2]`. None where they are not described."""
    ranks, described = config.get("ranks"), config.get("desc")
    if isinstance(ranks, str):
        members = _members_in(ranks)
    elif isinstance(ranks, (list, tuple)) and all(type(rank) is int for rank in ranks):
        members = tuple(ranks)
    else:
        return None
    return described[:NAME_CHARS] if isinstance(described, str) else "", members


@lru_cache(maxsize=1024)  # every rank's dump has the text of every group: one tuple of each is enough
def _members_in(ranks: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,7}", ranks))


def _entry(raw: object, groups: Mapping[str, tuple[str, tuple[int, ...]] | None]) -> Collective | None:
    """None for an entry of a group that the dump does not describe, and for none at all."""
    if not isinstance(raw, dict):
        return None
    named, state, calls = raw.get("process_group"), raw.get("state"), raw.get("profiling_name", "")
    name = named[0] if isinstance(named, (list, tuple)) and named else ""
    group = groups.get(str(name)) if isinstance(name, (str, int)) else None
    if group is None or not isinstance(calls, str) or state not in ("scheduled", "started", "completed"):
        return None
    calls, is_p2p = calls[:NAME_CHARS], raw.get("is_p2p") is True
    number = raw.get("p2p_seq_id" if is_p2p else "collective_seq_id")
    if type(number) is not int:
        return None
    peers = _PEERS.search(calls) if is_p2p else None
    if not is_p2p:
        return Collective(group, number, calls, state)
    if peers is None or int(peers[4]) >= len(group[1]):
        return None
    return Collective(group, number, calls, state, peer=group[1][int(peers[4])], receives=peers[1] == "recv")
