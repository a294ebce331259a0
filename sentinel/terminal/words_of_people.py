"""What goes between sentinel and people, in a few words: what they ask, and what they are told."""

from __future__ import annotations

from typing import assert_never

from sentinel.model import actions as a
from sentinel.model import operator_requests as w
from sentinel.model.recorded import recorded_name


def page_words(action: a.SendPage) -> str:
    """What is sent, as in 'now: …'."""
    on = f" on {action.route}" if action.route else ""
    match action.stage:
        case "trigger":
            return f"page a person{on} ({action.severity}): {action.title}"
        case "update":
            return f"bring the page of incident {action.incident} up to date{on}"
        case "acknowledge":
            return f"tell{on} that incident {action.incident} is acknowledged"
        case "resolve":
            return f"tell{on} that incident {action.incident} needs nobody any more"
        case "message":
            return f"tell{on}: {action.title}"


def request_words(wish: w.OperatorRequest) -> str:
    """What was asked, as in 'asked to …'."""
    match wish:
        case w.Pause() | w.Resume() | w.Hold():
            return recorded_name(type(wish)).lower()
        case w.RollBack():
            return f"roll back to step {wish.to_step}"
        case w.LeaveOut():
            return f"leave out samples {wish.samples.start}..{wish.samples.end}"
        case w.Change():
            return f"change {', '.join(wish.keys)}"
        case w.Readmit():
            return f"readmit node {wish.node}"
        case w.Remark():
            return f"note: {wish.text}"
        case w.Approve() | w.Deny() | w.Acknowledge() | w.Resolve():
            return f"{recorded_name(type(wish)).lower()} incident {wish.incident}"
        case _:
            assert_never(wish)
