"""Other people's text made fit for a terminal: no escape sequence, no control character, nothing that turns a line around.

A log line may hold anything, and a reason may quote one. What a terminal would obey (colours, cursor moves, titles, links, the
clipboard) is taken out; what it could not show becomes a question mark.

    >>> clean("\\x1b[31mloss\\x1b[0m 2.5\\x07")
    'loss 2.5'
"""

from __future__ import annotations

import re
import unicodedata

LINE_CHARS_MAX = 4000
TAB = "    "

# CSI; OSC, DCS, SOS, PM and APC up to their end, the line's end where that is missing; then every other sequence of two or three.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|"
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|"
    r"\x1b[ -/]*[0-~]?"
)


def clean(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """One line. Of a progress bar, which writes over itself, the newest state."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    if not text.isprintable():
        text = "".join(map(_shown, _SEQUENCE.sub("", text)))
    if len(text) > chars_max:
        text = f"{text[:chars_max]}… ({len(text) - chars_max} more)"
    return text


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character == "\t":
        return TAB
    kind = unicodedata.category(character)
    return " " if kind in ("Zs", "Zl", "Zp") or character == "\n" else "" if kind in ("Cc", "Cf") else "?"
