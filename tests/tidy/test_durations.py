"""A length of time is worded in one place for each language: `time_words` in sentinel/model/amounts.py, `spanWords` on the page.

Found here is text that puts a unit of time behind a number by itself. What may: the two themselves; a step time with three
digits, which is compared with another; and what cannot import them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDED = re.compile(r"\}\s(?:s|sec|seconds|min|minutes|h|hours|d|days)\b(?!\$)")
STEP_TIME = re.compile(r"\{[\w.]+:\.3g\} s\b")
MAY = {
    "sentinel/model/amounts.py": "the words themselves",
    "sentinel/web/page/times.js": "the words themselves, and the clock of a run",
    "sentinel/client/torch/reading_back.py": "a trainer imports it: standard library and torch alone",
    "sentinel/web/page/api.js": "a constant of eight seconds",
    "sentinel/sim": "what a developer of the simulator reads, exact to the millisecond",
}
FILES = sorted([*(ROOT / "sentinel").rglob("*.py"), *(ROOT / "sentinel/web/page").glob("*.js")])


def worded_alone(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if WORDED.search(STEP_TIME.sub("", line))]


def test_no_other_place_words_a_length_of_time() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {line}"
        for path in FILES
        if not any(str(path.relative_to(ROOT)).startswith(place) for place in MAY)
        for line in worded_alone(path.read_text(encoding="utf-8"))
    }
    assert not found, "say it with time_words, or with spanWords on the page"


@pytest.mark.parametrize("place", MAY)
def test_an_exception_is_still_needed(place: str) -> None:
    path = ROOT / place
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert any(worded_alone(file.read_text(encoding="utf-8")) for file in files), "take it out of MAY"


@pytest.mark.parametrize(
    "line", ['f"silent for {silent_s:.0f} s"', 'f"{seconds / 60:.0f} min ago"', "`${Math.round(age)} s old`", 'f"{a:g} hours"']
)
def test_such_text_is_found(line: str) -> None:
    assert worded_alone(line)


def test_a_step_time_and_a_count_of_something_else_are_not() -> None:
    assert not worded_alone('f"step time {step_s:.3g} s, {count} steps, {name} said {words} so far"')
