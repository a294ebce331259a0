"""Who is called, on which route and when: at once, again, in another's place; after kill -9 the same."""

from __future__ import annotations

from math import nan

import pytest

from sentinel.engine.paging import REPEATED_MAX
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.paging import IncidentPage, RouteStatus
from sentinel.policy.schema import Labels
from tests.builders import Bench, build_policy
from tests.unit.engine.paged import (
    BOSS,
    HOOK,
    MINUTE,
    PHONE,
    TERMINAL,
    deliver,
    exhausted,
    given_up,
    page_of,
    policy,
    sent,
)


def test_a_page_goes_to_every_route_that_does_not_wait_under_a_key_of_its_own() -> None:
    bench = given_up()
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]
    keys = [page.key for page in bench.decided(a.SendPage)]
    assert keys == ["page/1/1/trigger/terminal", "page/1/1/trigger/hook"]
    assert bench.incident.pages == tuple(keys)
    assert {page.text for page in bench.decided(a.SendPage)} == {page_of(bench).text}


def test_an_incident_keeps_the_labels_of_the_rule_that_opened_it() -> None:
    quiet = given_up()
    assert quiet.incident.labels == ()
    labelled = policy()
    labels = Labels(severity="critical", team="data", site="a")
    rules = [rule.model_copy(update={"labels": labels}) for rule in labelled.spec.rules]
    spec = labelled.spec.model_copy(update={"rules": tuple(rules)})
    bench = Bench(labelled.model_copy(update={"spec": spec})).launched()
    bench.steps(1, 60).step(61, nan)
    assert bench.incident.labels == (("site", "a"), ("team", "data"))


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
    assert "next: without an answer in 10 min it is taken" in page_of(bench).text


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
        bench.recall(f.IncidentOpened(exhausted(bench, number)), f.PageRaised(number, "critical", "t", "x"))
    bench.tick(1)
    deliver(bench)
    count = len(sent(bench))
    assert count == REPEATED_MAX + 3, "each was sent once"
    bench.tick(30 * MINUTE)
    repeated = bench.decided(a.SendPage)[count:]
    assert [page.incident for page in repeated] == list(range(4, REPEATED_MAX + 4))


@pytest.mark.parametrize("observe", [True, False])
def test_pages_go_out_and_are_repeated_while_sentinel_may_change_nothing(observe: bool) -> None:
    bench = deliver(given_up(TERMINAL, then="keep_training"))
    if observe:
        bench.die(observe_only=True)
    else:
        bench.asks(w.PauseRun())
    bench.tick(31 * MINUTE)
    keys = [page.key for page in bench.decided(a.SendPage) if page.incident == 1]
    assert keys == ["page/1/1/trigger/terminal", "page/1/2/trigger/terminal"]


def test_after_kill_9_nothing_is_said_twice_and_nothing_is_forgotten() -> None:
    bench = given_up().done("page/1/1/trigger/terminal").die()
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]
    assert "page/1/1/trigger/hook" in bench.state.pending
    deliver(bench).die().tick(15 * MINUTE)
    assert sent(bench)[2:] == [("trigger", "phone")]


def test_a_journal_from_before_there_were_routes_folds_as_it_did_and_nothing_is_repeated() -> None:
    """What older versions wrote: a page without stage and route, no PageRaised."""
    bench = Bench(policy(TERMINAL, then="keep_training")).launched().steps(1, 60)
    old = a.SendPage("page/1/1", 1, "critical", "run: straggler", "tell")
    bench.recall(f.IncidentOpened(exhausted(bench, 1)), f.ActionDecided(old))
    assert (bench.incident.pages, bench.incident.page) == (("page/1/1",), None)
    assert bench.state.pending["page/1/1"].route == ""  # type: ignore[union-attr]
    bench.done("page/1/1")
    for _ in range(3):
        bench.tick(3600.0)
    assert [page.key for page in bench.decided(a.SendPage) if page.incident == 1] == ["page/1/1"]
    assert bench.asks(w.Acknowledge(1)).granted
    assert not bench.asks(w.Resolve(1)).granted


def test_a_route_that_was_never_used_has_been_told_nothing() -> None:
    page = IncidentPage("critical", "t", "x", 0.0, routes=(RouteStatus("hook", delivered=1),))
    assert (page.on("phone"), page.is_delivered) == (RouteStatus("phone"), True)
