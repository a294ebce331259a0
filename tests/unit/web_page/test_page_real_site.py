"""The page served by the real site over a run on disk: what the simulated one promises holds there too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from sentinel.report.html.writing import report_command
from tests.unit.report.streamed_run import write_streamed
from tests.unit.web.web_kit import TOKEN, Served, append_told, served, supervised, write_told
from tests.unit.web_page.browser import Page

BEFORE_SPIKE, IN_SPIKE = 90.1, 92.6  # of the told run

ASK = """
const answer = import('/static/api.js').then((api) => api.ask(...arguments));
return answer.catch((error) => `${error.status}: ${error.message}`);
"""


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_told(tmp_path, BEFORE_SPIKE)


@pytest.fixture
def site(run_dir: Path) -> Iterator[Served]:
    with served(run_dir, token=TOKEN) as site:
        yield site


def test_a_run_is_seen_an_incident_appears_and_a_person_acknowledges_it(page: Page, run_dir: Path, site: Served) -> None:
    page.open(site.site.url)
    page.wait_for_text("#figures", "step 384 of 600")
    page.wait_for_text("#incident-list", "#1 crash")
    page.until(lambda: page.text(".plot figcaption b") == "loss" and page.find(".plot canvas"), "the curve of the loss")
    page.wait_for_text("#tree", "step 100 of 1")
    page.until(lambda: page.find("#accounts svg"), "the ledger")
    page.script("window.stillHere = true")

    append_told(run_dir, BEFORE_SPIKE, IN_SPIKE)
    page.wait_for_text("#banner", "Incident 2: spike since step 379")
    page.wait_for_text("#event-list", "incident 2 rung 2: roll back to step 350; skip samples")
    page.wait_for_text("#incident-2 .tries", "Rung 1: wait")

    with supervised(run_dir) as heard:
        page.click("acknowledge")
        page.one("#who-field").send_keys("Żaneta")
        page.one("#token-field").send_keys(TOKEN, Keys.ENTER)
        page.wait_for_text("#answer", "Acknowledge incident 2: granted. as you wish")
        assert [wish.by for wish in heard] == ["Żaneta (browser at 127.0.0.1)"]
        page.wait_for_text("#banner", "Acknowledged by Żaneta (browser at 127.0.0.1).")
    assert page.script("return window.stillHere") is True
    assert page.logs("browser") == []


def test_the_site_refuses_a_wrong_token_and_a_run_nobody_supervises_in_a_sentence(page: Page, site: Served) -> None:
    page.open(site.site.url)
    page.script(f"sessionStorage.setItem('sentinel-token', 'not-{TOKEN}')")
    wrong = page.script(ASK, "demo", "acknowledge", 1)
    page.script(f"sessionStorage.setItem('sentinel-token', '{TOKEN}')")
    alone = page.script(ASK, "demo", "pause", None)
    assert wrong.startswith("401: ")
    assert alone.startswith("409: ")


def test_a_report_that_is_not_written_yet_is_a_sentence_and_one_that_is_opens(page: Page, run_dir: Path, site: Served) -> None:
    page.open(site.site.url)
    page.click_on("#incident-1 a")
    page.wait_for_text("#answer", "Report of incident 1: there is no report of this incident yet")
    (run_dir / "incidents" / "0001").mkdir(parents=True)
    (run_dir / "incidents" / "0001" / "report.html").write_text("<!doctype html><title>the report</title><p>whole story")
    page.click_on("#incident-1 a")
    main = page.chrome.current_window_handle
    page.until(lambda: len(page.chrome.window_handles) == 2, "the report beside the page")
    page.chrome.switch_to.window(next(handle for handle in page.chrome.window_handles if handle != main))
    page.wait_for_text("p", "whole story")
    page.chrome.close()
    page.chrome.switch_to.window(main)


def test_a_report_keeps_its_styles_and_its_plots_under_the_servers_policy(page: Page, tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "told")
    report_command(run_dir, 2, None)
    with served(run_dir) as site:
        page.logs("browser")  # of the page that was open before
        page.chrome.get(f"{site.site.url.rstrip('/')}/runs/told/incidents/2/report")
        page.wait_for_text("h1", "Incident 2: spike")
        width = page.script("return getComputedStyle(document.querySelector('main')).maxWidth")
        fill = page.script("return getComputedStyle(document.querySelector('svg polyline, svg path')).stroke")
    assert width != "none", "the file's own styles hold"
    assert fill not in ("", "none"), "and so do those of its plots"
    assert page.logs("browser") == [], "nothing of it is refused"
