"""Without a mouse, without sharp eyes, without eyes: every control is reached, named and seen, and text stands out."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tests.unit.web_page.browser import PHONE, Page
from tests.unit.web_page.page_server import PageServer
from tests.unit.web_page.simulated_run import SimulatedRun

CONTRAST_MIN = 4.5  # WCAG 2.2, 1.4.3
CONTROLS = "[...document.querySelectorAll('button, a[href], input, summary')].filter((e) => e.checkVisibility() && !e.disabled)"
LOW_CONTRAST = """
const parse = (words) => { const [r, g, b, a = 1] = words.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  if (element === null) return [255, 255, 255];
  const own = parse(getComputedStyle(element).backgroundColor);
  return over(own, own[3] === 1 ? [0, 0, 0] : ground(element.parentElement));
};
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('noscript')) continue;
  const below = ground(element);
  const style = getComputedStyle(element);
  const ink = parse(element.closest('svg') ? style.fill : style.color);
  const [a, b] = [light(over(ink, below)), light(below)].sort((x, y) => y - x);
  found.push([Math.round(100 * (a + 0.05) / (b + 0.05)) / 100, walker.currentNode.data.trim().slice(0, 40)]);
}
return found;
"""
FOCUSED = """
const focused = document.activeElement;
return [focused.dataset.number, getComputedStyle(focused).outlineStyle, focused.outerHTML.slice(0, 200)];
"""
NUMBERED = "return arguments[0].map((n) => document.querySelector(`[data-number='${n}']`)?.outerHTML)"
HEADINGS = "return [...document.querySelectorAll('h1, h2, h3')].filter((h) => h.checkVisibility()).map((h) => h.tagName)"
BLIND = """
const named = (e) => e.getAttribute('role') === 'img' && e.getAttribute('aria-label');
const labelled = (e) => document.getElementById(e.getAttribute('aria-labelledby'));
return [...document.querySelectorAll('svg, .canvas')].filter((e) => !named(e))
  .concat([...document.querySelectorAll('[aria-labelledby]')].filter((e) => !labelled(e))).map((e) => e.outerHTML);
"""
UNNAMED = f"""
const name = (e) => (e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent ?? '').trim();
return {CONTROLS}.filter((e) => !name(e)).map((e) => e.outerHTML);
"""


def see(page: Page, server: PageServer, run: SimulatedRun, dark: bool = False) -> None:
    run.break_down(3, "divergence", "loss 4.2 has risen for 60 steps", awaits_approval=0)
    page.open(server.address, PHONE if dark else (1440, 900), dark)
    parts = ("#banner button", "#tree svg", "#accounts table", ".plot canvas", "#incident-3", "#event-list time")
    page.until(lambda: all(page.find(part) for part in parts), "every part of the page")


def test_tab_reaches_every_control_and_shows_where_it_is(page: Page, server: PageServer, run: SimulatedRun) -> None:
    see(page, server, run)
    page.script(f"{CONTROLS}.forEach((e, at) => e.dataset.number = at); document.activeElement.blur(); window.scrollTo(0, 0)")
    wanted = set(page.script(f"return {CONTROLS}.map((e) => e.dataset.number)"))
    assert len(wanted) > 15
    reached = set()
    for _ in range(len(wanted) + 20):
        page.tab()
        number, outline, what = page.script(FOCUSED)
        if what.startswith("<body"):
            continue  # around once more
        reached.add(number)
        assert outline not in ("none", "hidden"), f"nothing shows that the focus is on {what}"
    assert wanted <= reached, page.script(NUMBERED, sorted(wanted - reached))


def test_single_keys_move_and_toggle_and_can_be_switched_off(page: Page, server: PageServer, run: SimulatedRun) -> None:
    see(page, server, run)
    page.press("b")
    assert page.script("return document.activeElement.dataset.key") == "approve-3"
    page.press("l")
    assert page.find("#log-scale[aria-pressed=true]")
    page.press("?")
    page.until(lambda: page.find("#help[open]"), "the help")
    assert "what waits for a person" in page.text("#shortcuts")
    page.press("l")
    assert page.find("#log-scale[aria-pressed=true]"), "behind a dialog no key acts"
    page.click_on("#shortcuts-on")
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.find("#help[open]"), "the help closed")
    page.press("l")
    assert page.find("#log-scale[aria-pressed=true]")
    assert server.asked == []


def test_a_menu_closes_by_escape_and_by_a_click_beside_it(page: Page, server: PageServer, run: SimulatedRun) -> None:
    see(page, server, run)
    page.click_on("#choose summary")
    page.press(Keys.TAB, Keys.ESCAPE)
    assert not page.find("#choose[open]")
    assert page.script("return document.activeElement === document.querySelector('#choose summary')")
    page.click_on("#choose summary")
    page.click_on("#choices input")
    assert page.find("#choose[open]"), "choosing leaves it open"
    page.click_on("#run-name")
    assert not page.find("#choose[open]")


def test_every_control_has_a_name_and_the_page_an_outline(page: Page, server: PageServer, run: SimulatedRun) -> None:
    see(page, server, run)
    assert page.script(UNNAMED) == []
    first, *others = page.script(HEADINGS)
    assert first == "H1"
    assert set(others) == {"H2"}
    ids = page.script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    assert page.script("return [document.documentElement.lang, document.querySelectorAll('main').length]") == ["en", 1]
    assert page.script(BLIND) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_stands_out_from_its_ground(page: Page, server: PageServer, run: SimulatedRun, dark: bool) -> None:
    see(page, server, run, dark)
    page.script("document.getElementById('help').showModal(); document.querySelectorAll('details').forEach((d) => d.open = true)")
    found = page.script(LOW_CONTRAST)
    assert len(found) > 100
    assert [text for text in found if text[0] < CONTRAST_MIN] == []
