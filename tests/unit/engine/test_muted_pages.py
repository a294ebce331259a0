"""Pages in quiet hours and behind an incident that keeps them back: they wait, they are not lost, and nothing else waits."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.policy.timezones import wall_at
from tests.builders import Bench, build_policy
from tests.unit.engine.paged import HOOK, MINUTE, PHONE, TERMINAL, deliver, exhausted, page_of, policy

HOUR = 60 * MINUTE


def clock(at_s: float) -> str:
    minute = wall_at("UTC", at_s).minute
    return f"{minute // 60 % 24:02d}:{minute % 60:02d}"


def begin_s() -> float:
    return Bench(policy()).now_s


def window(after_s: float, for_s: float, **more: Any) -> dict[str, Any]:
    """Quiet from so long behind a bench's begin on, for so long; to the minute."""
    begin = clock(begin_s() + after_s)
    return {"name": "nights", "timezone": "UTC", "times": [f"{begin}-{clock(begin_s() + after_s + for_s)}"], **more}


QUIET = window(-HOUR, 9 * HOUR)


def sent(bench: Bench, of: int = 1) -> list[tuple[str, str]]:
    """Of one incident: hours without a step are a hang beside it."""
    return [(page.stage, page.route) for page in bench.decided(a.SendPage) if page.incident == of]


def later(bench: Bench, seconds: float = 1.0) -> Bench:
    bench.tick(seconds)
    return bench


def broken(*routes: dict[str, Any], mute: dict[str, Any] | None = None, severity: str = "warning", **how: Any) -> Bench:
    bench = Bench(policy(*routes, severity=severity, mute=[mute or QUIET], **{"then": "keep_training", **how})).launched()
    bench.steps(1, 60).step(61, nan)
    return bench


def to_the_end(bench: Bench) -> Bench:
    hold = page_of(bench).hold
    assert hold is not None
    assert hold.until_s is not None
    return later(bench, hold.until_s - bench.now_s)


def test_a_muted_page_is_raised_and_goes_nowhere_until_the_window_ends() -> None:
    bench = broken(TERMINAL, HOOK)
    assert sent(bench) == []
    assert page_of(bench).is_open
    (held,) = bench.of(f.PageHeld)
    assert (held.routes, held.windows, held.timezone) == (("terminal", "hook"), ("nights",), "UTC")
    assert held.until_s is not None
    assert clock(held.until_s) == QUIET["times"][0].partition("-")[2]
    bench.tick(held.until_s - bench.now_s - 1)
    assert sent(bench) == []
    bench.tick(1)
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]
    assert bench.of(f.PageHeld)[-1].routes == ()
    text = bench.decided(a.SendPage)[0].text
    assert text.startswith("open since ")
    assert "muted (nights) until now" in text.splitlines()[0]


def test_it_is_paged_once_and_repeated_from_then_on_as_any_page() -> None:
    bench = deliver(to_the_end(broken(TERMINAL)))
    bench.tick(29 * MINUTE)
    assert sent(bench) == [("trigger", "terminal")]
    bench.tick(MINUTE)
    assert sent(bench) == [("trigger", "terminal")] * 2


def test_a_critical_page_waits_only_where_the_policy_names_it() -> None:
    assert sent(broken(TERMINAL, severity="critical")) == [("trigger", "terminal")]
    assert sent(broken(TERMINAL, severity="critical", mute=QUIET | {"severities": ["critical"]})) == []
    assert sent(broken(TERMINAL, mute=QUIET | {"severities": ["critical"]})) == [("trigger", "terminal")], "a warning does not"


@pytest.mark.parametrize(
    ("only", "waits"),
    [
        ({"kinds": ["non_finite"]}, True), ({"kinds": ["crash"]}, False), ({"rules": ["NonFinite"]}, True),
        ({"rules": ["Crash"]}, False), ({"kinds": ["non_finite"], "rules": ["Crash"]}, False),
    ],
)  # fmt: skip
def test_a_window_may_be_about_some_kinds_or_rules_only(only: dict[str, Any], waits: bool) -> None:
    assert (sent(broken(TERMINAL, mute=QUIET | only)) == []) is waits


def test_a_window_of_one_route_leaves_the_others() -> None:
    bench = broken(TERMINAL, HOOK, PHONE, mute=QUIET | {"routes": ["hook"]})
    assert sent(bench) == [("trigger", "terminal")]
    later(deliver(bench), 15 * MINUTE)
    assert sent(bench)[-1] == ("trigger", "phone"), "its turn by its own time, not because the hook was muted"
    assert ("trigger", "hook") not in sent(bench)
    assert ("trigger", "hook") in sent(to_the_end(bench))


def test_a_muted_route_is_not_one_that_could_not_deliver() -> None:
    bench = broken(HOOK, PHONE, mute=QUIET | {"routes": ["hook"]})
    bench.tick(5 * MINUTE)
    assert sent(bench) == [], "the deadline of 2 minutes brings nobody forward"


def test_routes_that_wait_wait_from_the_end_of_the_window_on() -> None:
    bench = deliver(to_the_end(broken(TERMINAL, PHONE)))
    bench.tick(15 * MINUTE - 1)
    assert ("trigger", "phone") not in sent(bench)
    bench.tick(1)
    assert sent(bench)[-1] == ("trigger", "phone")


def test_who_was_called_before_the_window_is_not_called_again_in_it() -> None:
    bench = deliver(broken(TERMINAL, PHONE, mute=window(10 * MINUTE, 8 * HOUR)))
    assert sent(bench) == [("trigger", "terminal")]
    bench.tick(10 * MINUTE)
    assert page_of(bench).hold is not None
    for _ in range(12):
        bench.tick(30 * MINUTE)
    assert sent(bench) == [("trigger", "terminal")], "neither a repetition nor the next route"
    to_the_end(bench)
    assert sent(bench) == [("trigger", "terminal")] * 2, "what nobody has answered is repeated"


def test_an_answer_and_a_resolve_go_out_in_the_window_to_whoever_was_called() -> None:
    bench = deliver(broken(TERMINAL, mute=window(10 * MINUTE, 8 * HOUR)))
    later(bench, 20 * MINUTE).asks(w.Acknowledge(1))
    assert sent(bench)[-1] == ("acknowledge", "terminal")
    deliver(bench).asks(w.Resolve(1))
    assert sent(bench)[-1] == ("resolve", "terminal")


def test_what_was_never_told_is_not_told_when_it_is_over() -> None:
    bench = broken({"terminal": {"messages": True}})
    bench.asks(w.Resolve(1))
    assert not page_of(bench).is_open
    bench.tick(24 * HOUR)
    assert sent(bench) == []


def test_what_somebody_has_seen_by_the_end_pages_nobody() -> None:
    bench = broken(TERMINAL)
    bench.asks(w.Acknowledge(1))
    assert page_of(bench).holds_back is None
    bench.tick(24 * HOUR)
    assert sent(bench) == []


def test_a_page_that_becomes_critical_in_the_window_goes_out_at_once() -> None:
    last = {"page": {"severity": "critical"}, "then": "hold"}
    rungs = [{"page": {"severity": "warning"}}, {"resume": {"from": "newest"}}, last]
    bench = Bench(build_policy(playbooks={"restart": rungs}, paging={"routes": [TERMINAL], "mute": [QUIET]})).launched()
    bench.steps(1, 20).exits(signal=9)
    assert sent(bench) == []
    bench.launched().exits(signal=9)
    assert sent(bench) == [("trigger", "terminal")]
    assert page_of(bench).severity == "critical"


def test_a_change_waits_too_and_is_one_change_at_the_end() -> None:
    bench = deliver(broken(TERMINAL, mute=window(10 * MINUTE, 8 * HOUR)))
    bench.tick(15 * MINUTE)
    for text in ("first", "second"):
        bench.recall(f.PageRaised(1, "warning", "t", text, anew=False))
    bench.tick(1)
    assert sent(bench) == [("trigger", "terminal")]
    to_the_end(bench)
    assert sent(bench)[1:] == [("update", "terminal")]
    assert bench.decided(a.SendPage)[-1].text == "second"


# A run that ends while its page waits.


ALL = QUIET | {"severities": ["warning", "critical"]}


def failed() -> Bench:
    return broken(TERMINAL, severity="critical", mute=ALL, then="stop_now").done("kill/1").exits(signal=9)


def test_a_run_that_failed_keeps_sentinel_until_its_page_is_out() -> None:
    bench = failed()
    assert bench.state.ended == "failed"
    assert sent(bench) == []
    assert any("muted until" in note.reason and "Ctrl-C ends that" in note.reason for note in bench.of(f.Noted))
    assert bench.engine.owes_a_page(bench.now_s)
    deliver(to_the_end(bench))
    assert sent(bench) == [("trigger", "terminal")]
    assert not bench.engine.owes_a_page(bench.now_s + HOUR)


def test_a_machine_does_not_stand_idle_for_a_warning_where_somebody_was_called_for_the_end() -> None:
    rungs = [{"page": {"severity": "critical"}, "then": "stop_now"}]
    warns = [{"page": {"severity": "warning"}, "then": "keep_training"}]
    both = build_policy(playbooks={"restart": rungs, "non_finite": warns}, paging={"routes": [TERMINAL], "mute": [QUIET]})
    bench = Bench(both).launched()
    bench.steps(1, 60).step(61, nan)
    bench.exits(signal=9)
    assert bench.state.ended == "failed"
    assert [sent(bench, 1), sent(bench, 2)] == [[], [("trigger", "terminal")]]
    deliver(bench)
    assert bench.state.incident(1).page is not None
    assert not bench.engine.owes_a_page(bench.now_s + 1)
    assert not bench.die().state.ended, "whoever starts it again was called"


def test_one_that_finished_leaves_nothing_unsaid_either() -> None:
    bench = broken(TERMINAL)
    bench.steps(62, 70).ends(70)
    assert bench.state.ended == "finished"
    assert not bench.engine.owes_a_page(bench.now_s), "its end has settled what was open"


def test_starting_a_failed_run_again_is_no_answer_to_a_page_that_waits() -> None:
    bench = failed().die()
    assert bench.state.ended == "failed", "a restart by systemd has answered nothing"
    assert "once it is answered (sentinel ack 1 RUN_DIR) it can be started again" in bench.of(f.Noted)[-1].reason
    assert sent(to_the_end(bench)) == [("trigger", "terminal")]
    bench.asks(w.Acknowledge(1))
    assert not bench.die().state.ended


def test_a_supervisor_that_comes_behind_the_window_pages_at_once() -> None:
    bench = broken(TERMINAL).die(down_s=24 * HOUR - 2 * HOUR + 10 * HOUR)
    bench.tick(1)
    assert sent(bench) == [("trigger", "terminal")]


def test_one_with_a_policy_that_mutes_no_more_pages_at_once() -> None:
    bench = broken(TERMINAL)
    bench.policy = policy(TERMINAL, severity="warning", then="keep_training")
    later(bench.die())
    assert sent(bench) == [("trigger", "terminal")]


@pytest.mark.parametrize("dies_after", range(60, 90))
def test_killed_anywhere_around_the_window_it_pages_the_same_once(dies_after: int) -> None:
    paging = policy(TERMINAL, severity="warning", then="keep_training", mute=[QUIET])
    bench = Bench(paging, dies_after=dies_after).launched()
    bench.steps(1, 60).step(61, nan)
    for _ in range(10):
        bench.tick(1)
    to_the_end(bench)
    for _ in range(10):
        bench.tick(1)
    assert sent(bench) == [("trigger", "terminal")]
    assert len(bench.of(f.PageHeld)) == 2


# Inhibition.


def inhibited(**more: Any) -> Bench:
    rule = {"name": "gpu", "while": ["crash"], "hold": ["straggler"], **more}
    return Bench(policy(TERMINAL, inhibit=[rule], severity="warning", then="keep_training")).launched()


def opened(bench: Bench, number: int, attempt: int = 1, **more: Any) -> Incident:
    return replace(exhausted(bench, number), attempt=attempt, **more)


def with_both(bench: Bench, **more: Any) -> Bench:
    """Incident 1 is the open cause, a crash; 2 the straggler beside it, for which a person is wanted."""
    cause = opened(bench, 1, kind=Kind.CRASH, state=IncidentState.OPEN)
    bench.recall(f.IncidentOpened(cause), f.IncidentOpened(opened(bench, 2, **more)))
    bench.recall(f.PageRaised(2, "warning", "t", "x"))
    return later(bench)


def test_while_its_cause_is_open_a_consequence_pages_nobody() -> None:
    bench = with_both(inhibited())
    assert sent(bench, 2) == []
    (held,) = bench.of(f.PageHeld)
    assert (held.incidents, held.windows, held.until_s) == ((1,), (), None)
    bench.recall(f.IncidentMoved(1, IncidentState.RECOVERED, "mended"))
    bench.tick(1)
    assert sent(bench, 2) == [("trigger", "terminal")]
    assert "kept back by incident 1 until now" in bench.decided(a.SendPage)[0].text


def test_an_exhausted_cause_keeps_it_back_as_long_as_its_own_page_is_open() -> None:
    bench = with_both(inhibited())
    bench.recall(f.PageRaised(1, "critical", "t", "x"), f.IncidentMoved(1, IncidentState.EXHAUSTED, "no more"))
    bench.tick(1)
    assert {page.incident for page in bench.decided(a.SendPage)} == {1}
    bench.recall(f.PageResolved(1, "done"))
    bench.tick(1)
    assert {page.incident for page in bench.decided(a.SendPage) if page.stage == "trigger"} == {1, 2}


def test_another_attempt_node_or_rank_is_another_matter() -> None:
    assert sent(with_both(inhibited(), attempt=2), 2) == [("trigger", "terminal")]
    assert sent(with_both(inhibited(equal=[]), attempt=2), 2) == []
    assert sent(with_both(inhibited(equal=["node"])), 2) == [("trigger", "terminal")], "unknown is no node's equal"
    assert sent(with_both(inhibited(), severity="critical"), 2) == []


def test_a_critical_page_is_inhibited_only_where_the_policy_names_it() -> None:
    bench = inhibited()
    with_both(bench)
    bench.recall(f.PageRaised(2, "critical", "t", "x"))
    bench.tick(1)
    assert sent(bench, 2) == [("trigger", "terminal")]


def test_a_policy_without_windows_writes_no_such_fact() -> None:
    bench = Bench(policy(TERMINAL)).launched()
    bench.steps(1, 60).step(61, nan)
    bench.tick(HOUR)
    assert bench.of(f.PageHeld) == []
