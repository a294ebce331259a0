"""What a live change may have moved, from two answers of a trainer."""

from __future__ import annotations

import pytest

from sentinel.client.settings import SETTINGS
from sentinel.detectors.moved import judge_moved

ALL = {key: row.usual for key, row in SETTINGS.items() if row.usual is not None}
ATTACHED = {key: value for key, value in ALL.items() if key != "embed_grad_scale"}  # as a loop of a user's own answers
MOVED = {"loss", "grad_norm", "param_norm"}


def nothing(metric: str) -> float | None:
    return None


@pytest.mark.parametrize("before", [ALL, ATTACHED], ids=["all settings", "one less"])
def test_a_setting_that_the_trainer_lacks_moves_nothing(before: dict[str, object]) -> None:
    assert judge_moved(before, {**before, "checkpoint_interval": 100}, nothing) == frozenset()


@pytest.mark.parametrize(("before", "after"), [
    (ALL, ATTACHED), (ATTACHED, ALL), (None, ATTACHED), (ATTACHED, None), (ATTACHED, "words"),
], ids=["only before", "only after", "nothing before", "nothing after", "no settings"])  # fmt: skip
def test_what_only_one_of_the_answers_names_may_have_changed(before: dict[str, object] | None, after: object) -> None:
    assert judge_moved(before, after, nothing) >= MOVED


def test_what_changed_moves_what_its_row_says() -> None:
    assert judge_moved(ALL, {**ALL, "weight_decay": 0.2}, nothing) == frozenset(SETTINGS["weight_decay"].moves)
