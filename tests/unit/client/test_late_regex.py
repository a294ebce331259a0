"""A regular expression that is compiled when it is first used answers as a compiled one."""

from __future__ import annotations

import copy
import re
import runpy
from pathlib import Path

import pytest

import sentinel
from sentinel.client import late_regex as module
from sentinel.client.late_regex import late_regex

SOURCES = Path(sentinel.__file__).parent
USERS = [path for path in sorted(SOURCES.rglob("*.py")) if "import late_regex" in path.read_text(encoding="utf-8")]


def test_it_answers_as_a_compiled_one_and_is_asked_once() -> None:
    words = late_regex(r"rank (?P<n>\d+)", re.IGNORECASE)
    assert [found["n"] for found in words.finditer("RANK 3, rank 12")] == ["3", "12"]
    assert (words.search("no"), words.sub("x", "rank 3"), words.pattern) == (None, "x", r"rank (?P<n>\d+)")
    assert "search" in vars(words), "asked for once"


def test_a_mistake_shows_at_the_first_use() -> None:
    with pytest.raises(re.error, match="unterminated"):
        late_regex("(").search("a")


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.stem)
def test_each_that_is_used_can_be_compiled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake must not wait for the first run that dies."""
    assert len(USERS) >= 8
    monkeypatch.setattr(module, "late_regex", re.compile)
    runpy.run_path(str(path))


def test_a_copy_answers_as_well() -> None:
    assert copy.copy(late_regex("a")).search("a")
