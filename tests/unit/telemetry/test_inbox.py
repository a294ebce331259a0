"""What is posted is read as it was meant, once; what is no wish is said and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.model import operator_requests as w
from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.readings import RequestReading, SourceReading
from sentinel.telemetry.inbox import Inbox, post, withdraw

REQUESTS: list[w.OperatorRequest] = [
    w.PauseRun(),
    w.ResumeRun(),
    w.HoldRun(),
    w.RollBack(0),
    w.RollBack(120, SettingsInForce(lr_scale=0.5, precision="bf16", skip=(SampleRange(3, 9),)), ("lr_scale", "precision")),
    w.LeaveOut(SampleRange(51200, 53760)),
    w.ChangeSettings(SettingsInForce(clip_norm=0.3, betas=(0.9, 0.95)), ("clip_norm", "betas"), 2000),
    w.ChangeSettings(SettingsInForce(), ("lr_scale",)),
    w.Approve(3),
    w.Approve(3, 1),
    w.Deny(3, 0),
    w.Deny(3),
    w.Acknowledge(12),
    w.Resolve(12),
    w.PruneCheckpoints(3),
    w.Remark("the disk of node 3 was full; Grüße, ada"),
]


def read(inbox: Inbox) -> list[RequestReading]:
    return [reading for reading in inbox.poll(0.0) if isinstance(reading, RequestReading)]


@pytest.mark.parametrize("wish", REQUESTS, ids=lambda wish: type(wish).__name__)
def test_a_wish_is_read_as_it_was_meant(tmp_path: Path, wish: w.OperatorRequest) -> None:
    number = post(tmp_path, "ada@desk", wish, 1)
    assert read(Inbox(tmp_path)) == [RequestReading(number, "ada@desk", wish)]


def test_wishes_come_in_the_order_they_were_asked_and_once(tmp_path: Path) -> None:
    numbers = [post(tmp_path, "ada", w.Approve(n), n) for n in (5, 1, 3)]
    inbox = Inbox(tmp_path)
    assert [reading.id for reading in read(inbox)] == [numbers[1], numbers[2], numbers[0]]
    assert len(list((tmp_path / "inbox").iterdir())) == 3, "not removed before they were answered on disk"
    assert read(inbox) == []
    assert list((tmp_path / "inbox").iterdir()) == []


def test_a_supervisor_killed_before_it_removed_the_file_leaves_it_to_the_next(tmp_path: Path) -> None:
    number = post(tmp_path, "ada", w.HoldRun(), 1)
    assert [r.id for r in read(Inbox(tmp_path))] == [r.id for r in read(Inbox(tmp_path))] == [number]


def test_a_wish_can_be_taken_back_until_it_was_read(tmp_path: Path) -> None:
    number = post(tmp_path, "ada", w.HoldRun(), 1)
    assert withdraw(tmp_path, number)
    assert read(Inbox(tmp_path)) == []
    assert not withdraw(tmp_path, number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"id": "a", "by": "b", "ask": "explode"}',
        '{"id": "a", "by": "b", "ask": "rollback"}',
        '{"id": "a", "by": "b", "ask": "rollback", "to_step": -1}',
        '{"id": "a", "by": "b", "ask": "rollback", "to_step": true}',
        '{"id": "a", "by": "b", "ask": "skip", "skip": [[5, 5]]}',
        '{"id": "a", "by": "b", "ask": "skip", "skip": [[1, 2], [3, 4]]}',
        '{"id": "a", "by": "b", "ask": "set", "settings": {"lr_scale": -1}}',
        '{"id": "a", "by": "b", "ask": "set", "settings": {"seed": 1}}',
        '{"id": "a", "by": "b", "ask": "approve", "incident": "1"}',
        '{"id": "a", "by": "b", "ask": "approve", "incident": 1, "rung": "0"}',
        "[" * 100_000,
    ],
)
def test_what_is_no_wish_is_said_and_removed(tmp_path: Path, text: str) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / f"{1:020d}-0123456789ab.json").write_text(text)
    inbox = Inbox(tmp_path)
    (*_, said) = inbox.poll(0.0)
    assert isinstance(said, SourceReading)
    assert "is no request" in said.reason
    assert inbox.poll(0.0) == []
    assert list((tmp_path / "inbox").iterdir()) == []


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / ".half-written.tmp").write_text("{")
    (tmp_path / "inbox" / "notes.txt").write_text("mine")
    inbox = Inbox(tmp_path)
    assert inbox.poll(0.0) == inbox.poll(1.0) == []
    assert len(list((tmp_path / "inbox").iterdir())) == 2


def test_a_wish_that_cannot_be_read_now_is_read_later(tmp_path: Path) -> None:
    """A directory in its place stands for a stale handle: an OSError, and not a wish that is none."""
    number = post(tmp_path, "ann", w.HoldRun(), 1)
    (file,) = (tmp_path / "inbox").iterdir()
    kept = file.read_bytes()
    file.unlink()
    file.mkdir()
    inbox = Inbox(tmp_path)
    (said,) = inbox.poll(0.0)
    assert isinstance(said, SourceReading)
    assert (said.ok, said.remark) == (False, False)
    assert inbox.poll(1.0) == []  # still blind: said once
    file.rmdir()
    file.write_bytes(kept)
    wish, said = inbox.poll(2.0)
    assert wish == RequestReading(number, "ann", w.HoldRun())
    assert isinstance(said, SourceReading)
    assert said.ok
    assert inbox.poll(3.0) == []
    assert list((tmp_path / "inbox").iterdir()) == []
