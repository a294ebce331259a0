"""What a mirror holds, told by one small object that is put last: mirror-00000042.json.

Each has a higher number than the one before, and its own digest inside. The newest that is whole counts, and the one before it
stays, with all that it names, so that a cut anywhere leaves a mirror that can be brought back.

    record = read_record(store)          # None: nothing lies there
    write_record(store, replace(record, number=record.number + 1, ...))
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from sentinel.client.strict_json import dumps, loads
from sentinel.mirrors.stores import MirrorError, NotThere, RefusedByStore, Store, read_small, send

VERSION = 1
KEPT = 2  # records, the newest
LARGEST_INT = 2**53
WALL_S_MAX = 1e11  # the year 5138
_NAME = re.compile(r"mirror-(\d{8,12})\.json")


@dataclass(frozen=True, slots=True)
class JournalThere:
    """A copy of the journal: its object, the bytes and sha256 of that, and the entries that it ends with. epoch: the newest
    supervisor's that it knows. wall_s: when it was taken."""

    name: str
    size: int
    sha256: str
    entries: int
    digest: str
    epoch: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class StreamsThere:
    """The list of files: its object, bytes and sha256. files, bytes: what the list amounts to. wall_s: when it was made."""

    name: str
    size: int
    sha256: str
    files: int
    bytes: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class CheckpointThere:
    """A whole checkpoint in `folder`. digest: sha256 of its manifest. bytes: of all its files. wall_s: when it was whole."""

    step: int
    digest: str
    folder: str
    bytes: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """number: of the record. run: the run's id. writer: who may write here, by a word that only its own run directory has.
    generation: one higher for each writer, so that one that was succeeded knows it. host: the writer's. journal_before: the copy
    that was there until the newest was whole."""

    number: int
    run: str
    writer: str
    generation: int
    host: str
    journal: JournalThere | None = None
    journal_before: JournalThere | None = None
    streams: StreamsThere | None = None
    checkpoints: tuple[CheckpointThere, ...] = ()

    @property
    def name(self) -> str:
        return f"mirror-{self.number:08d}.json"


def numbers_there(store: Store) -> list[int]:
    """Of records, the newest first, whether they are whole or not. Raises MirrorError."""
    return sorted((int(match[1]) for name in store.names() if (match := _NAME.fullmatch(name))), reverse=True)


def read_records(store: Store) -> Iterator[MirrorRecord]:
    """Those that are whole, the newest first. Raises MirrorError where the place cannot be read, RefusedByStore for a newer
    version."""
    for number in numbers_there(store):
        try:
            yield _parse(store, number, read_small(store, f"mirror-{number:08d}.json"))
        except (NotThere, ValueError, KeyError, TypeError):
            continue  # half of one, or damaged: the one before counts


def read_record(store: Store) -> MirrorRecord | None:
    """The newest that is whole; None where nothing lies there. Raises as `read_records`; RefusedByStore where none is whole."""
    for record in read_records(store):
        return record
    if numbers_there(store):
        raise RefusedByStore(
            f"{store.where}: none of its records (mirror-*.json) can be read; choose another place, or move this one"
        )
    return None


def write_record(store: Store, record: MirrorRecord) -> None:
    """Put it, read it back, and drop those that are too old. Raises MirrorError."""
    body = dumps({"v": VERSION, **asdict(record)})
    outer = dumps({"body": body, "sha256": hashlib.sha256(body.encode()).hexdigest()})
    send(store, record.name, [outer.encode() + b"\n"])
    for number in numbers_there(store)[KEPT:]:
        store.delete(f"mirror-{number:08d}.json")


def _parse(store: Store, number: int, data: bytes) -> MirrorRecord:
    outer = loads(data)
    if hashlib.sha256(outer["body"].encode()).hexdigest() != outer["sha256"]:
        raise ValueError("its digest is another")
    plain: dict[str, Any] = loads(outer["body"])
    if plain.pop("v") != VERSION:
        raise RefusedByStore(f"{store.where}: was written by another version of sentinel; use that one, or a later one")
    if plain["number"] != number:
        raise ValueError("is the record of another number")
    journal, before, streams = plain.pop("journal"), plain.pop("journal_before"), plain.pop("streams")
    checkpoints = tuple(checked(CheckpointThere(**one)) for one in plain.pop("checkpoints"))
    return checked(
        MirrorRecord(
            **plain,
            journal=None if journal is None else checked(JournalThere(**journal)),
            journal_before=None if before is None else checked(JournalThere(**before)),
            streams=None if streams is None else checked(StreamsThere(**streams)),
            checkpoints=checkpoints,
        )
    )


Checked = TypeVar("Checked", JournalThere, StreamsThere, CheckpointThere, MirrorRecord)


def checked(made: Checked) -> Checked:
    """What was read, if each of its numbers and texts is one that a mirror of ours may have. Raises ValueError."""
    for one in fields(made):
        value = getattr(made, one.name)
        is_fit = {
            "int": type(value) is int and 0 <= value < LARGEST_INT,
            "float": isinstance(value, (int, float)) and 0.0 <= value < WALL_S_MAX,
            "str": isinstance(value, str) and value.isprintable(),
        }.get(str(one.type), True)
        if not is_fit:
            raise ValueError(f"{one.name}: {value!r:.80} is none of ours")
    return made


def find_mirror(store: Store, open_below: Callable[[str], Store]) -> tuple[Store, MirrorRecord]:
    """The mirror that lies there, or the only one in a folder right below. `open_below`: opens the store of such a folder.
    Raises RefusedByStore, MirrorError."""
    found = read_record(store)
    if found is not None:
        return store, found
    below = {name: open_below(name) for name in store.names()}
    mirrors = {name: one for name, one in below.items() if numbers_there(one)}
    if not mirrors:
        raise RefusedByStore(f"{store.where}: holds no mirror of a run")
    if len(mirrors) > 1:
        raise RefusedByStore(f"{store.where}: holds the mirrors of {', '.join(sorted(mirrors))}; name one: {store.where}/NAME")
    only = next(iter(mirrors.values()))
    record = read_record(only)
    if record is None:
        raise MirrorError(f"{only.where}: has just been deleted")
    return only, record
