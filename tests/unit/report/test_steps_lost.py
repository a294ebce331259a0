"""Where rows are seldom, every surface shows the bound that is known of the steps that were lost, and none shows a 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model import facts as f
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState
from sentinel.report.chronicle.stories import Story, outcome_words
from sentinel.report.documents import incident_document
from sentinel.report.html.story import _ended
from sentinel.report.text import incident_row
from sentinel.terminal.words import describe
from tests.builders import Bench

KNOWN = [
    ((32, 0), 32, 32, "32", "32 steps"),
    ((0, 9), None, 9, "up to 9", "up to 9 steps"),
    ((90, 9), 90, 99, "90 to 99", "90 to 99 steps"),
    ((0, None), None, None, "unknown", "an unknown number of steps"),
    ((90, None), 90, None, "at least 90", "at least 90 steps"),
]


def incident() -> Incident:
    bench = Bench().launched().steps(1, 50).checkpoint(50).steps(51, 60).exits(signal=9)
    return replace(bench.incident, steps_lost=0, steps_unseen=0, state=IncidentState.RECOVERED)


@pytest.mark.parametrize(("lost", "least", "most", "number", "words"), KNOWN)
def test_every_surface_says_so(
    lost: tuple[int, int | None], least: int | None, most: int | None, number: str, words: str
) -> None:
    fact, plain = f.StepsLost(1, *lost), incident()
    one = replace(plain, steps_lost=lost[0], steps_unseen=lost[1])
    document = incident_document(one)
    assert (document["steps_lost"], document["steps_lost_at_most"]) == (least, most)
    assert str(incident_row(document)[5]) == number
    assert f"{words[0].upper()}{words[1:]} had to be trained again." in _ended(one, RunState())
    story = Story(plain, 1.0, state=IncidentState.RECOVERED)
    story.take(2.0, fact)
    assert outcome_words(story).endswith(f", {words} lost")
    assert (line := describe(fact, 1.0, RunState())) is not None
    assert line.text.strip() == f"- {words} will be trained again"


def test_where_none_was_lost_nothing_is_said() -> None:
    document = incident_document(incident())
    assert (document["steps_lost"], document["steps_lost_at_most"]) == (0, 0)
    assert "trained again" not in _ended(incident(), RunState())
