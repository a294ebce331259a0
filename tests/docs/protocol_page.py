"""PROTOCOL.md as data: its lists and its tables."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "sentinel/client/PROTOCOL.md"
TEXT = PAGE.read_text(encoding="utf-8")


def listed(name: str) -> list[str]:
    """The words of the one line `    name: a b c`."""
    (line,) = re.findall(rf"^    {re.escape(name)}: (.+)$", TEXT, re.MULTILINE)
    return line.split()


def table(head: str) -> list[list[str]]:
    """The rows of the table whose header begins with `head`, cell by cell."""
    (found,) = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in found.splitlines()]


def words(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def keys_of(file: str) -> set[str]:
    """The keys the page gives a file, or a kind of line."""
    (row,) = [row for row in table("file") if row[0].replace("`", "") == file]
    return set(words(row[2]))


def bundled_metrics() -> set[str]:
    return {words(row[0])[0] for row in table("metric") if row[3] == "yes"}
