"""Tables and durations as text, for terminals and for Markdown. Knows nothing of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NOTHING = "-"


def cell(value: object) -> str:
    """None is a dash; a float has one digit; a newline never breaks a row."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, float):
        return f"{value:.1f}"
    return " ".join(str(value).split())


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns aligned by spaces, numbers to the right."""
    cells = [[cell(value) for value in row] for row in rows]
    widths = [max(len(row[n]) for row in [list(header), *cells]) for n in range(len(header))]
    right = [bool(rows) and all(row[n] is None or _is_number(row[n]) for row in rows) for n in range(len(header))]

    def line(row: Sequence[str]) -> str:
        parts = zip(row, widths, right, strict=True)
        return "  ".join(text.rjust(width) if is_right else text.ljust(width) for text, width, is_right in parts).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, cells)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of Markdown; a pipe in a cell is escaped."""

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in row) + " |"

    cells = [[cell(value) for value in row] for row in rows]
    return "\n".join([line(header), line(["---"] * len(header)), *map(line, cells)])


def rounded_parts(parts: Mapping[str, float], digits: int = 1) -> dict[str, float]:
    """The parts rounded so that they still sum to their rounded sum: what was cut off most is rounded up."""
    unit = 10**digits
    scaled = {name: max(0.0, value) * unit for name, value in parts.items()}
    floors = {name: int(value) for name, value in scaled.items()}
    missing = round(sum(scaled.values())) - sum(floors.values())
    by_rest = sorted(scaled, key=lambda name: floors[name] - scaled[name])
    up = set(by_rest[:missing])
    return {name: (floors[name] + (name in up)) / unit for name in parts}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
