"""How a check of a node ends where the node is not healthy."""

from __future__ import annotations

REASON_CHARS_MAX = 300


class Sick(Exception):
    """The node is sick, in these words."""


class Unknown(Exception):
    """It could not be tried, for this reason."""


def first_line(error: BaseException) -> str:
    """Of its words; its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:REASON_CHARS_MAX]
