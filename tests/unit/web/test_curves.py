"""Curves asked for again and again: whoever lays each answer over what they have always has what a fresh look would give."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.strict_json import dumps
from sentinel.model.state import RunState
from sentinel.report.drawn import DrawnAttempt
from sentinel.web import answers
from sentinel.web.curves import ALL_STEPS, POINTS_MAX, Cursor, CurveView, MetricChoice, curves_document, read_cursor
from tests.unit.told_run import state_of, told

STAMP = "s.0"


class Holder:
    """What the page keeps, by the README's rule."""

    def __init__(self, *names: str) -> None:
        self.names, self.cursor = names, ""
        self.series: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
        self.non_finite: dict[tuple[str, str], list[int]] = {}

    def ask(self, drawn: dict[int, DrawnAttempt], state: RunState | None = None, stamp: str = STAMP) -> dict[str, Any]:
        said = curves_document(drawn, state or RunState(), None, MetricChoice(self.names), read_cursor(self.cursor), stamp)
        self.take(said)
        return said

    def take(self, said: dict[str, Any]) -> None:
        if said["whole"]:
            self.series, self.non_finite = {}, {}
        for metric, attempts in said["curves"].items():
            for attempt, part in attempts.items():
                known = self.series.setdefault((metric, attempt), [])
                points = list(zip(part["step"], part["low"], part["high"], strict=True))
                if known and points and known[-1][0] == points[0][0]:
                    known.pop()
                known += points
                self.non_finite.setdefault((metric, attempt), []).extend(part["non_finite"])
        self.cursor = said["cursor"]

    def check(self, drawn: dict[int, DrawnAttempt]) -> None:
        for (metric, attempt), points in self.series.items():
            assert points == drawn[int(attempt)].curves[metric].buckets
        for (metric, attempt), steps in self.non_finite.items():
            assert (
                steps[-len(drawn[int(attempt)].curves[metric].non_finite) or len(steps) :]
                == drawn[int(attempt)].curves[metric].non_finite
            )
        wanted = {
            (m, str(n))
            for n, one in drawn.items()
            for m, c in one.curves.items()
            if m in MetricChoice(self.names).of(one.curves) and (c.buckets or c.non_finite)
        }
        assert set(self.series) == wanted


def write(run_dir: Path, attempt: int, steps: range, mode: str = "a", **metrics: object) -> None:
    path = run_dir / "attempts" / f"{attempt:04d}" / "metrics.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        for step in steps:
            file.write(json.dumps({"kind": "step", "step": step, "loss": 1.0 + step % 7, **metrics}) + "\n")


def drawn_whole(attempt: DrawnAttempt) -> None:
    while attempt.advance(is_over=False):
        pass


def test_only_what_is_new_comes_and_the_last_point_again(tmp_path: Path) -> None:
    write(tmp_path, 1, range(1, 11))
    drawn = {1: DrawnAttempt(tmp_path, 1)}
    drawn_whole(drawn[1])
    page = Holder("loss")
    assert page.ask(drawn)["whole"]
    nothing = page.ask(drawn)
    assert (nothing["whole"], nothing["curves"]) == (False, {})
    write(tmp_path, 1, range(11, 13))
    drawn_whole(drawn[1])
    news = page.ask(drawn)
    assert news["curves"]["loss"]["1"]["step"] == [10, 11, 12]
    page.check(drawn)


def test_a_curve_that_was_halved_comes_whole(tmp_path: Path) -> None:
    write(tmp_path, 1, range(1, 1001))
    drawn = {1: DrawnAttempt(tmp_path, 1)}
    drawn_whole(drawn[1])
    page = Holder("loss")
    page.ask(drawn)
    write(tmp_path, 1, range(1001, 1101))
    drawn_whole(drawn[1])
    assert drawn[1].curves["loss"].halvings == 1
    assert page.ask(drawn)["whole"]
    page.check(drawn)


def test_a_new_attempt_and_a_new_metric_are_added(tmp_path: Path) -> None:
    write(tmp_path, 1, range(1, 11))
    drawn = {1: DrawnAttempt(tmp_path, 1)}
    drawn_whole(drawn[1])
    page = Holder("loss", "activation_norm/")
    page.ask(drawn)
    write(tmp_path, 2, range(5, 9))
    write(tmp_path, 2, range(9, 12), **{"activation_norm/block-0": 3.0, "activation_normal": 4.0})
    drawn[2] = DrawnAttempt(tmp_path, 2)
    drawn_whole(drawn[2])
    news = page.ask(drawn)
    assert not news["whole"]
    assert set(news["curves"]) == {"loss", "activation_norm/block-0"}
    assert news["curves"]["activation_norm/block-0"] == {
        "2": {"step": [9, 10, 11], "low": [3.0] * 3, "high": [3.0] * 3, "non_finite": []}
    }
    page.check(drawn)


@pytest.mark.parametrize(
    "since", ["", "x", "s.0", "s.0~", "t.1~a.1.0~1.5", "~~~", "s.0~x~1.5~2.x~-1.4~9999999999.1", "\0", "٣~٣~1.٣"]
)
def test_a_cursor_that_does_not_fit_is_answered_with_everything(tmp_path: Path, since: str) -> None:
    write(tmp_path, 1, range(1, 11))
    drawn = {1: DrawnAttempt(tmp_path, 1)}
    drawn_whole(drawn[1])
    said = curves_document(drawn, RunState(), None, MetricChoice(("loss",)), read_cursor(since), STAMP)
    assert said["whole"]
    assert len(said["curves"]["loss"]["1"]["step"]) == 10


def test_other_metrics_another_drawing_and_a_dropped_attempt_come_whole(tmp_path: Path) -> None:
    for attempt in (1, 2):
        write(tmp_path, attempt, range(1, 11), grad_norm=1.0)
    drawn = {attempt: DrawnAttempt(tmp_path, attempt) for attempt in (1, 2)}
    for one in drawn.values():
        drawn_whole(one)
    page = Holder("loss")
    cursor = page.ask(drawn)["cursor"]
    for names, stamp, left in ((("grad_norm",), STAMP, drawn), (("loss",), "s.1", drawn), (("loss",), STAMP, {2: drawn[2]})):
        assert curves_document(left, RunState(), None, MetricChoice(names), read_cursor(cursor), stamp)["whole"]
    assert str(read_cursor(cursor)) == cursor
    assert read_cursor(cursor) == Cursor(STAMP, cursor.split("~")[1], {1: 10, 2: 10})


def test_what_is_no_number_is_marked_once(tmp_path: Path) -> None:
    write(tmp_path, 1, range(1, 5))
    write(tmp_path, 1, range(5, 7), loss="NaN")
    drawn = {1: DrawnAttempt(tmp_path, 1)}
    drawn_whole(drawn[1])
    page = Holder("loss")
    assert page.ask(drawn)["curves"]["loss"]["1"]["non_finite"] == [5, 6]
    write(tmp_path, 1, range(7, 8), loss="Infinity")
    drawn_whole(drawn[1])
    assert page.ask(drawn)["curves"]["loss"]["1"]["non_finite"] == [7]
    page.check(drawn)


def test_a_long_past_comes_in_several_answers_the_newest_first(tmp_path: Path) -> None:
    names = {f"m/{number:02d}": 1.0 for number in range(30)}
    for attempt in (1, 2, 3, 4):
        write(tmp_path, attempt, range(1, 900), **names)
    drawn = {attempt: DrawnAttempt(tmp_path, attempt) for attempt in (1, 2, 3, 4)}
    for one in drawn.values():
        drawn_whole(one)
    page = Holder("m/")
    first = page.ask(drawn)
    assert set(first["curves"]["m/00"]) == {"4", "3", "2"}, f"until there are {POINTS_MAX} points"
    second = page.ask(drawn)
    assert (second["whole"], set(second["curves"]["m/00"])) == (False, {"1"})
    page.check(drawn)
    assert page.ask(drawn)["curves"] == {}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_in_between_the_holder_has_what_is_drawn(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    drawn: dict[int, DrawnAttempt] = {1: DrawnAttempt(tmp_path, 1)}
    pages = [Holder("loss", "a/"), Holder("loss"), Holder("a/x")]
    at = 0
    for _ in range(60):
        newest = max(drawn)
        if dice.random() < 0.1:
            drawn[newest + 1] = DrawnAttempt(tmp_path, newest + 1)
            newest, at = newest + 1, dice.randrange(at + 1)
        count = dice.randrange(120)
        metrics: dict[str, object] = {"a/x": 2.0} if dice.random() < 0.5 else {"loss": "NaN", "a/y": 1.0}
        write(tmp_path, newest, range(at + 1, at + 1 + count), **metrics)
        at += count
        for one in drawn.values():
            one.advance(is_over=False)
        for page in pages:
            if dice.random() < 0.5:
                page.ask(drawn)
                page.check(drawn)


def test_attempts_say_what_of_them_survives(tmp_path: Path) -> None:
    state = state_of(told(100))
    drawn = {attempt: DrawnAttempt(tmp_path, attempt) for attempt in (2, 3)}
    said = curves_document(drawn, state, 400, MetricChoice(("loss",)), read_cursor(""), STAMP)["attempts"]
    assert said == [
        {"attempt": 2, "after_step": 100, "survives_to": 350, "is_over": True},
        {"attempt": 3, "after_step": 350, "survives_to": 400, "is_over": False},
    ]


def test_an_answer_is_encoded_a_series_at_a_time_so_that_a_supervisor_beside_it_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[str] = []
    monkeypatch.setattr(answers, "dumps", lambda part: (pieces.append(dumps(part)), pieces[-1])[1])
    part = {"step": list(range(1000)), "low": [0.5, math.nan], "non_finite": []}
    said = {"cursor": "é\ud800", "whole": True, "attempts": [], "curves": {f"n/{n}": {"1": part} for n in range(50)}, "none": {}}
    assert answers.encode(said) == dumps(said).encode()
    assert max(map(len, pieces)) <= len(dumps(part))
    for other in ([], {}, None, [{"a": 1}], {"x": {1: {"y": {"z": math.inf}}}}):
        assert answers.encode(other) == dumps(other).encode()


def reach(drawn: dict[int, DrawnAttempt], state: RunState, view: CurveView = ALL_STEPS, *names: str) -> Any:
    choice = MetricChoice(names or ("loss",))
    return curves_document(drawn, state, None, choice, read_cursor(""), STAMP, view)["reach"]


def test_what_survives_says_how_far_the_scale_reaches(tmp_path: Path) -> None:
    state = state_of(told(97))
    second = state.attempts[1]
    write(tmp_path, 1, range(1, 101))
    write(tmp_path, 2, range(101, 351))
    write(tmp_path, 2, range(351, 385), loss=900.0)
    write(tmp_path, 3, range(351, 420))
    drawn = {number: DrawnAttempt(tmp_path, number) for number in (1, 2, 3)}
    for one in drawn.values():
        drawn_whole(one)
    assert second.attempt == 2
    assert reach(drawn, state) == {"loss": [1.0, 7.0]}
    assert reach({2: drawn[2]}, state) == {"loss": [1.0, 900.0]}, "the newest that is drawn is what the run stands on"
    assert reach(drawn, state, CurveView(first=360, last=362)) == {"loss": [4.0, 6.0]}, "of the steps that are looked at"
    assert reach(drawn, state, ALL_STEPS, "loss", "none/") == {"loss": [1.0, 7.0], "none/": None}
