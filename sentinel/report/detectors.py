"""How every detector stands, as rows for a person: what is breached, then what nobody can know and why, then what is well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel.model.amounts import time_words
from sentinel.run_files.detector_standings import OLD_AFTER_S


def detector_rows(standings: Mapping[str, Any], *, is_watched: bool) -> list[tuple[str, str]]:
    """Name and words, row by row. `is_watched`: a supervisor lives; without one all of this is past."""
    if standings["missing"]:
        return [("detectors", f"nothing is known of them: {standings['missing']}")]
    rows = [("detectors", _as_of(standings, is_watched=is_watched))]
    verdicts = [(item["kind"], item["verdict"], item["reason"]) for item in standings["verdicts"]]
    rows += [("breached", f"{kind}: {reason}") for kind, verdict, reason in verdicts if verdict == "breached"]
    unknown: dict[str, list[str]] = {}  # many share a reason: one line for each reason, and not for each kind
    for kind, verdict, reason in verdicts:
        if verdict == "unknown":
            unknown.setdefault(reason, []).append(kind)
    for reason, kinds in unknown.items():
        who = "every one of them" if 1 < len(kinds) == len(verdicts) else ", ".join(kinds)
        rows.append(("unknown", f"{who}: {reason}"))
    healthy = [kind for kind, verdict, _ in verdicts if verdict == "healthy"]
    if healthy:
        rows.append(("healthy", ", ".join(healthy)))
    if standings["unwritten_remarks"]:
        count = standings["unwritten_remarks"]
        rows.append(("remarks", f"{count} more on the sources of this attempt, counted and not written down"))
    return rows


def _as_of(standings: Mapping[str, Any], *, is_watched: bool) -> str:
    age_s = standings["age_s"]
    ago = f"{time_words(age_s)} ago"
    where = f"attempt {standings['attempt']}, step {standings['step']}" if standings["attempt"] else "before the first attempt"
    if not is_watched:
        return f"as of the last supervisor, {ago}, {where}; nobody judges now"
    if age_s > OLD_AFTER_S:
        return f"as of {ago}, {where}: old, the supervisor has written nothing since; what holds now is not known"
    return f"as of {ago}, {where}"
