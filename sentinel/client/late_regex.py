"""A regular expression that is compiled when it is first used.

What reads logs and deaths has a hundred of them, and a run whose trainer does not die uses none: compiling them took 15 ms of
every start. The module that holds them is loaded at the start all the same.
"""

from __future__ import annotations

import re
from typing import Any, cast


class LateRegex:
    """Compiles itself when a method of `re.Pattern` is asked for, and keeps what it was asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions, of copies above all, which ask before there is a text
            raise AttributeError(name)
        found = getattr(self.compile(), name)
        setattr(self, name, found)  # from now on without this call
        return found

    def compile(self) -> re.Pattern[str]:
        """Now: the first use finds it in the cache of `re`."""
        return re.compile(self._text, self._flags)


def late_regex(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`. A mistake in `text` shows at the first use only; a test compiles all that there are."""
    return cast(re.Pattern[str], LateRegex(text, flags))
