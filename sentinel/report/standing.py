"""How a run stands, in one number, for scripts and monitors: `sentinel status --exit-code`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel.model.state import UNOBSERVED, UNSEEN

WELL, FAILED, WAITS, UNKNOWN = 0, 1, 3, 4  # 2 is a usage error's, as everywhere
MEANINGS = {
    WELL: "it trains, is being repaired, was stopped or has finished, and nobody is waited for",
    FAILED: "it failed, and no repair is left",
    2: "usage error",
    WAITS: "it waits for a person: held, paused, a rung waits for approval, or somebody was called and nobody has answered, "
    "also where the run was stopped or has finished since",
    UNKNOWN: "nobody can say: no supervisor lives or it stands still, or the end was not seen",
}
"""What each code means, for the help of the command and its page."""


def exit_code(document: Mapping[str, Any]) -> int:
    """Of a status document. What is certain is said first: a run that failed has failed whoever was called for it. A call that
    nobody has answered outlives the run. One that has ended needs no supervisor. An end that nobody saw (`unobserved`) is
    unknown, one that is not proven (`unseen`), and whatever a supervisor that is gone or stands still wrote last."""
    state = document["state"]
    if state == "failed":
        return FAILED
    is_waiting = any(one["waits"] for one in document["standing"])
    if is_waiting or state in ("held", "paused") or not all(page["acknowledged_by"] for page in document["pages"]):
        return WAITS
    if state in ("finished", "stopped", "suspended"):
        return WELL
    return WELL if document["supervisor"] == "alive" and state not in (UNOBSERVED, UNSEEN) else UNKNOWN
