"""The page's own logic, module by module, in the browser that runs it: what is kept, what is drawn, when it asks again."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sentinel.model.amounts import time_words
from tests.unit.model.test_amounts import LENGTHS
from tests.unit.web_page.browser import Page
from tests.unit.web_page.page_server import PageServer

ATTEMPTS = [
    {"attempt": 1, "after_step": 0, "survives_to": 100, "is_over": True},
    {"attempt": 2, "after_step": 100, "survives_to": None, "is_over": True},
    {"attempt": 3, "after_step": 100, "survives_to": 104, "is_over": False},
]


@pytest.fixture
def modules(page: Page, server: PageServer) -> Page:
    """An empty page of the server, so that nothing of the real one runs beside."""
    page.open(f"{server.address}/static/icon.svg")
    return page


def run(page: Page, module: str, code: str, *arguments: object) -> Any:
    """`code` is the body of a function of the module's exports `m` and of `given`."""
    words = f"""
    const done = arguments[arguments.length - 1];
    const given = JSON.parse(arguments[0]);
    import('/static/{module}.js').then((m) => {{ {code} }}).then(done, (error) => done(String(error)));
    """
    return page.chrome.execute_async_script(words, json.dumps(arguments))


def told(attempt: int, steps: list[int], non_finite: list[int] | None = None, scale: float = 1.0) -> dict[str, Any]:
    values = [step * scale for step in steps]
    return {str(attempt): {"step": steps, "low": values, "high": values, "non_finite": non_finite or []}}


def test_an_answer_replaces_the_last_point_and_goes_on(modules: Page) -> None:
    first = {"whole": True, "cursor": "a", "attempts": ATTEMPTS, "curves": {"loss": told(3, [101, 102, 103])}}
    second = {"whole": False, "cursor": "b", "attempts": ATTEMPTS, "curves": {"loss": told(3, [103, 104], [105], 2.0)}}
    anew = {"whole": True, "cursor": "c", "attempts": ATTEMPTS, "curves": {"loss": told(3, [102], None, 3.0)}}
    code = """
    const store = new m.CurveStore();
    const seen = given.map((answer) => {
      store.take(answer);
      return JSON.parse(JSON.stringify([store.of('loss').get(3), store.version, store.cursor]));
    });
    store.take({ ...given[2], whole: false, curves: {} });
    return [...seen, store.version];
    """
    one, two, three, idle = run(modules, "curve_store", code, first, second, anew)
    assert one[0]["step"] == [101, 102, 103]
    assert two[0] == {"step": [101, 102, 103, 104], "low": [101, 102, 206, 208], "high": [101, 102, 206, 208], "nonFinite": [105]}
    assert three[0] == {"step": [102], "low": [306], "high": [306], "nonFinite": []}
    assert [one[1], two[1], three[1], idle] == [1, 2, 3, 3], "an answer that brings nothing draws nothing"
    assert three[2] == "c"


def test_what_survives_is_told_from_what_was_abandoned(modules: Page) -> None:
    code = """
    const by = new Map(given[1].map(([attempt, steps]) => [attempt, { step: steps, low: steps, high: steps, nonFinite: [] }]));
    const lines = m.linesOfOne(given[0], by);
    const at = (step) => m.valueAt(m.segmentsOf(given[0], by), step)?.attempt ?? null;
    const ends = (segment) => [segment.attempt, segment.series.step[segment.from], segment.series.step[segment.to - 1]];
    return [lines.map((line) => [line.colour, line.segments.map(ends)]), [90, 104, 108, 130].map(at)];
    """
    given = [[1, [90, 100, 110]], [2, [101, 105, 110]], [3, [101, 104, 108]]]
    lines, values = run(modules, "plot_data", code, ATTEMPTS, given)
    # attempts 1 and 2 overlap, so they lie in two lanes; the newest one survives as far as it goes, whatever an old answer said
    assert lines == [[-1, [[1, 100, 110]]], [-1, [[2, 101, 110]]], [0, [[1, 90, 100]]], [2, [[3, 101, 108]]]]
    assert values == [1, 3, 3, 3]


def test_the_band_of_an_incident_ends_where_it_broke(modules: Page) -> None:
    told = {"id": 1, "state": "open", "onset_step": 379, "detected_step": 380, "break_step": 384}
    band = run(modules, "plot_marks", "return m.bandOf(given[0]);", told)
    assert (band["from"], band["to"], band["onset"]) == (379, 384, 379)


def test_a_line_breaks_between_attempts_and_not_where_another_line_has_a_step(modules: Page) -> None:
    code = """
    const series = (steps) => ({ step: steps, low: steps, high: steps, nonFinite: [] });
    const part = (steps) => ({ attempt: 1, series: series(steps), from: 0, to: steps.length, survives: true });
    const line = (...parts) => ({ segments: parts, colour: 0, member: 0, label: '' });
    const columns = m.columnsOf([line(part([1, 3]), part([6, 7])), line(part([2, 4, 5]))], true, [1, 7]);
    return columns.map((column) => column.map((value) => (value === undefined ? 'through' : value === null ? 'break' : value)));
    """
    steps, first, second = run(modules, "plot_data", code)
    assert steps == [1, 2, 3, 4, 5, 6, 7]
    assert first == [1, "through", 3, "break", "break", 6, 7]
    assert second == ["break", 2, "through", 4, 5, "break", "break"]


def test_of_many_steps_the_shown_ones_are_drawn_and_a_spike_keeps_its_height(modules: Page) -> None:
    code = """
    const step = Array.from({ length: 50_000 }, (_, at) => at + 1);
    const values = step.map((at) => (at === 31_415 ? 99 : at === 31_416 ? -99 : 1));
    const series = { step, low: values, high: values, nonFinite: [] };
    const segment = { attempt: 1, series, from: 0, to: step.length, survives: true };
    const line = { segments: [segment], colour: 0, member: 0, label: '' };
    return [[1, 50_000], [31_400, 31_500]].map((range) => {
      const [steps, low, high] = m.columnsOf([line], false, range);
      return [steps.length, steps[0], Math.min(...low), Math.max(...high)];
    });
    """
    whole, near = run(modules, "plot_data", code)
    assert whole[0] <= 1026
    assert whole[1:] == [1, -99, 99]
    assert near == [103, 31_399, -99, 99], "every step of them, and one beside them on either side"


def test_of_many_branches_the_newest_lanes_and_of_many_layers_some_are_drawn(modules: Page) -> None:
    code = """
    const attempts = Array.from({ length: 40 }, (_, at) => ({ ...given[0], attempt: at + 1 }));
    const series = { step: [1, 2], low: [1, 2], high: [1, 2], nonFinite: [] };
    const by = new Map(attempts.map((a) => [a.attempt, series]));
    const lines = m.linesOfOne(attempts, by);
    const names = Array.from({ length: 96 }, (_, at) => `n/${at}`);
    const layers = m.linesOfFamily(attempts.slice(-1), names, () => new Map([[40, series]])).map((line) => line.label);
    return [lines.map((l) => l.segments.map((s) => s.attempt)), layers];
    """
    lines, layers = run(modules, "plot_data", code, {"after_step": 0, "survives_to": None, "is_over": True})
    assert lines == [[34], [35], [36], [37], [38], [39], [40]]
    assert len(layers) <= 17
    assert (layers[0], layers[-1]) == ("n/0", "n/95")


def test_a_branch_behind_many_that_overlap_is_drawn_too(modules: Page) -> None:
    code = """
    const cuts = given[1].map(([attempt, steps]) => [attempt, { step: steps, low: steps, high: steps, nonFinite: [] }]);
    const attempts = cuts.map(([attempt]) => ({ ...given[0], attempt }));
    return m.linesOfOne(attempts, new Map(cuts)).map((line) => line.segments.map((s) => s.attempt));
    """
    tries = [[attempt, [100, 120]] for attempt in range(1, 10)]
    later = [[10, [121, 140]], [11, [135, 150]], [12, [160, 170]], [13, [141, 200]]]
    lanes = run(modules, "plot_data", code, {"after_step": 0, "survives_to": None, "is_over": True}, [*tries, *later])
    *abandoned, alive = lanes
    assert alive == [13]
    assert {attempt for lane in abandoned for attempt in lane} == {4, 5, 6, 7, 8, 9, 10, 11, 12}, "all but the oldest tries"
    assert len(abandoned) == 6


def test_it_asks_each_second_seldom_when_hidden_and_ever_more_seldom_when_nothing_comes_back(modules: Page) -> None:
    code = """
    const waits = [];
    const real = window.setTimeout;
    let rounds = 0;
    return new Promise((resolve) => {
      window.setTimeout = (next, ms) => {
        waits.push(ms);
        if (waits.length === 9) { window.setTimeout = real; resolve(waits); return 0; }
        Object.defineProperty(document, 'hidden', { value: waits.length === 1, configurable: true });
        return real(next, 0);
      };
      new m.Pace(async () => { rounds += 1; return rounds < 4; }).now();
    });
    """
    assert run(modules, "pace", code) == [1000, 10_000, 1000, 1000, 2000, 4000, 8000, 15_000, 15_000]


NUMBERS = {
    "2.314": 2.31449, "NaN": "NaN", "-∞": "-Infinity", "0": 0, "65,536": 65536, "1.23e-7": 1.23e-7, "2e+12": 2e12,
    "0.0003": 0.0003, "-0.5": -0.5,
}  # fmt: skip


def test_numbers_read_well(modules: Page) -> None:
    assert run(modules, "numbers", "return given[0].map(m.numberWords);", list(NUMBERS.values())) == list(NUMBERS)
    assert run(modules, "numbers", "return given[0].map(m.numberWords);", ["<b>", None, [1]]) == ["", "", ""]


def test_times_read_well(modules: Page) -> None:
    code = "return given[0].map(m.elapsedWords);"
    assert run(modules, "times", code, [7, 187, 3787, 180_067, None]) == ["0:07", "3:07", "1:03:07", "2 d 2:01:07", ""]


def test_a_length_of_time_has_the_words_of_every_other_surface(modules: Page) -> None:
    drawn = random.Random(7)
    spans = [*LENGTHS.values(), *(10 ** drawn.uniform(-4, 6.5) for _ in range(2000)), *(half / 8 for half in range(1000))]
    said = run(modules, "times", "return given[0].map(m.spanWords);", [*spans, None])
    assert said == [*map(time_words, spans), ""]
    assert said[: len(LENGTHS)] == list(LENGTHS)


def test_a_smoothed_curve_begins_as_it_is_and_anew_after_a_gap(modules: Page) -> None:
    code = "return m.smoothed(given[0], given[0], 0.5).map((value) => value ?? null);"
    found = run(modules, "smoothing", code, [4.0, 8.0, None, 2.0, 2.0])
    assert found == [pytest.approx(4.0), pytest.approx(20 / 3), None, pytest.approx(2.0), pytest.approx(2.0)]


def test_what_lies_outside_is_the_farthest_of_its_place(modules: Page) -> None:
    code = """
    const series = { step: given[0], low: given[1], high: given[1], nonFinite: [] };
    const lines = [{ segments: [{ attempt: 1, series, from: 0, to: given[0].length, survives: true }], colour: 0, member: 0 }];
    return m.outsideOf(lines, [1, 3], [0, 100], 10, false).map(({ step, value, side }) => [step, value, side]);
    """
    found = run(modules, "plot_data", code, [5, 6, 7, 50, 90], [9.0, 40.0, 2.0, 2.0, -1.0])
    assert found == [[6, 40.0, 1], [90, -1.0, -1]]


def test_nothing_that_nobody_says_now_is_green(modules: Page) -> None:
    """What the last supervisor wrote is not how the run stands."""
    rows = [
        {"state": "training", "supervisor": "alive"},
        {"state": "training", "supervisor": "gone"},
        {"state": "training", "supervisor": "alive", "trouble": "the journal cannot be read"},
        {"state": "finished", "supervisor": "gone"},
        {"state": "held", "supervisor": "stuck"},
        {"state": "unknown", "supervisor": "unknown", "trouble": "damaged"},
    ]
    assert run(modules, "states", "return given[0].map((run) => [m.standWords(run), m.standTone(run)]);", rows) == [
        ["training", "good"], ["last seen training", "warn"], ["last seen training", "warn"], ["finished", "good"],
        ["last seen held", "bad"], ["unknown", "warn"],
    ]  # fmt: skip


def test_a_time_of_another_year_says_which(modules: Page) -> None:
    code = "const now = new Date(); return [m.timeWords(new Date(now.getFullYear() - 1, 5, 7, 3)), now.getFullYear() - 1];"
    words, year = run(modules, "times", code)
    assert str(year) in words
