"""A mirror that somebody else wrote, with digests that agree: what is none of ours is refused in a sentence, and at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentinel.errors import UsageError
from sentinel.mirrors.fetching import fetch_files
from sentinel.mirrors.local_store import LocalStore
from sentinel.mirrors.record import CheckpointThere, JournalThere, MirrorRecord, StreamsThere, read_record, write_record
from sentinel.mirrors.stores import RefusedByStore
from sentinel.mirrors.stretches import BundleStretch, FileThere, read_list, send_list

RECORD = MirrorRecord(
    1, "gpt", "writer", 1, "node-1", JournalThere("j", 3, "00", 2, "00", 1, 5.0), None, StreamsThere("s", 1, "00", 1, 1, 5.0),
    (CheckpointThere(50, "00", "c", 9, 5.0),),
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "mirror")


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("", "host", "\x1b]0;owned\x07"), ("", "run", 5), ("", "generation", -1), ("journal", "name", None),
        ("journal", "size", "x"), ("journal", "wall_s", 1e308), ("journal", "wall_s", "x"), ("streams", "size", 2**60),
        ("checkpoints", "step", "x"), ("checkpoints", "bytes", -5),
    ],
)  # fmt: skip
def test_a_record_with_a_value_that_none_of_ours_has_is_not_read(store: LocalStore, part: str, name: str, value: Any) -> None:
    write_record(store, RECORD)
    assert read_record(store) == RECORD
    if not part:
        forged = replace(RECORD, **{name: value})
    elif part == "checkpoints":
        forged = replace(RECORD, checkpoints=(replace(RECORD.checkpoints[0], **{name: value}),))
    else:
        forged = replace(RECORD, **{part: replace(getattr(RECORD, part), **{name: value})})
    write_record(store, forged)
    with pytest.raises(RefusedByStore, match="none of its records"):
        read_record(store)


@pytest.mark.parametrize(
    "stretch", [("b", 0, -5, "00"), ("b", -1, 5, "00"), (None, 0, 5, "00"), ("b", 0, "x", "00"), ("b", 0, 5), ("b", 0.0, 5, "00")]
)
def test_a_list_with_a_stretch_that_cannot_be_is_damaged(store: LocalStore, stretch: Any) -> None:
    """A size of -5 was read for ever, at two gigabytes."""
    there = send_list(store, 1, {"run.json": FileThere((BundleStretch("b", 0, 5, "00"),))}, 1.0)
    assert read_list(store, there) is not None
    files: Any = {"run.json": FileThere((stretch,))}
    try:
        forged = send_list(store, 2, files, 1.0)
    except (AttributeError, TypeError):  # the sum of its sizes is written beside it
        forged = send_list(store, 2, {"run.json": Sizeless((stretch,))}, 1.0)  # type: ignore[dict-item]
    assert read_list(store, forged) is None


class Sizeless:
    size = 0

    def __init__(self, stretches: Any) -> None:
        self.stretches = stretches


@pytest.mark.parametrize(
    "name",
    ["checkpoints/step-00000050/w.bin", "inbox/x.json", "sentinel.lock", "sentinel.db-wal", "attempts/0001/keeper.json",
     "journal.head", "../x", "/etc/x", "a\0b", "half-\ud800"],
)  # fmt: skip
def test_what_is_fetched_by_itself_or_is_of_one_machine_is_no_file_of_the_list(
    store: LocalStore, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="sentinel did not write it"):
        fetch_files(store, {name: FileThere()}, tmp_path / "run")
    assert not (tmp_path / "run").exists()
