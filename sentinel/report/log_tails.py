"""The ends of the logs that a woken person opens first: the launcher's, and of the rank that is blamed. Masked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentinel.report.log_files import LogFile, find_logs, read_tail
from sentinel.report.masked import run_masking

LINES = 60
LINE_CHARS_MAX = 2_000  # a page shows no megabyte


def tails_document(run_dir: Path, attempt: int, blamed: int | None, count: int = LINES) -> dict[str, Any]:
    """`blamed` None: no rank is; rank 0 stands for all. `missing`: why there is none; empty where there is."""
    logs = find_logs(run_dir, attempt)
    rank = 0 if blamed is None else blamed
    masking = run_masking(run_dir)
    shown = [
        {"label": _label(log, blamed), "file": f"attempts/{attempt:04d}/{log.path.parent.name}/{log.path.name}", "lines": lines}
        for log in sorted(logs, key=lambda log: log.rank is not None)
        if log.rank is None or log.rank == rank
        if (lines := [line[:LINE_CHARS_MAX] for line in masking.lines(read_tail(log.path, count)[0])])
    ]
    return {"attempt": attempt, "logs": shown, "missing": "" if shown else _missing(attempt, logs)}


def _label(log: LogFile, blamed: int | None) -> str:
    what = ", errors" if log.path.suffix == ".err" else ""
    return f"{log.label}{' (blamed)' if log.rank is not None and log.rank == blamed else ''}{what}"


def _missing(attempt: int, logs: Sequence[LogFile]) -> str:
    if logs:
        return f"the logs of attempt {attempt} are empty"
    return f"attempt {attempt} has no log here: what it prints goes elsewhere"
