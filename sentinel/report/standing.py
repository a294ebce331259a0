"""How a run stands, in one number, for scripts and monitors: `sentinel status --exit-code`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel.model.state import UNOBSERVED, UNSEEN

WELL, FAILED, WAITS, UNKNOWN = 0, 1, 3, 4  # 2 is a usage error's, as everywhere


def exit_code(document: Mapping[str, Any]) -> int:
    """Of a status document. What is certain is said first: a run that failed has failed whoever was called for it, and one that
    has ended needs no supervisor. An end that nobody saw (`unobserved`) is unknown, one that is not proven (`unseen`), and
    whatever a supervisor that is gone or stands still wrote last."""
    state = document["state"]
    if state == "failed":
        return FAILED
    if state in ("finished", "stopped", "suspended"):
        return WELL
    if state in ("held", "paused") or not all(page["acknowledged_by"] for page in document["pages"]):
        return WAITS
    return WELL if document["supervisor"] == "alive" and state not in (UNOBSERVED, UNSEEN) else UNKNOWN
