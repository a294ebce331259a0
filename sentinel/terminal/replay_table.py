"""What a replay found, as a table for people, and a progress bar while it works (on standard error, only on a terminal)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow"}
WIDE = 110  # columns; from here on a reason fits beside its figures
PLAIN_WIDTH = 400  # where there is no terminal: no row is broken, so that lines can be searched
COLUMNS = {"severity": 8, "kind": 12, "onset": 8, "found at": 8, "back at": 8, "remedy": 15}
STEPS = ("onset", "found at", "back at")


class LogsProgress:
    """A bar over so many logs; nothing at all where nobody would see it."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        parts = (TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*parts, console=console, transient=True, disable=not console.is_terminal or total < 2)
        self._task = self._bar.add_task("logs", total=total)

    def step(self) -> None:
        self._bar.advance(self._task)

    def __enter__(self) -> LogsProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()


def print_table(runs: Sequence[Mapping[str, Any]]) -> None:
    """Under the name of each log one row a finding, alarms only; then one line that sums up."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH, highlight=False)
    narrow = console.width < WIDE
    for run in runs:
        if not run["found"]:
            continue
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name, width in COLUMNS.items():
            table.add_column(name, min_width=width, no_wrap=True, justify="right" if name in STEPS else "left")
        if not narrow:
            table.add_column("why", ratio=1)
        console.print(Text(str(run["file"]), "bold"), soft_wrap=True)
        for found in run["found"]:
            table.add_row(*cells(found)[: len(table.columns)])
        if narrow:
            _print_reasons_below(console, table, run["found"])
            continue
        console.print(table)
        console.print()
    console.print(sum_up(runs), soft_wrap=True)


def _print_reasons_below(console: Console, table: Table, found: Sequence[Mapping[str, Any]]) -> None:
    """On a narrow terminal a reason beside the figures would be a column of single words."""
    with console.capture() as captured:
        console.print(table)
    head, *rows = captured.get().splitlines()
    console.print(Text.from_ansi(head))
    for row, one in zip(rows, found, strict=True):
        console.print(Text.from_ansi(row))
        console.print(Padding(Text(str(one["reason"]), "dim"), (0, 0, 0, 2)))
    console.print()


def cells(found: Mapping[str, Any]) -> tuple[str | Text, ...]:
    severity = str(found["severity"])
    remedy = found["remedy"] or ("none: it healed" if found["benign"] else "none")
    return (
        Text(severity, SEVERITY_STYLES.get(severity, "")),
        str(found["kind"]),
        _step(found["onset_step"]),
        _step(found["detected_step"]),
        _step(found["resolved_step"]),
        str(remedy),
        Text(str(found["reason"])),
    )


def describe_found(found: Mapping[str, Any]) -> str:
    """One line, as `watch` prints it; said again when something about it changed."""
    onset = f" (onset {found['onset_step']})" if found["onset_step"] not in (None, found["detected_step"]) else ""
    line = f"{found['file']}: {found['severity']} {found['kind']} at step {found['detected_step']}{onset}: {found['reason']}"
    if found["intervened"]:
        line += f"; the policy would {found['remedy']}"
    if found["resolved_step"] is not None:
        line += f"; back in its band at step {found['resolved_step']}"
    return line


def _step(step: object) -> str:
    return "-" if step is None else str(step)


def sum_up(runs: Sequence[Mapping[str, Any]]) -> str:
    """The last line: how many logs and rows, and what was found in them."""
    alarms = sum(len(run["found"]) for run in runs)
    read = [run for run in runs if not run["error"]]
    rows = sum(int(run["rows"]) for run in runs)
    acted = sum(bool(found["intervened"]) for run in runs for found in run["found"])
    info = sum(int(run["info"]) for run in runs)
    alarmed = f"{count_words(alarms, 'alarm')}, {acted} with a remedy, {info} for information"
    line = f"{count_words(len(read), 'log')} read, {rows:,} rows: {alarmed}"
    return line + (f"; {len(runs) - len(read)} could not be read" if len(read) < len(runs) else "")


def count_words(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
