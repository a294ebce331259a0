"""The tree of attempts: whose checkpoint each came from, and which steps the present weights stand on."""

from __future__ import annotations

import pytest

from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import SettingsInForce
from sentinel.report.lineage import Branch, Lineage, branch_document, lineage_text
from tests.builders import Bench


def traced(bench: Bench) -> dict[int, Branch]:
    lineage = Lineage()
    for fact in bench.facts:
        lineage.take(fact)
    return {branch.attempt: branch for branch in lineage.branches()}


def test_a_line_of_restarts_keeps_what_lies_below_each_resume() -> None:
    bench = Bench().launched().steps(1, 60).checkpoint(50).exits(signal=9).launched().steps(51, 80).checkpoint(75)
    first, second = traced(bench).values()
    assert (first.parent, first.resumed_step, first.last_step, first.survives_to) == (None, 0, 60, 50)
    assert (second.parent, second.resumed_step, second.first_step, second.survives_to) == (1, 50, 51, 75)
    assert first.outcome == "crashed"


def test_a_branch_that_was_gone_back_behind_is_abandoned_whole() -> None:
    bench = Bench().launched().steps(1, 60).checkpoint(25).checkpoint(50).exits(signal=9).launched().steps(51, 80).checkpoint(75)
    bench.asks(w.RollBack(30))
    bench.launched().steps(26, 40)
    found = traced(bench)
    assert [found[n].survives_to for n in (1, 2, 3)] == [25, None, 26]
    assert (found[3].parent, found[3].resumed_step) == (1, 25)


def test_the_maker_of_a_checkpoint_is_the_one_whose_file_lay_there_at_the_launch() -> None:
    bench = Bench().launched().steps(1, 60).checkpoint(25).checkpoint(50)
    bench.asks(w.RollBack(25))
    bench.launched().steps(26, 60).checkpoint(50).exits(signal=9).launched()
    assert traced(bench)[3].parent == 2, "attempt 1's checkpoint of step 50 was moved aside"


@pytest.mark.parametrize(
    "words", ["o   1  from scratch: steps 1..60; those after 25 abandoned", "x   2  from step 50 of attempt 1"]
)
def test_the_tree_says_what_survives(words: str) -> None:
    bench = Bench().launched().steps(1, 60).checkpoint(25).checkpoint(50).exits(signal=9).launched().steps(51, 80)
    bench.asks(w.RollBack(30))
    bench.launched().steps(26, 40)
    documents = [{name: getattr(branch, name) for name in Branch.__slots__} for branch in traced(bench).values()]
    text = lineage_text(documents, 40)
    assert words in text
    assert "o   3  from step 25 of attempt 1: steps 26..40\n" in text
    assert text.endswith("has not ended")


def test_nothing_launched_says_so() -> None:
    assert lineage_text([]) == "no attempt was launched yet"


def test_a_live_change_that_was_refused_is_not_told_to_be_in_force() -> None:
    lineage = Lineage()
    lineage.take(f.AttemptLaunched(1, None, SettingsInForce(), "why"))
    lineage.take(f.OverridesAnswered(1, "ov-1.half", 100))
    lineage.take(f.OverridesAnswered(1, "ov-1.half", 150, ("lr_scale",)))
    text = lineage_text([branch_document(branch) for branch in lineage.branches()])
    assert "settings ov-1.half in force from step 100\n" in text
    assert "settings ov-1.half lr_scale not in force from step 150\n" in text
