"""What others say is masked before it becomes a fact, and a masked command is still compared with the command it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentinel.client.masking import Masking
from sentinel.engine.masked_events import masked
from sentinel.journal.codec import encode_fact
from sentinel.journal.run_file import new_digest_key
from sentinel.model import facts as f
from sentinel.model.attempts import Exited, ExitReport, Orphaned, RankExit, Unseen
from sentinel.model.events import ActionDelayed, ActionDone, ActionFailed, SupervisorStarted
from sentinel.model.operator_requests import Remark
from sentinel.model.readings import HardwareReading, LauncherReading, LogTail, RequestReading, SourceReading, TrainerNote
from sentinel.plan.environment import compare_commands
from tests.builders import Bench
from tests.unit.journal.test_run_file import RUN

SECRET = "s3cretvalue-0123"
SAYS = f"401 for {SECRET}"
REPORT = ExitReport(1, (RankExit(0, 1, None, "record", SAYS), RankExit(1, 0, None, "record")), 0, SAYS)
EVENTS: list[Any] = [
    ActionDone("start/1", SAYS), ActionFailed("page/1/1", SAYS, None), ActionDelayed("page/1/1", SAYS, 1.0),
    SourceReading("metrics", False, SAYS), LogTail(1, 0, ("step 1", SAYS)), HardwareReading("kernel_log", "xid", SAYS),
    LauncherReading(Exited(1, REPORT)), LauncherReading(Orphaned(1, (), SAYS)), LauncherReading(Unseen(1, SAYS)),
    TrainerNote(1, "remark", 1, 0.0, {"reason": SAYS}), RequestReading("1", "ada", Remark(SAYS)),
    TrainerNote(1, "resumed_older", 1, 0.0, {"passed_over": [{"step": 1, "reason": SAYS}]}),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_the_words_of_others_are_masked(event: Any) -> None:
    seen = masked(event, Masking([SECRET]))
    assert SECRET not in repr(seen)
    assert "401 for ***" in repr(seen)
    assert type(seen) is type(event)


def test_a_key_that_took_several_lines_moves_where_standard_error_begins() -> None:
    key = ("-----BEGIN PRIVATE KEY-----", "MIIEvQ0123456789", "-----END PRIVATE KEY-----")
    seen = masked(LogTail(1, 0, ("step 1", *key, "boom"), errors_from=4), Masking([]))
    assert isinstance(seen, LogTail)
    assert (len(seen.lines), seen.errors_from, seen.lines[-1]) == (3, 2, "boom")


def test_what_is_compared_stays() -> None:
    data = {"id": SECRET, "path": SECRET, "keys": [SECRET], "effective": {"name": SECRET}, "reason": "no"}
    note = TrainerNote(1, "override_refused", 1, 0.0, data)
    assert masked(note, Masking([SECRET])) == note


def started(bench: Bench, *words: str, key: str) -> tuple[f.Fact, ...]:
    run = replace(RUN, command=("train.py", *words), digest_key=key)
    event = SupervisorStarted(
        bench.epoch + 1, "here", 1, "run", run.command, "/", "bench", "0", False, command_digest=run.command_digest
    )
    return bench.tell(event)


def changes(facts: tuple[f.Fact, ...]) -> list[f.CommandChanged]:
    return [fact for fact in facts if isinstance(fact, f.CommandChanged)]


def test_a_command_is_masked_in_the_journal_and_a_rotated_secret_is_a_change() -> None:
    key, bench = new_digest_key(), Bench()
    bench.entries.clear()
    first = started(bench, "--api-key", SECRET, key=key)
    assert SECRET not in repr(first)
    assert not changes(started(bench, "--api-key", SECRET, key=key)), "the same command"
    (changed,) = changes(started(bench, "--api-key", "s3cretvalue-4567", key=key))
    assert changed.before == changed.command == ("train.py", "--api-key", "***")
    assert compare_commands(changed.before, changed.command) == "the command: a value that is masked"
    assert not changes(started(bench, "--api-key", "s3cretvalue-4567", key=key)), "it is said once"
    (more,) = changes(started(bench, "--api-key", "s3cretvalue-4567", "--lr", "2", key=key))
    assert compare_commands(more.before, more.command) == "the command: --lr 2 added"
    assert all(SECRET not in "".join(encode_fact(entry.fact)) for entry in bench.entries)


def test_a_journal_of_before_has_no_digest_and_its_words_are_compared() -> None:
    bench = Bench().launched()
    old = replace(bench.engine.state, command=("train.py", "--api-key", SECRET), command_digest="")
    for digest, expected in (("", 0), ("ab", 0)):
        bench.engine.state = bench.folded = old
        event = SupervisorStarted(2, "here", 1, "run", old.command, "/", "bench", "0", False, command_digest=digest)
        assert len(changes(bench.tell(event))) == expected


def test_the_digest_needs_the_key_of_the_run() -> None:
    run = replace(RUN, digest_key="a")
    assert run.command_digest != replace(run, digest_key="b").command_digest != ""
    assert replace(run, digest_key="").command_digest == ""
