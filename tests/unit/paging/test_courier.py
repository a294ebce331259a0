"""A page goes to its own route, within one try, with longer pauses between tries; a route that hangs hangs alone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel.actions.runner import LANES_MAX, ThreadRunner, lane_of
from sentinel.channels import http_call
from sentinel.channels.contract import Channel
from sentinel.channels.notice import Notice
from sentinel.channels.opening import Guarded
from sentinel.channels.secrets import Vault
from sentinel.errors import GiveUp, PerhapsDelivered, RetryLater
from sentinel.model.actions import Action, SendPage
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.paging.courier import Courier, plain_notice
from sentinel.paging.patience import Patience
from tests.fakes import ManualClock
from tests.unit.channels.notices import notice

DEADLINE_S = 20.0


def page(route: str, number: int = 1) -> SendPage:
    return SendPage(f"page/{number}/0/trigger/{route}", number, "critical", "gpt-7: spike", "tried: wait", "trigger", route)


class Box:
    """A channel that keeps what it is given, or does as told."""

    def __init__(self, act: Callable[[], str] = lambda: "taken") -> None:
        self.got: list[Notice] = []
        self.act = act

    def deliver(self, told: Notice) -> str:
        self.got.append(told)
        return self.act()


def raising(error: Exception) -> Callable[[], str]:
    def act() -> str:
        raise error

    return act


def courier(run_dir: Path, within_s: float = DEADLINE_S, **channels: Channel) -> Courier:
    return Courier(run_dir, "gpt-7", channels, None, within_s, ManualClock())


def test_a_page_goes_to_its_own_route_and_to_no_other(tmp_path: Path) -> None:
    one, two = Box(), Box()
    assert courier(tmp_path, one=one, two=two).send(page("two")) == "taken"
    assert (len(one.got), len(two.got)) == (0, 1)
    assert (two.got[0].dedup_key, two.got[0].key) == ("sentinel/gpt-7/1", "page/1/0/trigger/two")
    assert two.got[0].text.startswith("tried: wait\nsentinel ack 1 ")


def test_a_page_for_a_route_that_is_gone_is_given_up_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(GiveUp, match="the policy has no route pager any more, only: one, two"):
        courier(tmp_path, one=Box(), two=Box()).send(page("pager"))


def test_a_page_from_before_there_were_routes_is_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert courier(tmp_path).send(page("")) == "printed"
    assert "PAGE (critical) gpt-7: spike\ntried: wait" in capsys.readouterr().err
    assert (tmp_path / "incidents" / "0001" / "page.json").exists()


def test_the_case_is_sent_where_it_can_be_built_and_the_engines_words_where_not(tmp_path: Path) -> None:
    box = Box()
    Courier(tmp_path, "gpt-7", {"r": box}, lambda told: notice(key=told.key)).send(page("r"))
    Courier(tmp_path, "gpt-7", {"r": box}, lambda told: {}[told.key]).send(page("r"))  # type: ignore[index]
    assert [told.title for told in box.got] == ["gpt-7: spike since step 71", "gpt-7: spike"]


def test_a_hostile_title_is_one_plain_line() -> None:
    told = plain_notice(Path("a b"), "r", SendPage("k", 1, "info", "x\x1b[31m\r\ny", "one\r\ntwo\x00\x85"), 5.0)
    assert (told.title, told.text) == ("x [31m y", "one \ntwo  \nsentinel ack 1 'a b'")


def test_tries_are_further_and_further_apart_and_never_before_the_server_wants_them(tmp_path: Path) -> None:
    box = Box(raising(RetryLater("busy", 5.0)))
    sender = courier(tmp_path, r=box)

    def pause(asked: SendPage) -> float:
        with pytest.raises(RetryLater, match="busy") as raised:
            sender.send(asked)
        return raised.value.retry_in_s

    assert [pause(page("r")) for _ in range(6)] == [5, 10, 20, 40, 60, 60]
    assert pause(page("r", 2)) == 5, "another page begins anew"
    box.act = raising(RetryLater("busy", 300.0))
    assert pause(page("r")) == 300
    box.act = lambda: "taken"
    sender.send(page("r"))
    box.act = raising(RetryLater("busy", 5.0))
    assert pause(page("r")) == 5


def test_a_page_that_has_perhaps_arrived_is_tried_a_dozen_times_a_night(tmp_path: Path) -> None:
    box = Box(raising(PerhapsDelivered("no answer within 12 s", 5.0)))
    sender = Courier(tmp_path, "gpt-7", {"r": Guarded(box, Vault({}))}, None, DEADLINE_S, ManualClock())
    pauses: list[float] = []

    def send() -> None:
        with pytest.raises(RetryLater) as raised:
            sender.send(page("r"))
        pauses.append(raised.value.retry_in_s)

    while sum(pauses) < 8 * 3600:
        send()
    assert pauses[:7] == [5, 20, 80, 320, 1280, 3600, 3600]
    assert len(box.got) == 13
    box.act = raising(RetryLater("connection refused", 5.0))
    send()
    assert pauses[-1] == 5, "surely not delivered: as urgent as ever"


def test_a_try_that_hangs_is_left_behind_and_while_it_hangs_no_other_is_begun() -> None:
    released, begun = threading.Event(), threading.Event()

    def hang() -> str:
        begun.set()
        released.wait(DEADLINE_S)
        return "late"

    patience = Patience("r")
    with pytest.raises(RetryLater, match=r"nothing came of it within 0\.05 s"):
        patience.within(0.05, hang)
    with pytest.raises(RetryLater, match="still hangs"):
        patience.within(DEADLINE_S, lambda: "never")
    assert begun.is_set()
    released.set()
    assert patience._late is not None
    patience._late.join(DEADLINE_S)
    assert patience.within(DEADLINE_S, lambda: "now") == "now"


def test_what_a_try_raises_is_what_comes_out() -> None:
    for error in (GiveUp("no"), RetryLater("later", 3.0), ZeroDivisionError("bug")):
        with pytest.raises(type(error)) as raised:
            Patience("r").within(DEADLINE_S, raising(error))
        assert raised.value is error


def test_a_route_that_hangs_keeps_no_other_waiting(tmp_path: Path) -> None:
    released, wake = threading.Event(), threading.Event()

    def hang() -> str:
        released.wait(DEADLINE_S)
        return "late"

    sender = courier(tmp_path, slow=Box(hang), quick=Box())
    runner = ThreadRunner({SendPage: sender.send}, wake)  # type: ignore[dict-item]
    runner.submit(page("slow"))
    runner.submit(page("quick"))
    runner.submit(page("gone"))
    found: dict[str, ActionDone | ActionFailed] = {}
    while len(found) < 2:
        assert wake.wait(DEADLINE_S), "a route waits for another"
        wake.clear()
        found |= {outcome.key: outcome for outcome in runner.outcomes()}
    assert found["page/1/0/trigger/quick"] == ActionDone("page/1/0/trigger/quick", "taken")
    assert isinstance(found["page/1/0/trigger/gone"], ActionFailed)
    released.set()


def test_lanes_are_bounded_whatever_routes_are_named() -> None:
    wake, done = threading.Event(), []

    def note(action: Action) -> str:
        done.append(action.key)
        return ""

    runner = ThreadRunner({SendPage: note}, wake)
    pages = [page(f"route-{n}") for n in range(2 * LANES_MAX)]
    for one in pages:
        runner.submit(one)
    while len(done) < len(pages):
        assert wake.wait(DEADLINE_S)
        wake.clear()
    assert len(runner._lanes) == LANES_MAX
    assert lane_of(pages[0]) != lane_of(pages[1]) != lane_of(page(""))


def test_where_no_thread_can_be_started_the_page_waits_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine out of processes: that may pass, so it costs no page, and least of all the supervisor."""
    wake, sent = threading.Event(), list[str]()

    def send(page: Action) -> str:
        sent.append(page.key)
        return "sent"

    runner = ThreadRunner({SendPage: send}, wake)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    runner.submit(SendPage("key", 1, "critical", "a title", "a text", route="pagerduty"))
    assert wake.wait(20.0)
    assert sent == ["key"], "by the lane that all routes share"
    with pytest.raises(RetryLater, match="nothing can be sent now: can't start new thread"):
        Patience("x").within(1.0, lambda: "sent")
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(RetryLater, match="it: can't start new thread"):
        http_call.send(http_call.HttpRequest("it", f"http://127.0.0.1:{server.getsockname()[1]}/"))


def test_a_case_that_hangs_on_its_filesystem_costs_the_case_and_not_the_page(tmp_path: Path) -> None:
    lets_go = threading.Event()
    box = Box()

    def build(_: SendPage) -> Notice:
        lets_go.wait(60.0)
        return notice()

    one = Courier(tmp_path, "gpt-7", {"one": box}, build, DEADLINE_S, ManualClock(), case_within_s=0.05)
    try:
        assert one.send(page("one")) == "taken"
        assert one.send(page("one", 2)) == "taken"  # and the next one does not wait for it at all
    finally:
        lets_go.set()
    assert [told.text.splitlines()[0] for told in box.got] == ["tried: wait", "tried: wait"]
