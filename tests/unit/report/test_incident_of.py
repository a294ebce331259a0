"""What is written into an id or a subject is read back where it is written, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from sentinel.model import facts as f
from sentinel.model.actions import incident_of_page_key, page_key
from sentinel.model.operator_requests import deadline_id, is_deadline


def test_the_key_of_a_page_names_its_incident() -> None:
    assert page_key(12, 3, "trigger", "phone/2") == "page/12/3/trigger/phone/2", "as in every journal"
    assert incident_of_page_key(page_key(12, 3, "trigger", "phone/2")) == 12


@pytest.mark.parametrize("key", ["start/3", "page", "page/x/1", "pager/3/1", ""])
def test_another_key_names_none(key: str) -> None:
    assert incident_of_page_key(key) is None


def test_a_note_knows_its_incident() -> None:
    assert f.Noted(f.about_incident(7), "x").incident == 7
    assert f.about_incident(7) == "incident 7", "as in every journal"
    assert [f.Noted(about, "x").incident for about in ("rollback", "incident", "incident x", "incidents 7")] == [None] * 4


def test_a_deadline_is_no_person() -> None:
    assert deadline_id(2, 1) == "deadline/2/1"
    assert is_deadline(deadline_id(2, 1))
    assert not is_deadline("3f9a")
