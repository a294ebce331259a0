"""One scale under every picture: what is high stands high, far-apart values go on a logarithmic axis, and ticks are round."""

from __future__ import annotations

import pytest

from sentinel.curves.svg import AttemptLine, Box, Scale, draw_panel, draw_picture, round_ticks

BOX = Box(100.0, 50.0, 200.0, 100.0)


@pytest.mark.parametrize(("low", "high", "is_log"), [(1.0, 2.0, False), (1.0, 10.1, True), (0.0, 1e9, False), (-5.0, 5.0, False)])
def test_values_lie_inside_the_box_in_their_order(low: float, high: float, is_log: bool) -> None:
    scale = Scale(low, high, 10, 20, BOX)
    assert scale.is_log == is_log
    assert (scale.x(10), scale.x(20)) == (100.0, 300.0)
    assert (scale.y(low), scale.y(high)) == (pytest.approx(146.0), pytest.approx(54.0))
    assert scale.y(scale.middle) == pytest.approx(100.0)
    assert scale.y(high * 10 + 1) == scale.y(high), "what lies outside is drawn at the edge"


def test_a_level_line_stands_in_the_middle() -> None:
    for value in (0.0, 3.0, -2.0):
        assert Scale(value, value, 1, 1, BOX).y(value) == pytest.approx(100.0)


def test_ticks_are_round_and_on_the_scale() -> None:
    assert round_ticks(0.0, 10.0) == [0, 2, 4, 6, 8, 10]
    assert Scale(0.5, 2000.0, 1, 2, BOX).ticks() == [1, 10, 100, 1000]
    assert Scale(0.5, 40.0, 1, 2, BOX).ticks() == [1, 3, 10, 30]
    assert round_ticks(1.0, 1.0) == [1.0]


def test_what_was_thrown_away_is_marked_at_the_edge_and_sets_no_scale() -> None:
    level = [(step, 2.0 + step % 5 / 10) for step in range(1, 101)]
    lost = [(103, 50.0), (104, 9e3), (105, -4.0), (106, 2.2)]
    lines = [AttemptLine(1, [*level, *lost], 100, 0), AttemptLine(2, [(step + 100, value) for step, value in level], 1 << 62, 1)]
    panel = draw_panel("loss", lines, [], 1, 200)
    assert panel is not None
    assert (panel.low, panel.high) == ("2", "2.4")
    assert panel.outside == ("▲ 9,000 at step 104", "▼ -4 at step 105")
    assert panel.svg.count('class="outside"') == 2, "what would lie on each other is one mark, the farthest"
    assert "<title>9,000 at step 104, outside the scale</title>" in panel.svg


def test_a_panel_without_a_spike_has_no_mark() -> None:
    panel = draw_panel("loss", [AttemptLine(1, [(step, 2.0 + step) for step in range(50)], 100, 0)], [], 0, 50)
    assert panel is not None
    assert (panel.outside, "outside" in panel.svg) == ((), False)


def test_a_picture_of_a_log_marks_its_spike() -> None:
    curve = [(step, 2.0, 2.4) for step in range(100)]
    curve[50] = (50, 2.0, 8e5)
    text = draw_picture("log", {"loss": curve}, [])
    assert "outside the scale" in text
    assert "(log)" not in text
