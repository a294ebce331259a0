"""A regular expression that is compiled when it is first used answers as a compiled one."""

from __future__ import annotations

import re

import pytest

from sentinel.client.late_regex import late_regex


def test_it_answers_as_a_compiled_one_and_is_asked_once() -> None:
    words = late_regex(r"rank (?P<n>\d+)", re.IGNORECASE)
    assert [found["n"] for found in words.finditer("RANK 3, rank 12")] == ["3", "12"]
    assert (words.search("no"), words.sub("x", "rank 3"), words.pattern) == (None, "x", r"rank (?P<n>\d+)")
    assert "search" in vars(words), "asked for once"


def test_a_mistake_shows_at_the_first_use() -> None:
    with pytest.raises(re.error, match="unterminated"):
        late_regex("(").search("a")
