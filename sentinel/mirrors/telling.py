"""How a run's mirror stands, for `sentinel mirror status`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.journal.run_file import find_run_file
from sentinel.model.amounts import time_words
from sentinel.report.masked import run_masking
from sentinel.run_files.mirror_standing import read_mirror_standing


def mirror_document(run_dir: Path) -> dict[str, Any]:
    """Raises UsageError where the run has no mirror."""
    run, standing = find_run_file(run_dir), read_mirror_standing(run_dir)
    to = run.mirror.get("to", "") if run is not None else ""
    if standing is None:
        if not to:
            raise UsageError(f"{run_dir}: has no mirror; `sentinel run --mirror TO` or `sentinel mirror push --to TO` makes one")
        return {"to": to, "ok": False, "parts": {}, "error": "nothing was pushed yet"}
    wall_s = SystemClock().wall_s()
    parts = {
        name: {
            "there": one.there,
            "lag_s": standing.lag_s(name, wall_s),
            "confirmed_s": one.since_s,
            "every_s": one.every_s,
            "error": one.error,
        }
        for name, one in standing.parts.items()
    }
    is_well = all(one.since_s is not None and not one.error for one in standing.parts.values())
    masking = run_masking(run_dir)  # a service's words may hold an address with a key
    return dict(masking.document({"to": standing.to, "ok": is_well, "parts": parts, "error": ""}))


def mirror_text(document: dict[str, Any]) -> str:
    lines = [f"mirror at {document['to']}"]
    for name, part in document["parts"].items():
        there = part["there"] or "nothing known to be there"
        lines.append(f"{name}: {there}; confirmed {time_words(part['lag_s'])} ago" if part["confirmed_s"] else f"{name}: {there}")
        if part["error"]:
            lines.append(f"  {part['error']}")
    return "\n".join([*lines, *([document["error"]] if document["error"] else [])])
