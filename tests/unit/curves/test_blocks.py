"""Two rows of blocks: heights, the mark, and what is no number."""

from __future__ import annotations

import math

from sentinel.curves.blocks import WIDTH, draw_plot


def test_the_highest_fills_both_rows_and_the_onset_stands_under_its_column() -> None:
    points = [(step, 1.0 + (step == 30) * 9) for step in range(40)]
    head, upper, lower, mark = draw_plot("loss", points, 30)
    assert head == "loss, steps 0..39, 1 to 10"
    assert upper == " " * 30 + "█"
    assert lower[30] == "█"
    assert lower.count("▁") == 39
    assert mark.index("^") == 30


def test_a_single_bad_step_among_many_stays_visible() -> None:
    points = [(step, 500.0 if step == 7_777 else 2.0) for step in range(10_000)]
    head, upper, lower, _ = draw_plot("grad_norm", points, 7_777)
    assert head.endswith("(log)")
    assert upper.count("█") == 1
    assert len(lower) <= WIDTH


def test_what_is_no_number_is_marked_and_said() -> None:
    points = [(1, 2.0), (2, 2.1), (3, math.nan), (4, math.inf)]
    _, upper, lower, mark, word = draw_plot("loss", points, 3)
    assert (lower[2:], upper[2:]) == ("!!", "!!")
    assert (mark, word) == ("  ^ onset, step 3", "! is NaN or infinite")


def test_nothing_to_see_is_nothing() -> None:
    assert draw_plot("loss", [], 3) == []
    assert draw_plot("loss", [(1, math.nan)], 1) == []
    assert len(draw_plot("loss", [(5, 2.0), (6, 2.0)], 99)) == 3, "an onset out of sight has no mark"
    assert len(draw_plot("loss", [(5, 2.0), (6, 2.0)], None)) == 3
