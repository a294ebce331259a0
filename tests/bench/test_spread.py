"""What is concluded from measurements in turn: a machine that grows slower is no loss, and a gain is never a seal's doing."""

from __future__ import annotations

import pytest

from tests.bench.spread import Loss, Window, lost_s, there_and_back

WAYS = ("nothing", "seal", "known")


def round_of(pace: float, change: float, taken_s: float) -> dict[str, list[Window]]:
    """Windows of 10 s in turn, on a machine whose pace changes evenly; a seal takes so much of its window."""
    windows: dict[str, list[Window]] = {way: [] for way in WAYS}
    for number, way in enumerate(there_and_back(WAYS)):
        windows[way].append(Window(10.0, round((pace + change * number) * (10.0 - (taken_s if way == "seal" else 0.0)))))
    return windows


@pytest.mark.parametrize("change", [-1000.0, 0.0, 1000.0])
@pytest.mark.parametrize("taken_s", [0.0, 0.3])
def test_a_pace_that_changes_evenly_is_no_loss(change: float, taken_s: float) -> None:
    assert lost_s(round_of(100_000.0, change, taken_s), "seal", "nothing") == pytest.approx(taken_s, abs=0.01)


def test_a_window_that_lasts_longer_has_more_steps() -> None:
    windows = {"nothing": [Window(10.0, 1000)], "seal": [Window(12.0, 1150)]}
    assert lost_s(windows, "seal", "nothing") == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("rounds", "words", "is_seen"),
    [
        ([0.25, 0.3, 0.2, 0.35, 0.3, 0.28, 0.31, 0.3], "lost time", True),
        ([0.25, -0.3, 0.2, -0.35, 0.3, -0.28, 0.31, -0.3], "lost nothing that can be told from 0", False),
        ([-11.0, -12.0, -11.5, -10.0, -12.5, -11.2, -13.0, -9.0], "gained time", False),
        ([0.9, 1.0, 0.95, 0.8, 0.85, 0.9, 1.1, 0.92], "lost time", False),  # more than was taken
    ],
)
def test_what_is_said_of_several_rounds(rounds: list[float], words: str, is_seen: bool) -> None:
    found = Loss.of(rounds)
    assert found.words("s").startswith(words)
    assert found.sees(0.3) is is_seen
