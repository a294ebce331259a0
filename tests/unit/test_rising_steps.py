"""A step that is told in two lines, its evaluation's and its own, as each chart takes it.

The follower of a trainer that prints both meets them in two looks where one falls in between; charts had the first line alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel.client.run_layout import stream_path
from sentinel.model.readings import StepReading
from sentinel.report.drawn import DrawnAttempt
from sentinel.run_files.rising_steps import RisingSteps
from sentinel.tensorboard.survivors import Begun
from tests.unit.tensorboard.board_kit import draw, effective, scalars


def reading(step: int, **metrics: float) -> StepReading:
    return StepReading(1, step, 0.0, (), metrics)


def test_each_line_of_a_step_adds_what_the_others_did_not_say() -> None:
    rising = RisingSteps(after=3)
    assert rising.take(reading(3, loss=1.0)) is None
    assert rising.take(reading(4, val_loss=2.0)) == reading(4, val_loss=2.0)
    assert rising.take(reading(4, loss=1.0, val_loss=2.5)) == reading(4, loss=1.0)
    assert rising.take(reading(4, loss=1.0)) is None
    assert rising.take(reading(5, loss=0.5)) == reading(5, loss=0.5)
    assert rising.take(reading(4, grad_norm=1.0)) is None, "it fell behind"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = stream_path(tmp_path, 1)
    path.parent.mkdir(parents=True)
    lines = [{"kind": "step", "step": step, "time_s": 1.7e9 + step, "loss": step / 4} for step in range(1, 5)]
    lines.insert(1, {"kind": "step", "step": 2, "time_s": 1.7e9 + 2, "val_loss": 8.0})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_the_curves_of_page_and_report_have_both(run_dir: Path) -> None:
    drawn = DrawnAttempt(run_dir, 1)
    while drawn.advance(is_over=True):
        pass
    assert [bucket[0] for bucket in drawn.curves["loss"].buckets] == [1, 2, 3, 4]
    assert [bucket[0] for bucket in drawn.curves["val_loss"].buckets] == [2]
    assert drawn.steps == 4


@pytest.mark.parametrize("cut", [1, 2])
def test_the_board_has_both_also_where_it_was_made_anew_in_between(run_dir: Path, cut: int) -> None:
    path = stream_path(run_dir, 1)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:cut]))
    draw(run_dir, [Begun(1, 0)])
    path.write_text("".join(lines))
    draw(run_dir, [Begun(1, 0)])
    assert sorted((step, value) for step, _, _, value in scalars(effective(run_dir))) == [
        (1, 0.25), (2, 0.5), (2, 8.0), (3, 0.75), (4, 1.0),
    ]  # fmt: skip
