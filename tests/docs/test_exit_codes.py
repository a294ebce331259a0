"""The numbers of `sentinel status --exit-code` have one table, and it says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from sentinel.report.standing import MEANINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### How a run stands, in one number")[1].split("\n## ")[0]
    found = {int(code): words for code, words in re.findall(r"^\| (\d+) \| (.+) \|$", section, re.MULTILINE)}
    assert found == MEANINGS
