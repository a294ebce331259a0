"""A program of the operator's own: the page is one JSON document on its standard input, its exit code the answer.

0: delivered. 75 (EX_TEMPFAIL): try again later. Anything else: give up, with the last line it wrote. No shell reads its words.
It starts a process beside the launcher because that is what the route asks for; it has a process group of its own and a
deadline.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

from sentinel.channels.contract import AGAIN_S, CALL_S
from sentinel.channels.notice import Notice
from sentinel.channels.wording import cut, one_line
from sentinel.client.strict_json import dumps
from sentinel.errors import GiveUp, RetryLater
from sentinel.policy.schema_paging import RouteSettings, Words

TEMPORARY = 75
KEPT_BYTES = 4096  # of what it writes, the end
WORDS_MAX = 200
LAST_WORDS_S = 1.0  # for what it wrote to arrive, when somebody it started still holds the pipe


class CommandRoute(RouteSettings):
    """A program of yours; the page is JSON on its standard input."""

    run: Words
    """The program and its arguments; no shell."""


class Command:
    def __init__(self, settings: CommandRoute, within_s: float = CALL_S) -> None:
        self._words = settings.run
        self._within_s = within_s

    def deliver(self, notice: Notice) -> str:
        name = os.path.basename(self._words[0])
        with tempfile.TemporaryFile() as page:  # a file, not a pipe: a program that does not read it must not hang the writer
            page.write(dumps(notice.document()).encode() + b"\n")
            page.seek(0)
            process = self._start(page)
        output = _Output(process)
        try:
            code = process.wait(self._within_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(self._within_s)
            raise RetryLater(f"{name} was still running after {self._within_s:g} s and was ended", AGAIN_S) from None
        if code == 0:
            return f"{name} took it"
        words = f"{name} ended with {code}" if code > 0 else f"{name} was killed by signal {-code}"
        last = output.last_line()
        reason = f"{words}: {last}" if last else words
        raise RetryLater(reason, AGAIN_S) if code == TEMPORARY else GiveUp(reason)

    def _start(self, page: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._words, stdin=page, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise GiveUp(f"{self._words[0]} cannot be started: {reason}; check the first word of the route's run") from None
        except OSError as error:
            raise RetryLater(f"{self._words[0]} cannot be started now: {error.strerror}", AGAIN_S) from None


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


class _Output:
    """The end of what a program writes; the rest is read and forgotten, so that it neither blocks nor fills anything."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._pipe = process.stdout
        self._end = b""
        self._thread = threading.Thread(target=self._drain, name="sentinel-page-command", daemon=True)
        self._thread.start()

    def last_line(self) -> str:
        self._thread.join(LAST_WORDS_S)
        lines = [line for line in self._end.decode("utf-8", "replace").splitlines() if line.strip()]
        return cut(one_line("".join(c if c.isprintable() else " " for c in lines[-1])), WORDS_MAX) if lines else ""

    def _drain(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            while part := self._pipe.read1(65536):  # type: ignore[attr-defined]
                self._end = (self._end + part)[-KEPT_BYTES:]
