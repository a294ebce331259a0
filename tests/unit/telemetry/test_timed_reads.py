"""A read that does not return costs its own source and nothing else."""

import threading

import pytest

from sentinel.model.readings import SourceReading
from sentinel.telemetry import timed_reads
from sentinel.telemetry.source import SourceHealth
from sentinel.telemetry.timed_reads import TimedReads

SHORT_S = 0.02


class Slow:
    """A read that waits until it is let go, then gives what it was told to."""

    def __init__(self, answer: tuple = ()) -> None:
        self.lets_go = threading.Event()
        self.calls = 0
        self.answer = answer

    def __call__(self) -> tuple:
        self.calls += 1
        assert self.lets_go.wait(60.0)
        return self.answer


@pytest.fixture(autouse=True)
def resumes_at_once(monkeypatch) -> None:
    monkeypatch.setattr(timed_reads, "RESUMED_S", SHORT_S)


@pytest.fixture
def health() -> SourceHealth:
    return SourceHealth("checkpoints")


@pytest.fixture
def reads(health):
    reads = TimedReads(health)
    yield reads
    reads.close()


@pytest.fixture
def slow():
    slow = Slow()
    yield slow
    slow.lets_go.set()


def said(readings) -> list[tuple[bool, str]]:
    assert all(isinstance(one, SourceReading) for one in readings)
    return [(one.ok, one.reason) for one in readings]


def until_answered(reads: TimedReads, read=lambda: ()) -> list:
    out = []
    while reads.is_late:
        out += reads.ask(9.0, read)
    return out


def test_an_answer_in_time_is_given_as_it_is(reads) -> None:
    assert reads.ask(1.0, lambda: ["a"]) == ["a"]
    assert not reads.is_late


def test_what_does_not_answer_is_blind_once_and_is_not_asked_again(reads, slow) -> None:
    [(ok, reason)] = said(reads.ask(1.0, slow, SHORT_S))
    assert not ok
    assert reason.startswith("no answer for 0.02 s")
    assert reads.late_since_s == 1.0
    for now_s in (2.0, 3.0):
        assert reads.ask(now_s, slow, SHORT_S) == []
    assert reads.late_since_s == 1.0
    assert slow.calls == 1


def test_the_late_answer_is_delivered_and_the_source_sees_again(reads, slow) -> None:
    slow.answer = ("late",)
    reads.ask(1.0, slow, SHORT_S)
    slow.lets_go.set()
    out = until_answered(reads)
    assert said(out[:1]) == [(True, "it answers again")]
    assert out[1:] == ["late"]
    assert reads.ask(3.0, lambda: ["next"]) == ["next"]


def test_a_source_that_is_blind_by_its_own_account_stays_so_when_it_answers(health, reads, slow) -> None:
    health.lost("permission denied")
    reads.ask(1.0, slow, SHORT_S)
    slow.lets_go.set()
    assert [ok for ok, _ in said(until_answered(reads))] == [False]


def test_an_error_of_the_read_comes_out_where_it_was_asked(reads) -> None:
    def broken() -> tuple:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        reads.ask(1.0, broken)
    assert reads.ask(2.0, lambda: ["fine"]) == ["fine"]


def test_closing_does_not_wait_for_what_is_stuck_and_its_last_act_follows_when_it_goes_on(reads, slow) -> None:
    reads.ask(1.0, slow, SHORT_S)
    closed = threading.Event()
    reads.close(closed.set)
    assert not closed.is_set()
    slow.lets_go.set()
    assert closed.wait(60.0)


def test_what_was_never_asked_is_closed_where_it_stands(reads) -> None:
    closed = []
    reads.close(lambda: closed.append(1))
    assert closed == [1]


def test_another_attempts_reads_say_that_the_source_answers_again(health, slow) -> None:
    first, second = TimedReads(health), TimedReads(health)
    first.ask(1.0, slow, SHORT_S)
    first.close()
    assert said(second.ask(2.0, list)) == [(True, "it answers again")]
    second.close()
