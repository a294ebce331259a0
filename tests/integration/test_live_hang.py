"""A hang of a real run while it is only suspected: every surface says so, and the page in Chromium on every width, light and
dark. When the rank goes on, the page is calm again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for
from tests.integration.test_page_of_a_run import Page as Api
from tests.unit.web_page import browser
from tests.unit.web_page.browser import Page
from tests.unit.web_page.test_page_first_screen import SEEN
from tests.unit.web_page.test_page_wcag import OF_COLOURS, SHAPES, look

BELIEVED_LATE = """
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: patient, description: believes a hang after ten minutes}
extends: demo
spec: {detectors: {hang: {floor: 10m}}}
"""
HEAD = "A hang is suspected"
AMBER = "return getComputedStyle(document.querySelector(arguments[0])).color !== getComputedStyle(document.body).color"


@pytest.mark.skipif(bool(browser.MISSING), reason=browser.MISSING)
def test_a_suspected_hang_is_the_first_thing_that_is_seen_everywhere(tmp_path: Path) -> None:
    policy = tmp_path / "patient.yaml"
    policy.write_text(BELIEVED_LATE)
    options = ["--listen", "127.0.0.1:0"]
    run = Supervised(tmp_path / "run", double(20_000, 0.02, hang=60), str(policy), options).start()
    api = Api(run)
    wait_for("a suspicion", lambda: api.status()["state"] == "stalled")
    (row,) = api.get("api/runs")["runs"]
    assert row["state"] == "stalled"
    assert row["reason"].startswith("no step for")
    for words in (["status"], ["top", "--once"]):
        told = run_sentinel(*words, str(run.run_dir), "--json").stdout
        assert json.loads(told)["state"] == "stalled", told
    chrome = browser.start()
    try:
        page = Page(chrome)
        page.open(api.url, SHAPES[0])
        for size in SHAPES:
            look_at(page, size)
        assert api.status()["state"] == "stalled", "it still hangs: all of this was seen meanwhile"
        for pid in run.living():
            os.kill(pid, signal.SIGCONT)
        page.wait_for_text("#figures .chip", "training")
        page.until(lambda: not page.find("#banner section, #ranks-body tr.warn"), "a page that is calm again")
    finally:
        chrome.quit()
    assert run.child is not None
    run.child.terminate()
    assert run.wait() == 130, run.log


def look_at(page: Page, size: tuple[int, int]) -> None:
    """By day, then by night: nothing but colours changes then, and nothing but what is about them is looked for again."""
    page.reshape(size, dark=False)
    page.wait_for_text("#figures .chip.warn", "stalled")
    page.wait_for_text("#banner section.warn", HEAD)
    page.wait_for_text("#ranks-body tr.warn", "silent for")
    assert page.script(SEEN, ["stalled", HEAD, "no step for", "No step is being made."], size[1]) == [], "below the first screen"
    assert page.chrome.title.startswith("stalled")
    assert page.script(AMBER, "#figures .chip.warn"), "a word in the colour of all others"
    assert page.script("return document.documentElement.scrollWidth") <= size[0], "it scrolls sideways"
    look(page)
    page.reshape(size, dark=True)
    assert page.script(AMBER, "#figures .chip.warn"), "a word in the colour of all others"
    look(page, rules=OF_COLOURS)
