"""`sentinel status --exit-code`: what is certain is said first, and what nobody can say has a number of its own."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel.model.state import ENDINGS
from sentinel.report.standing import FAILED, UNKNOWN, WAITS, WELL, exit_code

SEEN, UNSEEN = {"acknowledged_by": "ann"}, {"acknowledged_by": ""}


def document(state: str, supervisor: str = "alive", *pages: dict[str, str], waits: tuple[bool, ...] = ()) -> dict[str, Any]:
    """`waits`: of each incident that stands, whether it needs a person's word."""
    standing = [{"waits": one} for one in waits]
    return {"state": state, "supervisor": supervisor, "pages": list(pages), "standing": standing}


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        (document("training"), WELL),
        (document("recovering"), WELL),
        (document("probation", "alive", SEEN), WELL),
        (document("finished", "gone"), WELL),
        (document("stopped", "gone"), WELL),
        (document("stopped", "gone", SEEN), WELL),
        (document("stopped", "gone", UNSEEN), WAITS),
        (document("finished", "gone", UNSEEN), WAITS),
        (document("suspended", "gone", UNSEEN), WAITS),
        (document("unobserved", "gone", UNSEEN), WAITS),
        (document("training", "alive", SEEN, waits=(False, True)), WAITS),
        (document("training", "alive", waits=(False,)), WELL),
        (document("failed", "gone"), FAILED),
        (document("failed", "gone", UNSEEN), FAILED),
        (document("training", "alive", SEEN, UNSEEN), WAITS),
        (document("held"), WAITS),
        (document("paused"), WAITS),
        (document("training", "gone"), UNKNOWN),
        (document("training", "stuck"), UNKNOWN),
        (document("training", "unknown"), UNKNOWN),
        (document("unobserved", "gone"), UNKNOWN),
        (document("unseen"), UNKNOWN),
        (document("unseen", "alive", UNSEEN), WAITS),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_a_run_says_how_it_stands(shown: dict[str, Any], code: int) -> None:
    assert exit_code(shown) == code


def test_every_ending_is_known() -> None:
    codes = {ending: exit_code(document(ending, "gone")) for ending in ENDINGS}
    assert {ending for ending, code in codes.items() if code != WELL} == {"failed", "unobserved"}
