"""What is no regular file is refused at once: nobody waits for a FIFO, and nobody reads a device to its end."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel.checkpoints.files import read_numbers
from sentinel.checkpoints.manifest import MANIFEST
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.client import OverridesError, Session, Spec, SpecError, read_spec
from sentinel.client.checkpoint_files import synced_size
from sentinel.client.regular_file import NotRegular, read_regular, regular
from sentinel.client.run_layout import stream_path
from sentinel.client.torch.reading_back import PART, read_all_back
from sentinel.errors import UsageError
from sentinel.journal.lease import read_lease
from sentinel.journal.run_file import find_run_file
from sentinel.launcher.elsewhere import read_printed
from sentinel.launcher.file_locks import is_locked
from sentinel.launcher.interpreter import find_interpreter
from sentinel.launcher.py_spy import read_dump
from sentinel.launcher.rank_processes import read_stack
from sentinel.model.operator_requests import Acknowledge
from sentinel.model.readings import RequestReading, SourceReading
from sentinel.report.log_files import read_tail
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.stream import read_newest_step, read_receipt
from sentinel.telemetry.heartbeats import Heartbeats
from sentinel.telemetry.inbox import Inbox, post
from sentinel.tensorboard.event_file import first_step

pytestmark = pytest.mark.timeout(20)


def fifo(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def device(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/zero")
    return path


PLANTED = pytest.mark.parametrize("plant", [fifo, device])


def test_a_regular_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"words")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"words"
    with open(tmp_path / "file", "rb", opener=regular) as file:
        assert file.read() == b"words"


def test_what_it_is_is_said(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path, words in {fifo(tmp_path / "f"): "a FIFO", device(tmp_path / "d"): "a device"}.items():
            with pytest.raises(NotRegular, match=f"is {words}, not a regular file"):
                read_regular(path)
        with pytest.raises(IsADirectoryError):
            read_regular(tmp_path)
        with pytest.raises(OSError, match="socket"):
            read_regular(tmp_path / "socket")


def test_a_file_beyond_the_bound_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    with pytest.raises(NotRegular, match="larger than 4 bytes"):
        read_regular(tmp_path / "file", 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "absent")


@PLANTED
def test_a_checkpoint_whose_manifest_or_tensors_are_none_is_damaged(tmp_path: Path, plant: Callable[[Path], Path]) -> None:
    plant(tmp_path / "step-00000010" / MANIFEST)
    assert verify_checkpoint(tmp_path / "step-00000010").ok is False
    assert read_numbers(tmp_path / "step-00000010") == {}
    folder = tmp_path / "step-00000020"
    plant(folder / "model.bin")
    (folder / MANIFEST).write_text('{"step": 20, "files": {"model.bin": {"bytes": 0, "sha256": "%s"}}}' % ("0" * 64))
    found = verify_checkpoint(folder)
    assert found.ok is False
    assert "not a regular file" in found.reason or "is a link out of the checkpoint, to '/dev/zero'" in found.reason


@PLANTED
def test_the_loops_own_readers_go_on(tmp_path: Path, plant: Callable[[Path], Path]) -> None:
    plant(stream_path(tmp_path, 1))
    assert read_receipt(tmp_path, 1) is None
    assert read_newest_step(tmp_path, 1) is None
    plant(tmp_path / "lease.json")
    read_lease(tmp_path)
    plant(tmp_path / "senses.json")
    assert read_standings(tmp_path).missing
    plant(tmp_path / "attempts" / "0001" / "heartbeats" / "rank-00000.json")
    (tmp_path / "attempts" / "0001" / "heartbeats" / "rank-00001.json").write_text('{"step": 3, "phase": "forward"}')
    beats = [one for one in Heartbeats(tmp_path, 1).poll(0.0) if not isinstance(one, SourceReading)]
    assert [beat.rank for beat in beats] == [1], "the other rank is heard"
    plant(tmp_path / "run.json")
    with pytest.raises(UsageError, match="not a regular file"):
        find_run_file(tmp_path)


@PLANTED
def test_one_in_the_inbox_does_not_keep_the_others_waiting(tmp_path: Path, plant: Callable[[Path], Path]) -> None:
    plant(tmp_path / "inbox" / "00000000000000000001-aaaaaaaaaaaa.json")
    asked = post(tmp_path, "me", Acknowledge(1), 2)
    inbox = Inbox(tmp_path)
    readings = [*inbox.poll(0.0), *inbox.poll(60.0)]
    assert [one.id for one in readings if isinstance(one, RequestReading)] == [asked]
    (said,) = [one.reason for one in readings if isinstance(one, SourceReading) and one.remark]
    assert "not a regular file" in said


@PLANTED
def test_training_reads_what_it_is_told_and_goes_on(tmp_path: Path, plant: Callable[[Path], Path]) -> None:
    session = Session(tmp_path, Spec(attempt=1))
    plant(tmp_path / "lease.json")
    assert session.may_commit(), "it proves nothing about a successor"
    plant(tmp_path / "overrides.json")
    with pytest.raises(OverridesError, match="not a regular file"):
        session.poll_overrides()
    with pytest.raises(SpecError, match="not a regular file"):
        read_spec(plant(tmp_path / "attempts/0001/spec.json"))
    plant(tmp_path / "saved" / f"{PART}00001.json")
    with pytest.raises(NotRegular):
        read_all_back(tmp_path / "saved", [[], ["model.bin"]])
    with pytest.raises(NotRegular):
        synced_size(plant(tmp_path / "saved/model.bin"))


def test_training_writes_into_a_pipe_that_nobody_reads_and_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = Session(tmp_path, Spec(attempt=1))
    fifo(session.heartbeat_path)
    session.heartbeat(1, "forward")
    fifo(session.metrics_path)
    for step in range(2000):  # a pipe takes 64 KiB
        session.step(step, loss=1.0, words=float(step) / 3)
    assert "could not be written" in capfd.readouterr().err


@PLANTED
def test_commands_read_past_it(tmp_path: Path, plant: Callable[[Path], Path]) -> None:
    logs = tmp_path / "attempts/0001/logs"
    plant(logs / "rank-00000.err")
    assert read_tail(logs / "rank-00000.err", 3) == ([], 0)
    assert read_stack(plant(tmp_path / "stacks")) == ()
    assert read_dump(plant(tmp_path / "dump")) == ()
    assert read_printed(AttemptFiles(tmp_path, 1)) == ""
    assert find_interpreter([str(plant(tmp_path / "trainer"))], "/") is None
    with contextlib.suppress(NotRegular):
        first_step(plant(tmp_path / "events"))
    assert not is_locked(fifo(tmp_path / "lock")), "nobody holds it"
