"""The life of a page: raised once, told on each route, repeated, escalated, acknowledged, resolved; after kill -9 the same."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from sentinel.engine.paging import REPEATED_MAX
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import wishes as w
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.paging import Page, Told
from sentinel.policy.schema import Policy
from tests.builders import Bench, build_policy

MINUTE = 60.0
TERMINAL: dict[str, Any] = {"terminal": {}}
HOOK: dict[str, Any] = {"webhook": {"name": "hook", "url": "https://pages.example/x"}}
PHONE: dict[str, Any] = {"command": {"name": "phone", "run": ["call"], "after": "15m"}}
BOSS: dict[str, Any] = {"command": {"name": "boss", "run": ["call"], "after": "1h"}}
Sent = tuple[str, str]


def policy(*routes: dict[str, Any], then: str = "hold", severity: str = "critical", **paging: Any) -> Policy:
    page = [{"page": {"severity": severity}, "then": then}]
    spec = {"routes": list(routes or (TERMINAL, HOOK, PHONE)), **paging}
    return build_policy(playbooks={"non_finite": page, "restart": page}, paging=spec)


def given_up(*routes: dict[str, Any], **how: Any) -> Bench:
    bench = Bench(policy(*routes, **how)).launched()
    bench.steps(1, 60).step(61, nan)
    return bench


def sent(bench: Bench) -> list[Sent]:
    """Stage and route of everything decided, in order."""
    return [(page.stage, page.route) for page in bench.decided(a.SendPage)]


def deliver(bench: Bench, *routes: str) -> Bench:
    """What is under way on these routes (all) arrives."""
    for key in [key for key, x in bench.state.pending.items() if isinstance(x, a.SendPage) and (not routes or x.route in routes)]:
        bench.done(key)
    return bench


def page_of(bench: Bench) -> Page:
    assert bench.incident.page is not None
    return bench.incident.page


def test_a_page_goes_to_every_route_that_does_not_wait_under_a_key_of_its_own() -> None:
    bench = given_up()
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]
    keys = [page.key for page in bench.decided(a.SendPage)]
    assert keys == ["page/1/1/trigger/terminal", "page/1/1/trigger/hook"]
    assert bench.incident.pages == tuple(keys)
    assert {page.text for page in bench.decided(a.SendPage)} == {page_of(bench).text}


@pytest.mark.parametrize(
    ("then", "says"),
    [("hold", "held, until somebody goes on with it: sentinel resume"), ("stop_now", "has failed"), ("keep_training", "goes on")],
)
def test_the_page_says_what_happens_next(then: str, says: str) -> None:
    assert says in page_of(given_up(then=then)).text.partition("next: ")[2]


def test_the_page_of_an_approval_says_until_when_and_what_then() -> None:
    rung = {"rollback": {"before_onset": "4 steps"}, "approval": {"within": "10m", "otherwise": "approve"}}
    bench = Bench(build_policy(playbooks={"non_finite": [rung, {"page": {}, "then": "hold"}]})).launched()
    bench.steps(1, 60).step(61, nan)
    assert "next: without an answer in 600 s it is taken" in page_of(bench).text


def test_nobody_answers_and_the_next_route_is_used_after_its_time() -> None:
    bench = deliver(given_up())
    bench.tick(15 * MINUTE - 1)
    assert ("trigger", "phone") not in sent(bench)
    bench.tick(1)
    assert sent(bench)[-1] == ("trigger", "phone")


def test_a_route_that_gives_up_brings_the_next_one_in_line_forward_and_only_that() -> None:
    bench = given_up(TERMINAL, HOOK, PHONE, BOSS).done("page/1/1/trigger/terminal")
    bench.fails("page/1/1/trigger/hook", "404")
    assert sent(bench)[-1] == ("trigger", "phone")
    bench.fails("page/1/1/trigger/phone", "no credit")
    assert sent(bench)[-1] == ("trigger", "boss")
    assert page_of(bench).on("hook").trouble == "404"


def test_a_route_that_has_not_confirmed_within_the_deadline_is_passed_over() -> None:
    bench = given_up().done("page/1/1/trigger/terminal")
    bench.tick(120)
    assert ("trigger", "phone") not in sent(bench)
    bench.tick(1)
    assert sent(bench)[-1] == ("trigger", "phone")


def test_a_route_that_waits_is_not_brought_forward_by_one_behind_it() -> None:
    bench = given_up(TERMINAL, PHONE, HOOK).done("page/1/1/trigger/terminal")
    bench.fails("page/1/1/trigger/hook", "404")
    assert ("trigger", "phone") not in sent(bench)


def test_pages_below_a_routes_severity_do_not_go_there_nor_does_their_failure_matter() -> None:
    only_critical = {"webhook": {**HOOK["webhook"], "severity": "critical"}}
    bench = given_up(TERMINAL, only_critical, PHONE, severity="warning", then="keep_training")
    assert sent(bench) == [("trigger", "terminal")]


def test_a_page_is_repeated_on_every_route_until_somebody_answers() -> None:
    bench = deliver(given_up(TERMINAL, HOOK))
    for _ in range(3):
        bench.tick(30 * MINUTE - 1)
        count = len(sent(bench))
        bench.tick(1)
        assert sent(bench)[count:] == [("trigger", "terminal"), ("trigger", "hook")]
        deliver(bench)
    assert bench.decided(a.SendPage)[-1].key == "page/1/4/trigger/hook"
    bench.asks(w.Acknowledge(1))
    deliver(bench)
    count = len(sent(bench))
    bench.tick(10 * 3600.0)
    assert len(sent(bench)) == count


def test_a_repetition_waits_for_the_sending_under_way() -> None:
    bench = given_up(HOOK)
    bench.tick(31 * MINUTE)
    assert sent(bench) == [("trigger", "hook")]


def test_of_many_pages_the_newest_are_repeated() -> None:
    bench = given_up(TERMINAL).done("kill/1").exits(signal=9)
    for number in range(2, REPEATED_MAX + 4):
        bench.recall(f.IncidentOpened(_incident(bench, number)), f.PageRaised(number, "critical", "t", "x"))
    bench.tick(1)
    deliver(bench)
    count = len(sent(bench))
    assert count == REPEATED_MAX + 3, "each was sent once"
    bench.tick(30 * MINUTE)
    repeated = bench.decided(a.SendPage)[count:]
    assert [page.incident for page in repeated] == list(range(4, REPEATED_MAX + 4))


def _incident(bench: Bench, number: int) -> Incident:
    state = IncidentState.EXHAUSTED
    return Incident(number, Kind.STRAGGLER, "critical", "A", "tell", 1, None, 60, 60, 0.0, bench.now_s, "x", state)


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
    bench = deliver(_asked_twice("critical"))
    first = page_of(bench)
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "update"]
    assert (page_of(bench).number, page_of(bench).version, page_of(bench).raised_s) == (1, 2, first.raised_s)
    assert page_of(bench).text != first.text


def test_a_second_reason_that_is_more_severe_calls_everybody_anew() -> None:
    bench = deliver(_asked_twice("warning"))
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "trigger"]
    assert (page_of(bench).number, page_of(bench).severity) == (2, "critical")


def test_what_was_acknowledged_was_the_first_reason_and_the_second_calls_anew() -> None:
    bench = deliver(_asked_twice("critical"))
    bench.asks(w.Acknowledge(1))
    deliver(bench)
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "acknowledge", "trigger"]
    assert (page_of(bench).acknowledged_by, bench.incident.acknowledged_by) == ("", "")
    assert bench.asks(w.Acknowledge(1)).granted


def test_pagerduty_calls_nobody_for_what_is_acknowledged_there_so_it_is_closed_before_it_is_called_anew() -> None:
    pagerduty = {"pagerduty": {"routing_key": {"env": "KEY"}}}
    bench = deliver(_asked_twice("critical", TERMINAL, pagerduty))
    bench.asks(w.Acknowledge(1))
    deliver(bench)
    count = len(sent(bench))
    bench.exits(signal=9)
    deliver(bench)
    assert sent(bench)[count:] == [("trigger", "terminal"), ("resolve", "pagerduty"), ("trigger", "pagerduty")]
    assert page_of(bench).is_open


def _asked_twice(first: str, *routes: dict[str, Any]) -> Bench:
    """A run that tells a person at its first crash, resumes, and is given up at the next."""
    rungs = [{"page": {"severity": first}}, {"resume": {"from": "newest"}}, {"page": {"severity": "critical"}, "then": "hold"}]
    bench = Bench(build_policy(playbooks={"restart": rungs}, paging={"routes": list(routes) or [TERMINAL]})).launched()
    bench.steps(1, 20).exits(signal=9)
    return bench.launched()


def test_what_changes_while_a_call_is_under_way_is_told_after_it() -> None:
    bench = _asked_twice("critical")
    bench.exits(signal=9)
    assert [stage for stage, _ in sent(bench)] == ["trigger"]
    deliver(bench)
    assert [stage for stage, _ in sent(bench)] == ["trigger", "update"]


def test_an_incident_that_recovers_resolves_its_page_on_every_route_that_was_told() -> None:
    bench = deliver(_asked_twice("warning"))
    bench.steps(21, 90)
    assert bench.incident.state is IncidentState.RECOVERED
    page = bench.decided(a.SendPage)[-1]
    assert (page.stage, page.route) == ("resolve", "terminal")
    assert "it has recovered" in page.text
    assert not page_of(bench).is_open


def test_a_repair_without_a_person_is_a_message_where_messages_are_wanted() -> None:
    wants = {"webhook": {**HOOK["webhook"], "messages": True}}
    bench = Bench(build_policy(paging={"routes": [TERMINAL, wants]})).launched()
    bench.steps(1, 20).exits(signal=9)
    bench.launched().steps(1, 90)
    assert bench.incident.state is IncidentState.RECOVERED
    assert sent(bench) == [("message", "hook")]
    (page,) = bench.decided(a.SendPage)
    assert (page.key, bench.incident.page, bench.incident.pages) == ("page/1/1/message/hook", None, ())
    assert "has recovered without a person" in page.title


def test_resuming_a_held_run_resolves_what_it_was_held_for() -> None:
    bench = deliver(given_up(TERMINAL)).done("kill/1").exits(signal=9)
    assert bench.state.held
    bench.asks(w.Resume(), by="ada@desk")
    resolve = bench.decided(a.SendPage)[-1]
    assert (resolve.stage, resolve.by) == ("resolve", "ada@desk")
    assert bench.state.open_pages == ()


def test_starting_a_failed_run_again_resolves_its_pages() -> None:
    bench = deliver(given_up(TERMINAL, then="stop_now")).done("kill/1").exits(signal=9)
    assert (bench.state.ended, len(bench.state.open_pages)) == ("failed", 1)
    bench.die()
    assert not bench.state.ended
    assert sent(bench)[-1] == ("resolve", "terminal")
    assert "the run had failed, and was started again" in page_of(bench).resolved


def test_a_run_whose_page_nobody_got_is_not_taken_for_started_again_by_a_person() -> None:
    bench = given_up(TERMINAL, HOOK, then="stop_now").done("kill/1").exits(signal=9)
    bench.die()
    assert bench.state.ended == "failed"
    bench.done("page/1/1/trigger/hook").die()
    assert not bench.state.ended, "one route got through: somebody was told, and started it again"


def test_a_finished_run_resolves_what_is_open() -> None:
    bench = deliver(given_up(TERMINAL, then="keep_training"))
    bench.steps(62, 70).ends(70)
    assert bench.state.ended == "finished"
    assert (sent(bench)[-1], page_of(bench).resolved) == (("resolve", "terminal"), "the trainer finished at step 70")


@pytest.mark.parametrize("acknowledged", [True, False])
def test_stopping_a_run_settles_what_somebody_has_in_hand_and_nothing_else(acknowledged: bool) -> None:
    bench = deliver(given_up(TERMINAL, then="keep_training"))
    if acknowledged:
        deliver(bench).asks(w.Acknowledge(1))
        deliver(bench)
    bench.wants_stop()
    bench.exits(code=6)
    assert bench.state.ended == "stopped"
    assert page_of(bench).is_open is not acknowledged


def test_a_person_may_say_that_it_is_settled_and_a_later_reason_calls_anew() -> None:
    bench = deliver(_asked_twice("warning"))
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
    assert bench.asks(w.Pause()).answer.startswith("the run has failed")


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


@pytest.mark.parametrize("observe", [True, False])
def test_pages_go_out_and_are_repeated_while_sentinel_may_change_nothing(observe: bool) -> None:
    bench = deliver(given_up(TERMINAL, then="keep_training"))
    if observe:
        bench.die(observe_only=True)
    else:
        bench.asks(w.Pause())
    bench.tick(31 * MINUTE)
    keys = [page.key for page in bench.decided(a.SendPage) if page.incident == 1]
    assert keys == ["page/1/1/trigger/terminal", "page/1/2/trigger/terminal"]


def test_after_kill_9_nothing_is_said_twice_and_nothing_is_forgotten() -> None:
    bench = given_up().done("page/1/1/trigger/terminal").die()
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]
    assert "page/1/1/trigger/hook" in bench.state.pending
    deliver(bench).die().tick(15 * MINUTE)
    assert sent(bench)[2:] == [("trigger", "phone")]


def test_a_failed_run_keeps_sentinel_until_the_last_route_was_tried_or_somebody_answered() -> None:
    bench = given_up(TERMINAL, PHONE, then="stop_now").done("page/1/1/trigger/terminal").done("kill/1").exits(signal=9)
    owed = bench.engine.owes_a_page
    assert bench.state.ended == "failed"
    assert owed(bench.now_s)
    assert "sentinel stays until phone was tried" in bench.of(f.Noted)[-1].reason
    bench.tick(15 * MINUTE)
    assert owed(bench.now_s), "it is on its way"
    deliver(bench)
    assert not owed(bench.now_s)
    again = given_up(TERMINAL, PHONE, then="stop_now").done("page/1/1/trigger/terminal").done("kill/1").exits(signal=9)
    again.asks(w.Acknowledge(1))
    assert not again.engine.owes_a_page(again.now_s)


def test_a_failed_run_with_one_route_waits_for_it_no_longer_than_the_deadline() -> None:
    bench = given_up(TERMINAL, then="stop_now").done("kill/1").exits(signal=9)
    assert bench.engine.owes_a_page(bench.now_s + 119)
    assert not bench.engine.owes_a_page(bench.now_s + 121)
    deliver(bench)
    assert not bench.engine.owes_a_page(bench.now_s)


def test_a_journal_from_before_there_were_routes_folds_as_it_did_and_nothing_is_repeated() -> None:
    """What older versions wrote: a page without stage and route, no PageRaised."""
    bench = Bench(policy(TERMINAL, then="keep_training")).launched().steps(1, 60)
    old = a.SendPage("page/1/1", 1, "critical", "run: straggler", "tell")
    bench.recall(f.IncidentOpened(_incident(bench, 1)), f.ActionDecided(old))
    assert (bench.incident.pages, bench.incident.page) == (("page/1/1",), None)
    assert bench.state.pending["page/1/1"].route == ""  # type: ignore[union-attr]
    bench.done("page/1/1")
    for _ in range(3):
        bench.tick(3600.0)
    assert [page.key for page in bench.decided(a.SendPage) if page.incident == 1] == ["page/1/1"]
    assert bench.asks(w.Acknowledge(1)).granted
    assert not bench.asks(w.Resolve(1)).granted


def test_a_route_that_was_never_used_has_been_told_nothing() -> None:
    page = Page("critical", "t", "x", 0.0, told=(Told("hook", delivered=1),))
    assert (page.on("phone"), page.is_told) == (Told("phone"), True)
