"""Dumps as torch writes them, and files that only look like one."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.flight_pipe import ask_for_dump
from sentinel.model.collectives import Collective
from sentinel.telemetry.flight_recorder import dumps_in, find_dumps, rank_of, read_dump, read_dumps

GROUPS = {"35": {"name": "35", "desc": "TP", "ranks": "[4, 6]"}}


def entry(**changed: Any) -> dict[str, Any]:
    fields = {
        "process_group": ("35", "TP"), "collective_seq_id": 7, "p2p_seq_id": 0, "profiling_name": "nccl:all_reduce",
        "state": "scheduled", "is_p2p": False,
    }  # fmt: skip
    return fields | changed


def written(path: Path, *entries: Any, **more: Any) -> Path:
    path.write_bytes(pickle.dumps({"version": "2.10", "pg_config": GROUPS, "entries": list(entries), **more}))
    return path


def test_an_entry_becomes_a_collective_of_its_group(tmp_path: Path) -> None:
    path = written(tmp_path / "rank_4", entry(), entry(collective_seq_id=8, state="completed"))
    group = ("TP", (4, 6))
    assert read_dump(path) == (
        Collective(group, 7, "nccl:all_reduce", "scheduled"), Collective(group, 8, "nccl:all_reduce", "completed"),
    )  # fmt: skip


def test_a_point_to_point_call_names_its_peer_as_a_global_rank(tmp_path: Path) -> None:
    sent = entry(is_p2p=True, p2p_seq_id=3, profiling_name="nccl:send 0->1")
    received = entry(is_p2p=True, p2p_seq_id=4, profiling_name="nccl:recv 0<-1")
    calls = read_dump(written(tmp_path / "rank_4", sent, received))
    assert [(call.number, call.peer, call.receives) for call in calls] == [(3, 6, False), (4, 6, True)]


def test_what_is_not_described_is_left_out(tmp_path: Path) -> None:
    strange = [
        entry(process_group=("9", "gone")), entry(state="lost"), entry(collective_seq_id=None), "no entry",
        entry(is_p2p=True, profiling_name="nccl:coalesced"), entry(is_p2p=True, profiling_name="nccl:send 0->9"),
    ]  # fmt: skip
    assert read_dump(written(tmp_path / "rank_4", *strange, entry())) == read_dump(written(tmp_path / "rank_5", entry()))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("evil",)


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rank_0"
    path.write_bytes(pickle.dumps({"pg_config": GROUPS, "entries": [Evil()]}))
    with pytest.raises(ValueError, match=r"rank_0: is no dump of a flight recorder: it names posix\.mkdir"):
        read_dump(path)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps([1]), pickle.dumps({"entries": 1}), b"\x80\x04K\x01."])
def test_what_is_no_dump_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rank_0"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is no dump of a flight recorder"):
        read_dump(path)
    written(tmp_path / "rank_1", entry())
    assert list(read_dumps(tmp_path.iterdir())) == [1]


@pytest.mark.parametrize("ranks", [[None], [[1]], [float("inf")], {"1": 1}, 7, None])
def test_members_that_are_no_ranks_leave_their_group_out(tmp_path: Path, ranks: Any) -> None:
    path = tmp_path / "rank_0"
    path.write_bytes(pickle.dumps({"pg_config": {"35": {"desc": "TP", "ranks": ranks}}, "entries": [entry()]}))
    assert list(read_dumps([path]).values()) == [()]


def test_fields_of_another_type_are_not_turned_into_text(tmp_path: Path) -> None:
    """A list of lists, each twice in the next, is a few hundred bytes, and as text longer than any memory."""
    deep: list[Any] = ["x"]
    for _ in range(60):
        deep = [deep, deep]
    groups = {"35": {"name": deep, "desc": deep, "ranks": [4, 6]}}
    entries = [entry(process_group=(deep, deep)), entry(profiling_name=deep), entry(state=deep), entry()]
    path = tmp_path / "rank_4"
    path.write_bytes(pickle.dumps({"pg_config": groups, "entries": entries}))
    assert [(call.group, call.name) for call in read_dump(path)] == [(("", (4, 6)), "nccl:all_reduce")]


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_a_dump_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank_0")
    written(tmp_path / "rank_1", entry())
    assert dumps_in(tmp_path) == [tmp_path / "rank_1"]
    assert list(read_dumps(tmp_path.iterdir())) == [1]


def test_a_half_written_dump_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "rank_0", entry())
    path.write_bytes(path.read_bytes()[:-20])
    assert read_dumps([path]) == {}


def test_dumps_are_found_by_their_prefix_and_their_age(tmp_path: Path) -> None:
    for name in ("rank_0", "rank_12", "rank_x", "other_3"):
        written(tmp_path / name, entry())
    os.utime(tmp_path / "rank_0", (100.0, 100.0))
    assert {path.name for path in find_dumps(str(tmp_path / "rank_"))} == {"rank_0", "rank_12"}
    assert {path.name for path in find_dumps(str(tmp_path / "rank_"), 200.0)} == {"rank_12"}
    assert find_dumps(str(tmp_path / "none" / "rank_")) == []
    assert [rank_of(Path(name)) for name in ("_dump_7", "rank_12", "x")] == [7, 12, None]


def test_a_pipe_is_asked_where_somebody_listens_and_nothing_waits_where_nobody_does(tmp_path: Path) -> None:
    assert not ask_for_dump(str(tmp_path / "pipe_"), 0)
    os.mkfifo(tmp_path / "pipe_0.pipe")
    assert not ask_for_dump(str(tmp_path / "pipe_"), 0)  # no reader
    reader = os.open(tmp_path / "pipe_0.pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert ask_for_dump(str(tmp_path / "pipe_"), 0)
        assert os.read(reader, 16) == b"1\n"
    finally:
        os.close(reader)
    (tmp_path / "pipe_1.pipe").write_text("a file")
    assert not ask_for_dump(str(tmp_path / "pipe_"), 1)
    assert (tmp_path / "pipe_1.pipe").read_text() == "a file"
