"""A journal that is not whole pages a person, once, and the page is taken back when the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.client.run_layout import HEAD_NAME, LOST_NAME
from sentinel.errors import JournalBlocked, JournalError, LostHistory
from sentinel.journal.salvage import verify_journal
from sentinel.paging.asked import lay_routes
from sentinel.policy.schema_paging import Paging
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.reading import read_status
from sentinel.supervisor.app import supervise
from sentinel.supervisor.journal_outage import PAGE_AFTER_S, RETRY_S, JournalOutage
from sentinel.supervisor.lost_journal import JournalPages
from sentinel.supervisor.run_request import RunRequest
from sentinel.supervisor.stop_signals import StopSignals
from tests.loopback import HttpServer, Reply
from tests.unit.told_run import write_run

LOST = LostHistory("run: its journal (sentinel.db) is not whole: a, b", ("a", "b"))


def paging_to(*urls: str) -> Paging:
    policy = lay_routes(load_policy(shipped_policy_path("default")), [f"webhook={url}" for url in urls])
    paging = policy.spec.paging
    return paging.model_copy(update={"routes": tuple(route for route in paging.routes if route.kind == "webhook")})


def test_every_route_is_paged_once_for_the_same_loss_and_told_when_the_run_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    with HttpServer() as one:
        pages = JournalPages(tmp_path, paging_to(one.url))
        for when in (1.0, 2.0):
            pages.page(LOST, when, said.append)
        assert [got.json["stage"] for got in one.all()] == ["trigger"]
        pages.page(JournalError("the journal is gone"), 3.0, said.append)
        pages.withdraw(4.0, said.append)
        pages.withdraw(5.0, said.append)
        later = [got.json for got in one.all()]
    assert [page["stage"] for page in later][-2:] == ["trigger", "resolve"]
    assert {page["dedup_key"] for page in later} == {f"sentinel/{tmp_path.name}/0"}
    assert f"sentinel journal salvage {tmp_path}" in later[0]["answers"]
    assert not (tmp_path / LOST_NAME).exists()
    assert "has the page about its journal" in said[0]


def test_an_outage_that_lasts_is_paged_once_and_its_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was read-only for a night: a rank died in the first minute, and nobody was called."""
    stops = StopSignals()
    monkeypatch.setattr(stops.event, "wait", lambda timeout_s: False)
    with HttpServer() as one, HttpServer() as bad:
        bad.replies.append(Reply(500))
        outage = JournalOutage(tmp_path, stops, pages=JournalPages(tmp_path, paging_to(one.url, bad.url)))
        outage.begin()
        for _ in range(round(PAGE_AFTER_S / RETRY_S) - 1):
            outage.wait_out(JournalBlocked("run/sentinel.db: disk I/O error"), 1.0)
        assert one.all() == []
        for _ in range(100):
            outage.wait_out(JournalBlocked("run/sentinel.db: disk I/O error"), 2.0)
        outage.begin(3.0)
        outage.begin(4.0)
        heard, late = [got.json for got in one.all()], [got.json["stage"] for got in bad.all()]
    assert [page["stage"] for page in heard] == ["trigger", "resolve"]
    assert "nothing is done for the run until it can" in heard[0]["title"]
    assert "disk I/O error" in heard[0]["text"]
    assert late == ["trigger", "trigger", "resolve"]


def test_a_route_that_failed_is_tried_again_by_the_next_start(tmp_path: Path) -> None:
    said: list[str] = []
    with HttpServer() as good, HttpServer() as bad:
        bad.replies.append(Reply(500))
        pages = JournalPages(tmp_path, paging_to(good.url, bad.url))
        for when in (1.0, 2.0):
            pages.page(LOST, when, said.append)
        assert (len(good.all()), len(bad.all())) == (1, 2)
    assert "NOT DELIVERED" in said[1]


def test_sentinel_run_refuses_pages_and_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = write_run(tmp_path / "demo", until=42)
    (run_dir / HEAD_NAME).unlink()
    assert "journal.head is gone" in read_status(run_dir)["warning"]
    assert verify_journal(run_dir).wrong
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    with HttpServer() as server:
        request = RunRequest(run_dir, "default", (), str(tmp_path), pages=(f"webhook={server.url}",))
        with pytest.raises(LostHistory, match=r"journal\.head is gone"):
            supervise(request)
        (page,) = [got.json for got in server.all()]
    assert (page["stage"], page["severity"]) == ("trigger", "critical")
    assert "is not whole" in page["text"]
    assert {path: path.read_bytes() for path in before} == before
