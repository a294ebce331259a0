"""How a page ends: with its incident, with its run, or by who goes on with it; and how long sentinel stays for it."""

from __future__ import annotations

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.incidents import IncidentState
from tests.builders import Bench, build_policy
from tests.unit.engine.paged import (
    HOOK,
    MINUTE,
    PHONE,
    TERMINAL,
    asked_twice,
    deliver,
    given_up,
    page_of,
    sent,
)


def test_an_incident_that_recovers_resolves_its_page_on_every_route_that_was_told() -> None:
    bench = deliver(asked_twice("warning"))
    bench.steps(1, 90)
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
    bench.asks(w.ResumeRun(), by="ada@desk")
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
    assert "once it is answered (sentinel ack 1 RUN_DIR) it can be started again" in bench.of(f.Noted)[-1].reason
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
