"""Steps that ranks make and nobody reads: a person is called, and a run that ends so is not called finished without a word."""

from __future__ import annotations

from sentinel.model import actions as a
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import SourceReading
from tests.builders import Bench, build_policy
from tests.unit.engine.paged import TERMINAL

MINUTE = 60.0


def watched() -> Bench:
    return Bench(build_policy(paging={"routes": [TERMINAL]})).launched().steps(1, 20)


def trains_on(bench: Bench, first: int, last: int) -> Bench:
    """As only its heartbeats show."""
    for step in range(first, last + 1):
        bench.now_s += 1.0
        bench.beat("forward", step)
        bench.tick(0.0)
    return bench


def unread(bench: Bench) -> list[IncidentState]:
    return [incident.state for incident in bench.state.incidents if incident.kind is Kind.UNREAD]


def test_a_stream_that_says_nothing_calls_somebody_once_and_training_is_left_alone() -> None:
    bench = trains_on(watched(), 21, 250)
    assert "step lines" in bench.state.blind
    assert not unread(bench)
    trains_on(bench, 251, 900)
    assert unread(bench) == [IncidentState.EXHAUSTED]
    (page,) = bench.decided(a.SendPage)
    assert "nothing has been judged for 5 min" in page.text
    assert not bench.decided(a.KillAttempt)


def test_the_page_is_taken_back_when_numbers_are_read_again() -> None:
    bench = trains_on(watched(), 21, 400).steps(401, 420)
    bench.tick()
    assert bench.incident.page is not None
    assert not bench.incident.page.is_open
    assert "were never judged" in bench.incident.page.resolved


def test_a_restart_of_the_supervisor_does_not_call_a_second_time() -> None:
    bench = trains_on(watched(), 21, 400)
    bench.die()
    trains_on(bench, 401, 900)
    assert unread(bench) == [IncidentState.EXHAUSTED]


def test_a_stream_that_cannot_be_read_calls_somebody_and_another_source_does_not() -> None:
    bench = watched()
    bench.tell(SourceReading("metrics", False, "stale handle"))
    bench.tell(SourceReading("checkpoints", False, "stale handle"))
    bench.tick(4 * MINUTE)
    assert not unread(bench)
    bench.tick(2 * MINUTE)
    assert len(unread(bench)) == 1
    other = watched()
    other.tell(SourceReading("checkpoints", False, "stale handle"))
    other.tick(10 * MINUTE)
    assert not unread(other)


def test_a_run_that_finishes_with_steps_that_nobody_read_calls_somebody() -> None:
    bench = trains_on(watched(), 21, 40).ends(40)
    assert bench.state.ended == "finished"
    assert unread(bench) == [IncidentState.UNKNOWN]
    (page,) = bench.decided(a.SendPage)
    assert "ranks were at step 40, and the newest step that was read is 20" in page.text


def test_a_run_that_finishes_as_seen_calls_nobody() -> None:
    bench = watched().beat("forward", 21).ends(20)
    assert bench.state.ended == "finished"
    assert not bench.state.incidents
