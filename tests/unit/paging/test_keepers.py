"""What goes on beside the loop: alerts kept alive and silences read, the dead man's calls, and both leaving in time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.channels.alertmanager import Alertmanager, AlertmanagerRoute
from sentinel.channels.alertmanager_keeper import POST_S, AlertmanagerKeeper
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.errors import GiveUp, RetryLater
from sentinel.model.paging import IncidentPage, RouteStatus
from sentinel.model.readings import SourceReading
from sentinel.model.state import RunState
from sentinel.paging import steady as steady_room
from sentinel.paging.dead_man import DeadManCalls
from sentinel.paging.desk import Desk, Ways, open_pages
from sentinel.paging.steady import Steady
from sentinel.policy.schema_paging import DeadMan, Paging, Secret
from tests.fakes import ManualClock
from tests.integration.supervised import wait_for
from tests.loopback import HttpServer, Received, Reply
from tests.unit.channels.notices import AT_S, notice
from tests.unit.told_run import state_of, told

DEADLINE_S = 20.0


class Silences:
    """The two questions of Alertmanager's API that a keeper asks, answered as told."""

    def __init__(self, server: HttpServer) -> None:
        self.silenced: dict[int, str] = {}  # incident → id
        self.authors: dict[str, str] = {}
        self.posts: list[list[dict[str, object]]] = []
        self.status = 200
        server.always = self.answer

    def answer(self, got: Received) -> Reply:
        if got.method == "POST":
            self.posts.append(got.json)
            return Reply(self.status)
        if got.path.startswith("/api/v2/silence/"):
            return Reply(200, json.dumps({"createdBy": self.authors[got.path.rpartition("/")[2]]}).encode())
        found = [{"labels": {"incident": str(n)}, "status": {"silencedBy": [s]}} for n, s in self.silenced.items()]
        strange = [{"labels": {"incident": "x"}, "status": {"silencedBy": ["s"]}}, {"labels": {}}, "no alert"]
        return Reply(200, json.dumps([*found, *strange]).encode())


class World:
    def __init__(self, server: HttpServer) -> None:
        self.open: list[Notice] = []
        self.seen: list[tuple[int, str]] = []
        self.clock = ManualClock(AT_S)
        self.server = Silences(server)
        settings = AlertmanagerRoute(url=server.url, token=Secret(env="KEY"))
        vault = Vault({"KEY": "t0ken-t0ken"})
        place = (Alertmanager(settings, vault), vault, lambda: self.open, lambda *seen: self.seen.append(seen))
        self.keeper = AlertmanagerKeeper(*place, self.clock)


@pytest.fixture
def world() -> Iterator[World]:
    with HttpServer() as server:
        yield World(server)


def test_what_is_open_is_posted_again_every_minute_and_nothing_else_is(world: World) -> None:
    world.keeper.turn()
    assert world.server.posts == []
    world.open = [notice(), notice("acknowledge", incident=5)]
    for _ in range(12):
        world.keeper.turn()
        world.clock.advance(POST_S / 4)
    assert [len(post) for post in world.server.posts] == [2, 2, 2]
    world.open = []
    for _ in range(12):
        world.keeper.turn()
        world.clock.advance(POST_S / 4)
    assert len(world.server.posts) == 3


def test_the_last_post_stands_for_a_week(world: World) -> None:
    world.keeper.last_post()
    assert world.server.posts == [], "nothing is open"
    world.open = [notice()]
    world.keeper.last_post()
    ((alert,),) = world.server.posts
    assert alert["endsAt"] == "2026-11-25T11:06:40.250+00:00"


def test_who_silences_an_incident_has_acknowledged_it_once(world: World) -> None:
    world.open = [notice(), notice("acknowledge", incident=5), notice(incident=6)]
    world.server.silenced = {4: "s-1", 5: "s-1", 9: "s-1"}
    world.server.authors = {"s-1": "Ada\n<script>", "s-2": ""}
    for _ in range(3):
        world.keeper.turn()
    assert world.seen == [(4, "silence by Ada <script> in Alertmanager")]
    world.server.silenced = {6: "s-2"}
    world.keeper.turn()
    assert world.seen[1:] == [(6, "silence by somebody in Alertmanager")]


def test_a_silence_that_could_not_be_passed_on_is_passed_on_at_the_next_look(world: World) -> None:
    heard: list[tuple[int, str]] = []

    def acknowledge(incident: int, by: str) -> None:
        heard.append((incident, by))
        if len(heard) == 1:
            raise OSError(28, "No space left on device")

    world.server.silenced, world.server.authors = {4: "s"}, {"s": "ada"}
    keeper = AlertmanagerKeeper(world.keeper._channel, Vault({}), lambda: [notice()], acknowledge, world.clock)
    with pytest.raises(OSError, match="No space"):
        keeper.turn()
    keeper.turn()
    keeper.turn()
    assert heard == [(4, "silence by ada in Alertmanager")] * 2


def test_what_was_resolved_while_the_keeper_waited_is_not_posted_as_firing(world: World) -> None:
    """The open pages are asked for once more when the post's turn has come."""
    answers = [[notice()], []]
    keeper = AlertmanagerKeeper(world.keeper._channel, Vault({}), lambda: answers.pop(0), lambda *seen: None, world.clock)
    keeper.turn()
    assert world.server.posts == []


def test_an_alertmanager_that_refuses_is_told_without_the_token(world: World) -> None:
    world.open, world.server.status = [notice()], 503
    with pytest.raises(RetryLater, match="answered 503"):
        world.keeper.turn()
    world.server.status = 400
    with pytest.raises(GiveUp, match="answered 400") as raised:
        world.keeper.last_post()
    assert "t0ken" not in str(raised.value)


def test_a_deadman_is_called_only_while_the_loop_turns() -> None:
    with HttpServer() as server:
        calls = DeadManCalls(DeadMan(url=Secret(env="URL"), every="1m"), {"URL": f"{server.url}/ping/SECRETSECRET"})
        calls.call()
        assert server.all() == [], "no turn was completed yet"
        calls.turned()
        calls.call()
        calls.call()
        assert [(got.method, got.path) for got in server.all()] == [("GET", "/ping/SECRETSECRET")]
        calls.turned()
        server.replies = [Reply(404, b"no SECRETSECRET here"), Reply(200)]
        with pytest.raises(RetryLater, match=r"answered 404: no \(hidden\) here; called again every 60 s") as raised:
            calls.call()
        assert "SECRET" not in str(raised.value)
        calls.call()
        assert len(server.all()) == 2, "a call that failed is made again without another turn"


def test_what_goes_wrong_is_remarked_once_and_again_after_it_was_well() -> None:
    says: list[Exception | None] = [OSError("one"), OSError("two"), None, ZeroDivisionError("bug"), None]
    said, over = [], threading.Event()

    def work() -> None:
        if not says:
            over.set()
            return
        found = says.pop(0)
        if found is not None:
            raise found

    thread = Steady("dead man", 0.01, work)
    assert over.wait(DEADLINE_S)
    said = thread.poll(0.0)
    assert thread.close()
    assert said == [SourceReading("dead man", True, words, True) for words in ("one", "internal error: ZeroDivisionError: bug")]


def test_a_thread_says_farewell_and_one_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    bidden, released = threading.Event(), threading.Event()
    thread = Steady("x", 3600.0, lambda: None, bidden.set)
    assert thread.close()
    assert bidden.is_set()
    monkeypatch.setattr(steady_room, "CLOSE_S", 0.05)
    hanging = Steady("y", 3600.0, lambda: None, lambda: released.wait(DEADLINE_S) and None)
    assert not hanging.close()
    released.set()


def test_a_last_post_that_is_not_taken_is_told_to_whoever_started_sentinel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = paged("alertmanager")
    with HttpServer() as server:
        server.always = lambda got: Reply(503) if got.method == "POST" else Reply(200, b"[]")
        routes = [{"alertmanager": {"url": server.url}}]
        desk = Desk(tmp_path, Paging(routes=routes), Ways(lambda: state, lambda *who: None), ManualClock(AT_S))  # type: ignore[arg-type]
        found: list[object] = []
        wait_for("remark", lambda: found.extend(desk.poll(0.0)) or found)
        desk.close()
        assert len(found) == 1, "said once"
    said = capsys.readouterr().err
    assert said.startswith(f"{tmp_path}: page route alertmanager: the last post is not out: alerts that are open will look")


def paged(*routes: str, by: str = "") -> RunState:
    """In training, with incident 2 told on these routes."""
    state = state_of(told(100))
    page = IncidentPage(
        "critical", "demo: spike", "the case", AT_S, routes=tuple(RouteStatus(route, is_open=True) for route in routes)
    )
    page = replace(page, acknowledged_by=by)
    return replace(state, incidents=tuple(replace(i, page=page) if i.id == 2 else i for i in state.incidents))


def test_a_page_is_open_from_its_telling_until_the_matter_is_well() -> None:
    assert open_pages(state_of(told(100)), "am") == (), "nobody was told"
    state = paged("am", "other")
    (spike,) = open_pages(state, "am")
    assert (spike.incident, spike.route, spike.stage, spike.text) == (2, "am", "trigger", "the case")
    assert open_pages(state, "another") == (), "not there"
    assert [(page.stage, page.by) for page in open_pages(paged("am", by="ada"), "am")] == [("acknowledge", "ada")]
    page = state.incident(2).page
    assert page is not None
    settled = tuple(replace(i, page=replace(page, resolved_s=AT_S)) if i.id == 2 else i for i in state.incidents)
    assert open_pages(replace(state, incidents=settled), "am") == ()


def test_a_desk_keeps_what_is_open_alive_and_leaves_it_standing(tmp_path: Path) -> None:
    state = paged("alertmanager")
    with HttpServer() as server:
        alerts = Silences(server)
        alerts.silenced, alerts.authors = {2: "s"}, {"s": "ada"}
        seen: list[tuple[int, str]] = []
        routes = [{"terminal": {}}, {"alertmanager": {"url": server.url}}]
        desk = Desk(tmp_path, Paging(routes=routes), Ways(lambda: state, lambda *who: seen.append(who)), ManualClock(AT_S))  # type: ignore[arg-type]
        wait_for("acknowledgement", lambda: seen)
        desk.close()
    first, last = alerts.posts
    assert first[0]["labels"]["run"] == "demo"  # type: ignore[index]
    assert "endsAt" not in first[0]
    assert last[0]["endsAt"] == "2026-11-25T11:06:40.250+00:00"
    assert seen == [(2, "silence by ada in Alertmanager")]
    assert desk.poll(0.0) == []


def test_who_was_taken_over_leaves_no_alert_standing_that_its_successor_may_have_resolved(tmp_path: Path) -> None:
    state, taken_over = paged("alertmanager"), threading.Event()
    with HttpServer() as server:
        alerts = Silences(server)
        routes = Paging.model_validate({"routes": [{"alertmanager": {"url": server.url}}]})
        ways = Ways(lambda: state, lambda *seen: None, is_ours=lambda: not taken_over.is_set())
        desk = Desk(tmp_path, routes, ways, ManualClock(AT_S))
        wait_for("post", lambda: alerts.posts)
        taken_over.set()
        desk.close()
    assert len(alerts.posts) == 1


def test_several_that_hang_delay_the_leaving_together_and_not_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, given = threading.Event(), list[float]()
    join = Steady.close

    def close(thread: Steady, within_s: float | None = None) -> bool:
        assert within_s is not None
        given.append(within_s)
        clock.advance(within_s)  # it hung for all the time it was given
        return join(thread, 0.0)

    monkeypatch.setattr(Steady, "close", close)
    monkeypatch.setattr(AlertmanagerKeeper, "turn", lambda self: released.wait(DEADLINE_S) and None)
    clock = ManualClock(AT_S)
    routes = [{"alertmanager": {"url": "http://127.0.0.1:1", "name": name}} for name in ("a", "b", "c")]
    desk = Desk(tmp_path, Paging.model_validate({"routes": routes}), Ways(lambda: RunState(), lambda *seen: None), clock)
    desk.close()
    released.set()
    assert given == [steady_room.CLOSE_S, 0.0, 0.0]
