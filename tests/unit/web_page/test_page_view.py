"""What a person sees: the page loads by itself, curves draw and are looked at closely, phone and desk, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains

from tests.unit.web_page import browser
from tests.unit.web_page.browser import DESK, PHONE, Page
from tests.unit.web_page.page_server import PageServer
from tests.unit.web_page.simulated_run import SimulatedRun, remedy

ORDER = ("banner", "incidents", "curves", "lineage", "ledger", "detectors", "events")  # on a phone
PLOTS = ["loss", "grad_norm", "activation_norm per layer", "loss_scale", "lr"]
COUNT_PIXELS = """
const [title, name] = arguments;
const plot = [...document.querySelectorAll('.plot')].find((p) => p.querySelector('figcaption b').textContent === title);
const hex = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const canvas = plot?.querySelector('canvas');
if (!canvas?.width) return 0;  // the figure is there before its chart
const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
let count = 0;
for (let at = 0; at < data.length; at += 4)
  if (data[at + 3] > 200 && wanted.every((value, part) => Math.abs(data[at + part] - value) < 40)) count += 1;
return count;
"""
BESIDE = """
const done = arguments[arguments.length - 1];
import('/static/app.js').then(({ curves }) => done(
  curves.beside.lines('loss', 'run:other', curves.store, 'tokens')[0].segments.map((s) => s.series.step[s.to - 1])));
"""
STRETCHED = 210  # the newest step of the other, 420, in steps of this one
DATA = """
const done = arguments[arguments.length - 1];
import('/static/app.js').then(({ curves }) => done(Object.fromEntries([...curves.plots].map(([name, plot]) => [name, {
  columns: plot.columns.map((column) => column.filter((v) => v !== null && v !== undefined).length),
  chart: plot.chart.data[0].length, first: plot.chart.scales.x.min, last: plot.chart.scales.x.max,
  low: plot.chart.scales.y.min, high: plot.chart.scales.y.max,
}]))));
"""


def pixels(page: Page, title: str, colour: str) -> int:
    return int(page.script(COUNT_PIXELS, title, colour))


def data(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.chrome.execute_async_script(DATA)
    return found


def is_drawn(page: Page) -> bool:
    is_there = page.text(".plot figcaption b").split("\n") == PLOTS and "recovered" in page.text("#incident-list")
    return is_there and pixels(page, "loss", "attempt-2") > 0


def see(page: Page, server: PageServer, size: tuple[int, int] = DESK, dark: bool = False) -> None:
    page.open(server.address, size, dark)
    page.until(lambda: is_drawn(page), "curves")


@pytest.fixture
def recording_page(server: PageServer) -> Iterator[Page]:
    """In a browser of its own, which records what is requested."""
    if browser.MISSING:
        pytest.skip(browser.MISSING)
    chrome = browser.start(records_requests=True)
    yield Page(chrome)
    chrome.quit()


def test_the_page_asks_nobody_but_its_server_and_complains_of_nothing(recording_page: Page, server: PageServer) -> None:
    page = recording_page
    see(page, server)
    page.until(lambda: page.find("#accounts svg") and page.find("#tree svg"), "ledger and tree")
    log = "".join(entry["message"] for entry in page.logs("performance") if "Network.requestWillBeSent" in entry["message"])
    assert log.count('"url":"http') >= 10
    assert log.count('"url":"http') == log.count(f'"url":"{server.address}')
    assert page.logs("browser") == []


def test_how_the_detectors_stand_is_shown_and_follows(page: Page, server: PageServer, run: SimulatedRun) -> None:
    see(page, server)
    page.wait_for_text("#standings tr:last-child", "healthy")
    page.wait_for_text("#standings tr:last-child", "spike, hang")
    run.detector_rows = [("breached", "spike: loss 9 <b>high</b>"), ("unknown", "drift: too little history until step 400")]
    page.wait_for_text("#standings tr.bad", "loss 9 <b>high</b>")
    page.wait_for_text("#standings tr.warn", "too little history until step 400")


def test_curves_are_drawn_in_the_colours_of_their_attempts(page: Page, server: PageServer) -> None:
    see(page, server)
    for colour in ("attempt-0", "attempt-1", "attempt-2", "abandoned"):
        assert pixels(page, "loss", colour) > 10, colour
    drawn = data(page)
    assert set(drawn) == {"loss", "grad_norm", "activation_norm/", "loss_scale", "lr"}
    # steps; lowest and highest of both abandoned branches (33 and 35 steps, with the one they left from), which share a lane; and
    # of the three attempts
    assert drawn["grad_norm"]["columns"] == [420, 68, 68, 100, 100, 250, 250, 70, 70]
    assert drawn["loss"]["columns"] == [420, 66, 66, 100, 100, 250, 250, 70, 70], "two values of the spike were no numbers"
    assert len(drawn["activation_norm/"]["columns"]) == 1 + 2 * 4


def test_a_spike_that_was_rolled_back_sets_no_scale_and_is_marked_at_the_edge(
    page: Page, server: PageServer, run: SimulatedRun
) -> None:
    run.spike = 500.0
    see(page, server)
    assert data(page)["loss"]["high"] < 12, "the surviving steps reach to 9"
    assert data(page)["loss"]["low"] < 2
    page.wait_for_text(".plot .beyond", "▲ 502 at step 382, abandoned")
    assert "outside the scale ▲ 502 at step 382, abandoned" in str(page.find(".canvas")[0].get_attribute("aria-label"))
    page.click("last 100")
    page.until(lambda: data(page)["loss"]["high"] < 2.5, "the scale of the steps shown")
    page.click("log scale")
    page.until(lambda: page.find("#log-scale[aria-pressed=true]") and data(page)["loss"]["high"] == 10, "whole powers of ten")


def test_a_value_that_is_no_number_and_an_incident_are_marked(page: Page, server: PageServer) -> None:
    see(page, server)
    assert pixels(page, "loss", "bad") > 20
    assert pixels(page, "lr", "bad") == 0
    assert pixels(page, "lr", "warn") > 20, "the onset and the number of incident 2"
    labels = [plot.get_attribute("aria-label") for plot in page.find(".canvas")]
    assert labels[0].startswith("loss, ")
    assert labels[0].endswith("at step 420, not a number at 2 steps")
    assert labels[2].startswith("activation_norm per layer, 4 layers, ")


def test_curves_go_on_while_the_page_is_open(page: Page, server: PageServer, run: SimulatedRun) -> None:
    see(page, server)
    before = data(page)["loss"]
    run.advance(30)
    page.until(lambda: data(page)["loss"]["chart"] == before["chart"] + 30, "thirty more points")
    assert data(page)["loss"]["last"] == 450
    page.wait_for_text("#figures", "step 450 of 600")


def test_a_drag_looks_closer_in_all_plots_and_a_double_click_shows_all_again(page: Page, server: PageServer) -> None:
    see(page, server)
    hand = ActionChains(page.chrome, duration=20).move_to_element_with_offset(page.find(".plot .u-over")[0], -60, 0)
    hand.click_and_hold().move_by_offset(90, 0).release().perform()
    page.wait_for_text("#attempts", "show all again")
    ranges = {(round(found["first"]), round(found["last"])) for found in data(page).values()}
    assert len(ranges) == 1
    first, last = ranges.pop()
    assert 100 < first < last < 330
    ActionChains(page.chrome, duration=20).double_click(page.find(".plot .u-over")[2]).perform()
    page.until(lambda: (data(page)["lr"]["first"], data(page)["loss"]["last"]) == (1, 420), "all steps again")


def test_the_pointer_reads_the_same_step_in_every_plot(page: Page, server: PageServer) -> None:
    see(page, server)
    ActionChains(page.chrome, duration=20).move_to_element(page.find(".plot .u-over")[0]).perform()
    page.until(lambda: page.text(".plot .value").count("attempt 2") == len(PLOTS), "a value in every plot")
    steps = {line.split(" · ")[1] for line in page.text(".plot .value").split("\n")}
    assert len(steps) == 1
    assert "to" not in page.text(".plot .value").split("\n")[0]


def test_buttons_show_the_last_steps_and_a_logarithmic_scale(page: Page, server: PageServer) -> None:
    see(page, server)
    page.click("last 100")
    page.until(lambda: data(page)["loss"]["first"] == 320, "the last hundred steps")
    page.click("log scale")
    page.wait_for_text(".plot figcaption", "loss, log")
    assert page.find("#log-scale[aria-pressed=true]")


def test_other_curves_can_be_chosen(page: Page, server: PageServer) -> None:
    see(page, server)
    page.click_on("#choose summary")
    boxes = {box.find_element("xpath", "..").text: box for box in page.find("#choices input")}
    assert set(boxes) == {*PLOTS, "tokens_per_s"}
    boxes["tokens_per_s"].click()
    boxes = {box.find_element("xpath", "..").text: box for box in page.find("#choices input")}
    boxes["lr"].click()
    page.until(lambda: page.text(".plot figcaption b").split("\n") == [*PLOTS[:-1], "tokens_per_s"], "the chosen plots")
    page.until(lambda: pixels(page, "tokens_per_s", "attempt-0") > 10, "the new curve")


def choose_option(page: Page, name: str, words: str) -> None:
    page.until(lambda: words in page.text(f"#selects [data-key='{name}']"), f"an option {words}")
    option = next(one for one in page.find(f"#selects [data-key='{name}'] option") if one.text == words)
    option.click()


def test_curves_are_smoothed_with_the_raw_ones_faint_behind(page: Page, server: PageServer) -> None:
    see(page, server)
    choose_option(page, "smooth", "much")
    page.until(lambda: len(data(page)["loss"]["columns"]) == 13, "a smoothed column behind each pair")
    address = str(page.script("return location.href"))
    assert "?smooth=0.97" in address
    page.open(address)
    page.until(lambda: is_drawn(page) and len(data(page)["loss"]["columns"]) == 13, "the same again from the address")


def test_what_is_chosen_stands_in_the_address(page: Page, server: PageServer) -> None:
    page.open(f"{server.address}/?curves=lr,loss&scale=log&last=100#run=demo")
    page.until(lambda: page.text(".plot figcaption b").split("\n")[0].startswith("lr"), "the chosen curves")
    page.until(lambda: len(page.find(".plot canvas")) == 2, "both drawn")
    assert data(page)["loss"]["first"] == 320
    assert page.find("#log-scale[aria-pressed=true]")
    page.click("all")
    page.until(lambda: "last=" not in page.script("return location.search"), "an address without what is usual")
    assert page.script("return location.search + location.hash") == "?curves=lr%2Closs&scale=log#run=demo"


def test_a_run_is_compared_with_another_at_the_same_step_or_token(page: Page, server: PageServer) -> None:
    other = SimulatedRun("other")
    other.tokens_per_step = 2048
    server.runs["other"] = other
    page.open(f"{server.address}/#run=demo")
    page.until(lambda: is_drawn(page), "curves")
    assert len(data(page)["loss"]["columns"]) == 9
    choose_option(page, "beside", "run other")
    page.until(lambda: len(data(page)["loss"]["columns"]) == 11, "the other run's line")
    assert data(page)["loss"]["columns"][-1] == data(page)["grad_norm"]["columns"][-1] == 420
    page.wait_for_text("#attempts", "run other, at the same step")
    choose_option(page, "at the same", "number of tokens")
    page.wait_for_text("#attempts", "run other, at the same number of tokens")
    page.until(lambda: STRETCHED in page.chrome.execute_async_script(BESIDE), "its steps have half the tokens")
    assert "beside=run%3Aother&by=tokens" in page.script("return location.search")
    other.tokens_per_step = None
    page.wait_for_text("#attempts", "run other, at the same step: how many tokens a step has is not told")
    del server.runs["other"]
    page.wait_for_text("#attempts", "run other: no such run")
    choose_option(page, "beside", "nothing")
    page.until(lambda: len(data(page)["loss"]["columns"]) == 9, "its own lines alone")


def test_an_attempt_is_shown_whole_beside_what_survives(page: Page, server: PageServer) -> None:
    see(page, server)
    choose_option(page, "beside", "attempt 2, whole")
    page.until(lambda: len(data(page)["loss"]["columns"]) == 11, "the attempt's line")
    page.wait_for_text("#attempts", "attempt 2, whole")


@pytest.mark.parametrize(
    ("size", "dark"),
    [
        pytest.param(PHONE, True, id="phone-dark"),
        pytest.param(DESK, False, id="desk-light"),
        pytest.param(PHONE, False, id="phone-light", marks=pytest.mark.slow),
        pytest.param(DESK, True, id="desk-dark", marks=pytest.mark.slow),
    ],
)
def test_it_fits_a_phone_and_a_desk_by_day_and_by_night(
    page: Page, server: PageServer, run: SimulatedRun, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    waiting = remedy(0, ["rollback", "lr_scale"], outcome="pending", chosen="roll back to step 400 at half the learning rate")
    run.break_down(3, "divergence", "loss 4.2 has risen for 60 steps", awaits_approval=0, remedies=[waiting])
    see(page, server, size, dark)
    page.wait_for_text("#banner", "Rung 1 (rollback + lr_scale: roll back to step 400 at half the learning rate) waits")
    picture = page.picture(f"{'phone' if size == PHONE else 'desk'}-{'dark' if dark else 'light'}", tmp_path)
    assert picture.stat().st_size > 20_000
    assert page.script("return document.documentElement.scrollWidth") <= size[0], "it scrolls sideways"
    ground = page.script("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(ground) < 60) if dark else (min(ground) > 240)
    if size == PHONE:
        heights = page.script("return [...document.querySelectorAll('button')].map((button) => button.offsetHeight)")
        assert min(height for height in heights if height) >= 40, "a button too small for a thumb"
        order = [page.script("return document.getElementById(arguments[0]).offsetTop", part) for part in ORDER]
        assert order == sorted(order)
