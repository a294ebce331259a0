"""A program of the operator's own: the page is one JSON document on its standard input, its exit code the answer.

0: delivered. 75 (EX_TEMPFAIL): try again later. Anything else: give up, with the last line it wrote. No shell reads its words.
It is started by a process of its own (`program_starter`), has a process group of its own and a deadline.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from sentinel.channels.contract import AGAIN_S, CALL_S
from sentinel.channels.notice import Notice
from sentinel.channels.program_starter import SHARED
from sentinel.channels.wording import cut, one_line
from sentinel.client.strict_json import dumps
from sentinel.errors import GiveUp, RetryLater
from sentinel.model.amounts import time_words
from sentinel.policy.schema_paging import RouteSettings, Words

TEMPORARY = 75
WORDS_MAX = 200


class CommandRoute(RouteSettings):
    """A program of yours; the page is JSON on its standard input."""

    run: Words
    """The program and its arguments; no shell."""


class Command:
    def __init__(self, settings: CommandRoute, within_s: float = CALL_S) -> None:
        self._words = settings.run
        self._within_s = within_s
        with suppress(OSError):  # now, while every filesystem answers; what is wrong is told by the delivery
            SHARED.ensure_started()

    def deliver(self, notice: Notice) -> str:
        name = os.path.basename(self._words[0])
        try:
            done = SHARED.run(self._words, dumps(notice.document()).encode() + b"\n", self._within_s)
        except OSError as error:
            raise RetryLater(f"{self._words[0]} cannot be started now: {error.strerror or error}", AGAIN_S) from None
        if "refused" in done:
            raise GiveUp(f"{self._words[0]} cannot be started: {done['refused']}; check the first word of the route's run")
        if "failed" in done:
            raise RetryLater(f"{self._words[0]} cannot be started now: {done['failed']}", AGAIN_S)
        if "late" in done:
            raise RetryLater(f"{name} was still running after {time_words(self._within_s)} and was ended", AGAIN_S)
        code = int(done["code"])
        if code == 0:
            return f"{name} took it"
        words = f"{name} ended with {code}" if code > 0 else f"{name} was killed by signal {-code}"
        last = _last_line(done["output"])
        reason = f"{words}: {last}" if last else words
        raise RetryLater(reason, AGAIN_S) if code == TEMPORARY else GiveUp(reason)


def problems(settings: CommandRoute) -> Iterator[str]:
    if shutil.which(settings.run[0]) is None:
        yield f"{settings.run[0]}: is no program that can be started; check the first word of run"


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page 'command=PROGRAM WORDS'`"""
    del environ
    try:
        words = tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"cannot be read: {error}; write it as for a shell") from None
    if not words:
        raise ValueError("says not which; write --page 'command=PROGRAM WORDS'")
    return {"run": words}


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return cut(one_line("".join(c if c.isprintable() else " " for c in lines[-1])), WORDS_MAX) if lines else ""
