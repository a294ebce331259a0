"""A regular expression that is compiled when it is first used answers as a compiled one."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.client.late_regex import late_regex

ROOT = Path(__file__).resolve().parents[3]
ALL_OF_THEM = """
import gc, importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
found = [vars(one) for one in gc.get_objects() if type(one).__name__ == "LateRegex"]
print(json.dumps([[one["_text"], int(one["_flags"]), len(one) > 2] for one in found]))
"""


def test_it_answers_as_a_compiled_one_and_is_asked_once() -> None:
    words = late_regex(r"rank (?P<n>\d+)", re.IGNORECASE)
    assert [found["n"] for found in words.finditer("RANK 3, rank 12")] == ["3", "12"]
    assert (words.search("no"), words.sub("x", "rank 3"), words.pattern) == (None, "x", r"rank (?P<n>\d+)")
    assert "search" in vars(words), "asked for once"


def test_a_mistake_shows_at_the_first_use() -> None:
    with pytest.raises(re.error, match="unterminated"):
        late_regex("(").search("a")


def test_every_one_that_there_is_compiles_and_none_has_been_compiled_by_being_imported() -> None:
    users = [path for path in (ROOT / "sentinel").rglob("*.py") if "= late_regex(" in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in users]
    asked = [sys.executable, "-c", ALL_OF_THEM, *names]
    found = json.loads(subprocess.run(asked, capture_output=True, check=True, cwd=ROOT).stdout)
    assert len(found) > 50
    for text, flags, _ in found:
        re.compile(text, flags)
    assert [text for text, _, is_compiled in found if is_compiled] == []


def test_a_copy_answers_as_well() -> None:
    assert copy.copy(late_regex("a")).search("a")
