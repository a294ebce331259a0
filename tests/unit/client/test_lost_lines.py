"""A disk that is full, or fails, costs lines and ends no run; how many is the first thing told when there is room again."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.client import Session, Spec, Stream
from sentinel.client import line_file as line_file_module
from sentinel.client.disk_trouble import DISK_ERRNOS, errno_name, is_of_disk
from sentinel.client.heartbeat_file import HeartbeatFile
from sentinel.client.line_file import KEPT_MAX

NAMES = ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "ENODEV", "ENXIO", "ESTALE", "ETIMEDOUT", "EHOSTDOWN", "ENOTCONN", "EMFILE")


class Disk:
    """`os.write` to it. `room`: bytes that still fit; None: all. `number`: what refuses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOSPC) -> None:
        self.room: int | None = None
        self.number = number
        self._write = os.write
        monkeypatch.setattr(line_file_module.os, "write", self.write)

    def write(self, handle: int, data: bytes) -> int:
        if self.room is None:
            return self._write(handle, data)
        if self.room == 0:
            raise OSError(self.number, os.strerror(self.number))
        size = self._write(handle, bytes(data)[: self.room])
        self.room -= size
        return size


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture
def stream(tmp_path):
    return Stream(tmp_path / "run" / "metrics.jsonl", 1)


def whole_lines(path: Path) -> list[dict[str, object]]:
    """As readers take them: a line that is no JSON is left out."""
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def told(path: Path) -> list[tuple[object, ...]]:
    """Kind or event, and step."""
    return [(line.get("event", line["kind"]), line.get("step")) for line in whole_lines(path)]


@pytest.mark.parametrize("name", NAMES)
def test_steps_and_events_survive_a_disk_that_refuses_and_what_was_lost_is_told_first(stream, disk, name):
    disk.number = getattr(errno, name)
    assert disk.number in DISK_ERRNOS
    stream.step(1, loss=1.0)
    disk.room = 0
    for step in (2, 3, 4):
        stream.step(step, loss=1.0)
    assert not stream.is_whole
    disk.room = None
    stream.step(5, loss=1.0)
    assert stream.is_whole
    assert told(stream.path) == [("step", 1), ("lines_lost", 4), ("step", 5)]
    lost = whole_lines(stream.path)[1]
    assert (lost["file"], lost["lines"], lost["steps"], lost["first_step"], lost["last_step"]) == ("metrics.jsonl", 3, 3, 2, 4)
    assert (lost["errno"], lost["reason"]) == (name, os.strerror(disk.number))
    assert lost["first_s"] <= lost["last_s"] <= lost["time_s"]


@pytest.mark.parametrize("room", [0, 1, 7, 20])
def test_a_line_torn_in_the_middle_swallows_nothing(stream, disk, room):
    stream.step(1, loss=1.0)
    disk.room = room
    stream.step(2, loss=1.0)
    stream.step(3, loss=1.0)
    disk.room = None
    stream.step(4, loss=1.0)
    assert told(stream.path) == [("step", 1), ("lines_lost", 3), ("step", 4)]
    assert stream.path.read_bytes().count(b"\n") == (4 if room else 3), "the half line is closed, and nothing else is empty"


def test_a_line_that_lacks_its_newline_alone_is_no_lost_one(stream, disk):
    stream.step(1, loss=1.0)
    size = stream.path.stat().st_size
    disk.room = size - 1
    stream.step(2, loss=1.0)  # as long as the first, give or take a digit of the time
    disk.room = None
    stream.step(3, loss=1.0)
    steps = [step for kind, step in told(stream.path) if kind == "step"]
    lost = [line for line in whole_lines(stream.path) if line.get("event") == "lines_lost"]
    assert len(steps) + sum(int(str(line["lines"])) for line in lost) == 3
    assert len(steps) == len(set(steps))


def test_a_receipt_and_answers_wait_for_room_and_keep_their_order(stream, disk, tmp_path):
    disk.room = 0
    stream.start(
        resume_step=0, resume_digest=None, world_size=1, params=1, tokens_per_step=None, effective={"lr": 1.0}, overrides={}
    )
    stream.step(1, loss=1.0)
    stream.event("override_applied", step=1, id="ov-1")
    stream.step(2, loss=1.0)
    assert stream.is_begun
    disk.room = None
    stream.step(3, loss=1.0)
    assert told(stream.path) == [("lines_lost", 2), ("start", None), ("override_applied", 1), ("step", 3)]
    assert whole_lines(stream.path)[0]["lines"] == 2


def test_what_waits_is_bounded_and_what_is_more_is_counted(stream, disk):
    stream.step(1, loss=1.0)
    disk.room = 0
    for number in range(KEPT_MAX + 5):
        stream.event("note", step=1, number=number)
    disk.room = None
    stream.step(2, loss=1.0)
    lost, *kept, _ = whole_lines(stream.path)[1:]
    assert (lost["event"], lost["lines"], lost["steps"], lost["first_step"]) == ("lines_lost", 5, 0, None)
    assert [line["number"] for line in kept] == list(range(KEPT_MAX))


def test_events_that_waited_and_were_all_written_leave_nothing_to_tell(stream, disk):
    stream.step(1, loss=1.0)
    disk.room = 0
    stream.event("note", step=1)
    disk.room = None
    stream.step(2, loss=1.0)
    assert told(stream.path) == [("step", 1), ("note", 1), ("step", 2)]


def test_a_disk_that_fills_again_while_it_is_told_loses_no_count_and_tells_none_twice(stream, disk):
    """Whatever number of bytes fits, the lines that are there and the lines told as lost are all that were written."""
    wrote = 0
    for room in range(0, 700, 37):
        disk.room = room
        for _ in range(3):
            wrote += 1
            stream.step(wrote, loss=1.0)
    disk.room = None
    wrote += 1
    stream.step(wrote, loss=1.0)
    found = whole_lines(stream.path)
    steps = [line["step"] for line in found if line["kind"] == "step"]
    lost = [line for line in found if line.get("event") == "lines_lost"]
    assert len(steps) == len(set(steps))
    assert len(steps) + sum(int(str(line["lines"])) for line in lost) == wrote
    for line in lost:
        assert not set(range(int(str(line["first_step"])), int(str(line["last_step"])) + 1)) & set(steps)


def test_the_end_line_waits_for_no_room_and_raises_nothing(stream, disk, monkeypatch):
    stream.step(1, loss=1.0)
    disk.room = 0
    stream.end(1, "finished")
    monkeypatch.setattr(line_file_module.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
    disk.room = None
    stream.end(1, "finished")


def test_a_handle_that_went_stale_is_opened_anew(stream, disk, monkeypatch):
    stream.step(1, loss=1.0)
    opened, really = [], line_file_module.open_closed
    monkeypatch.setattr(line_file_module, "open_closed", lambda path, flags: (opened.append(path), really(path, flags))[1])
    disk.room, disk.number = 0, errno.ESTALE
    stream.step(2, loss=1.0)
    disk.room = None
    stream.step(3, loss=1.0)
    assert opened == [stream.path]
    assert told(stream.path)[-1] == ("step", 3)


def test_where_the_folder_went_with_its_filesystem_none_is_made_in_its_place(stream, disk, tmp_path):
    stream.step(1, loss=1.0)
    disk.room = 0
    stream.step(2, loss=1.0)
    disk.room = None
    (tmp_path / "run").rename(tmp_path / "away")
    stream.step(3, loss=1.0)
    assert not (tmp_path / "run").exists()
    (tmp_path / "away").rename(tmp_path / "run")
    stream.step(4, loss=1.0)
    assert told(stream.path) == [("step", 1), ("lines_lost", 3), ("step", 4)]


def test_what_was_set_up_wrongly_is_an_error_at_the_first_line(tmp_path):
    (tmp_path / "m.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        Stream(tmp_path / "m.jsonl", 1).step(1, loss=1.0)


def test_a_writer_that_can_write_its_lines_again_hears_of_every_error(tmp_path, disk):
    stream = Stream(tmp_path / "m.jsonl", 1, raises=True)
    stream.step(1, loss=1.0)
    disk.room = 0
    with pytest.raises(OSError, match="No space left"):
        stream.step(2, loss=1.0)
    disk.room = None
    stream.step(2, loss=1.0)
    assert told(stream.path) == [("step", 1), ("step", 2)]


def test_a_person_is_told_once_for_each_time_of_trouble(stream, disk, capsys):
    for _ in range(2):
        disk.room = 0
        stream.step(1, loss=1.0)
        stream.step(2, loss=1.0)
        disk.room = None
        stream.step(3, loss=1.0)
    assert capsys.readouterr().err.count("could not be written") == 2


def test_the_list_holds_what_a_disk_does_and_nothing_that_a_person_did():
    assert all(is_of_disk(OSError(getattr(errno, name), "")) for name in NAMES)
    of_people = errno.ENOENT, errno.EACCES, errno.EISDIR, errno.EPIPE, errno.EBADF
    assert not any(is_of_disk(OSError(number, "")) for number in of_people)
    assert (errno_name(OSError(28, "")), errno_name(OSError("no number"))) == ("ENOSPC", "OSError")


def test_a_heartbeat_whose_handle_went_stale_is_opened_anew(tmp_path, monkeypatch):
    beats, really, left = HeartbeatFile(tmp_path / "b.json"), os.pwrite, [OSError(errno.ESTALE, "Stale file handle")]
    handles = []

    def pwrite(handle, data, offset):
        handles.append(os.fstat(handle).st_ino)
        if left and len(handles) == 2:
            raise left.pop()
        return really(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    beats.write({"step": 1})
    with pytest.raises(OSError, match="Stale"):
        beats.write({"step": 2})
    (tmp_path / "b.json").unlink()
    beats.write({"step": 3})
    assert json.loads((tmp_path / "b.json").read_text())["step"] == 3


# With the system's own refusals.


def test_dev_full_refuses_every_line_and_ends_nothing(tmp_path):
    (tmp_path / "m.jsonl").symlink_to("/dev/full")
    stream = Stream(tmp_path / "m.jsonl", 1)
    for step in range(1, 4):
        stream.step(step, loss=1.0)
    stream.end(3, "finished")
    assert not stream.is_whole


LIMITED = """
import json, resource, sys
from pathlib import Path
from sentinel.client import Session, Spec
session = Session(Path(sys.argv[1]), Spec(attempt=1))
session.step(1, loss=1.0)
size = session.metrics_path.stat().st_size
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30, hard))
for step in range(2, 6):
    session.step(step, loss=1.0)
session.event("checkpoint_committed", step=5, path="p")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
session.step(6, loss=1.0)
session.end(6, "finished")
"""


def run_python(program: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_a_file_at_its_size_limit_tears_a_line_and_the_rest_is_clean(tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    ended = run_python(LIMITED, tmp_path)
    assert ended.returncode == 0, ended.stderr
    path = Session(tmp_path, Spec(attempt=1)).metrics_path
    assert told(path) == [("step", 1), ("lines_lost", 5), ("checkpoint_committed", 5), ("step", 6), ("end", 6)]
    lost = whole_lines(path)[1]
    assert (lost["errno"], lost["lines"], lost["first_step"], lost["last_step"]) == ("EFBIG", 4, 2, 5)
