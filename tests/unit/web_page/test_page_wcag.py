"""WCAG 2.1 AA, as far as axe-core can see: every width, light and dark, a live hang, open menus, dialogs and cards.

It is the axe 4.4.3 inside the package axe-core-python 0.1.0, which pip installs with the other tools: nothing is fetched when the
tests run. Newer ones come with Playwright, or with a Python that we do not ask for; sentinel/web/LOG.md says what was tried.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.web_page.browser import Page
from tests.unit.web_page.page_server import PageServer
from tests.unit.web_page.simulated_run import SimulatedRun, remedy
from tests.unit.web_page.test_page_cards import hang

axe_core_python = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed: pip install -e '.[dev]'")

SCRIPT = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RUN = """
const done = arguments[arguments.length - 1];
const runOnly = arguments[1].length ? { type: 'rule', values: arguments[1] }
  : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] };
axe.run(arguments[0] || document, { runOnly }).then((found) => done({
  passes: found.passes.length,
  violations: found.violations.map((one) => [one.id, one.impact, one.nodes.map((node) => node.target.join(' ')).slice(0, 4)]),
}), (error) => done(String(error)));
"""
VERSION = re.search(r"axe v([0-9.]+)", SCRIPT)
LOG = Path(__file__).resolve().parents[3] / "sentinel/web/LOG.md"
SHAPES = [(360, 800), (1280, 900), (2560, 1300)]
OF_COLOURS = ("color-contrast", "link-in-text-block")  # what can change while the page only turns from light to dark


def look(page: Page, part: str = "", rules: Sequence[str] = ()) -> None:
    """Nothing that axe finds, serious or not. Its script is put in by the driver: the page's policy lets in none but its own.
    `part`: an element of the page; empty: all of it. `rules`: those alone; empty: all of WCAG and of good practice."""
    if not page.script("return Boolean(window.axe)"):
        page.chrome.execute_script(SCRIPT)
    found: Any = page.chrome.execute_async_script(RUN, part, list(rules))
    assert isinstance(found, dict), found
    assert found["violations"] == []
    assert found["passes"] > (0 if rules else 5 if part else 20), "it has looked"


def test_the_axe_that_looks_is_the_one_that_is_told_of() -> None:
    """Whoever installs another one says there what it finds."""
    assert VERSION is not None
    assert f"axe {VERSION[1]} " in LOG.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("size", "dark"),
    [
        pytest.param(size, dark, id=f"{size[0]}-{word}", marks=() if dark == (size[0] < 400) else pytest.mark.slow)
        for size in SHAPES
        for word, dark in (("light", False), ("dark", True))
    ],
)
def test_axe_finds_nothing_in_a_live_hang(
    page: Page, server: PageServer, run: SimulatedRun, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    hang(run)
    waiting = remedy(0, ["relaunch"], outcome="pending", chosen="relaunch from the checkpoint of step 400")
    found = run.break_down(3, "hang", "2 of 8 ranks are silent", awaits_approval=0, remedies=[waiting], blamed_rank=3)
    found |= {"notes": ["Look at node-1 first"], "runbook": "https://wiki/hangs", "labels": {"team": "data"}}
    run.spike = 500.0
    run.machine_warnings = [{"about": "hardware", "words": "hardware: GPU 1 (H100): slowed down: HW thermal", "incident": None}]
    page.open(server.address, size, dark)
    page.wait_for_text("#ranks-body tr.bad", "silent")
    page.wait_for_text(".plot .beyond", "502")
    for fold in ("gpus", "checkpoints", "log"):
        page.script("document.getElementById(arguments[0]).open = true", f"{fold}-fold")
    page.wait_for_text("#log-body", "NCCL")
    page.wait_for_text("#checkpoints-body", "Mirrored")
    page.picture(f"hang-{size[0]}-{'dark' if dark else 'light'}", tmp_path)
    assert page.script("return document.documentElement.scrollWidth") <= size[0], "it scrolls sideways"
    look(page)


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
def test_axe_finds_nothing_in_menus_and_dialogs(page: Page, server: PageServer, dark: bool) -> None:
    page.open(server.address, dark=dark)
    page.wait_for_text("#numbers", "more")
    page.until(lambda: page.find("#choices input"), "the curves to choose from")
    page.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    look(page)
    for dialog in ("help", "token", "ask"):
        page.script("document.getElementById(arguments[0]).showModal()", dialog)
        look(page, f"#{dialog}")
        page.script("document.getElementById(arguments[0]).close()", dialog)


def test_axe_finds_nothing_in_the_list_of_runs(page: Page, server: PageServer) -> None:
    other = SimulatedRun("other")
    other.break_down(1, "crash", "rank 1 was killed")
    server.runs["other"] = other
    page.open(server.address)
    page.wait_for_text("#fleet", "other")
    look(page)
