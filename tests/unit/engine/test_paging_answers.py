"""What people answer to a page, who is told of it, and what calls them anew."""

from __future__ import annotations

from math import nan

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from tests.builders import Bench, build_policy
from tests.unit.engine.paged import (
    HOOK,
    MINUTE,
    TERMINAL,
    asked_twice,
    deliver,
    given_up,
    page_of,
    sent,
)


def test_an_acknowledgement_is_told_to_whoever_was_called_and_names_who() -> None:
    bench = deliver(given_up(), "terminal", "hook")
    assert bench.asks(w.Acknowledge(1), by="ada@desk").granted
    told = bench.decided(a.SendPage)[-2:]
    assert [(page.stage, page.route, page.by) for page in told] == [
        ("acknowledge", "terminal", "ada@desk"),
        ("acknowledge", "hook", "ada@desk"),
    ]
    assert told[0].key == "page/1/2/acknowledge/terminal"
    assert not bench.asks(w.Acknowledge(1)).granted
    bench.tick(20 * MINUTE)
    assert ("trigger", "phone") not in sent(bench)


def test_a_call_that_has_not_got_through_is_withdrawn_when_it_is_answered() -> None:
    bench = given_up(TERMINAL, HOOK).done("page/1/1/trigger/terminal")
    bench.asks(w.Acknowledge(1))
    assert bench.of(f.ActionAbandoned) == [
        f.ActionAbandoned("page/1/1/trigger/hook", "no longer wanted, acknowledged by ada@desk", withdrawn=True)
    ]
    assert sent(bench)[-2:] == [("acknowledge", "terminal"), ("acknowledge", "hook")], "it may have arrived all the same"


def test_a_second_reason_while_nobody_has_answered_changes_the_page() -> None:
    bench = deliver(asked_twice("critical"))
    first = page_of(bench)
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "update"]
    assert (page_of(bench).number, page_of(bench).version, page_of(bench).raised_s) == (1, 2, first.raised_s)
    assert page_of(bench).text != first.text


def test_a_second_reason_that_is_more_severe_calls_everybody_anew() -> None:
    bench = deliver(asked_twice("warning"))
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "trigger"]
    assert (page_of(bench).number, page_of(bench).severity) == (2, "critical")


def test_what_was_acknowledged_was_the_first_reason_and_the_second_calls_anew() -> None:
    bench = deliver(asked_twice("critical"))
    bench.asks(w.Acknowledge(1))
    deliver(bench)
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "acknowledge", "trigger"]
    assert (page_of(bench).acknowledged_by, bench.incident.acknowledged_by) == ("", "")
    assert bench.asks(w.Acknowledge(1)).granted


def test_pagerduty_calls_nobody_for_what_is_acknowledged_there_so_it_is_closed_before_it_is_called_anew() -> None:
    pagerduty = {"pagerduty": {"routing_key": {"env": "KEY"}}}
    bench = deliver(asked_twice("critical", TERMINAL, pagerduty))
    bench.asks(w.Acknowledge(1))
    deliver(bench)
    count = len(sent(bench))
    bench.exits(signal=9)
    deliver(bench)
    assert sent(bench)[count:] == [("trigger", "terminal"), ("resolve", "pagerduty"), ("trigger", "pagerduty")]
    assert page_of(bench).is_open


def test_what_changes_while_a_call_is_under_way_is_told_after_it() -> None:
    bench = asked_twice("critical")
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger"]
    deliver(bench)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "update"]


def test_a_person_may_say_that_it_is_settled_and_a_later_reason_calls_anew() -> None:
    bench = deliver(asked_twice("warning"))
    assert bench.asks(w.Resolve(1), by="ada@desk").granted
    deliver(bench)
    assert (sent(bench)[-1], page_of(bench).resolved_by) == (("resolve", "terminal"), "ada@desk")
    assert "already resolved" in bench.asks(w.Resolve(1)).answer
    assert not bench.asks(w.Acknowledge(1)).granted
    bench.exits(signal=9)
    assert sent(bench)[-1] == ("trigger", "terminal")
    assert bench.decided(a.SendPage)[-1].key == "page/1/3/trigger/terminal"


def test_what_cannot_be_resolved_is_refused_with_the_reason() -> None:
    bench = Bench().launched().steps(1, 20)
    assert bench.asks(w.Resolve(3)).answer == "there is no incident 3 (newest: none)"
    bench.exits(signal=9)
    assert bench.asks(w.Resolve(1)).answer == "nobody was called for incident 1 (open pages: none)"


def test_a_run_that_has_ended_still_takes_answers_and_notes_and_nothing_else() -> None:
    bench = deliver(given_up(TERMINAL, then="stop_now")).done("kill/1").exits(signal=9)
    assert bench.state.ended == "failed"
    assert bench.asks(w.Remark("the disk of node 3 was full")).granted
    assert bench.asks(w.Acknowledge(1)).granted
    assert bench.asks(w.Resolve(1)).granted
    assert bench.asks(w.PauseRun()).answer.startswith("the run has failed")


def test_whoever_decides_about_a_rung_has_seen_its_page_and_a_deadline_has_not() -> None:
    rung = {"rollback": {"before_onset": "4 steps"}, "approval": {"within": "10m", "otherwise": "approve"}}
    for asked in (True, False):
        rungs = [rung, {"page": {}, "then": "hold"}]
        bench = Bench(build_policy(playbooks={"non_finite": rungs}, paging={"routes": [TERMINAL]})).launched()
        bench.steps(1, 60).step(61, nan)
        deliver(bench)
        if asked:
            bench.asks(w.Approve(1), by="ada@desk")
        else:
            bench.tick(601)
        assert bench.state.plan is not None
        assert page_of(bench).acknowledged_by == ("ada@desk" if asked else "")
        assert (("acknowledge", "terminal") in sent(bench)) is asked
