"""One question to a scheduler's own command, with a deadline, in a session of its own. The answer is judged elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

REPLY_BYTES_MAX = 1 << 24
REASON_CHARS_MAX = 300
FLOOD_BYTES = 1 << 26  # a command that prints more is ended: what it prints goes to a disk that others need
LEAVE_S = 2.0  # for a command that has been asked to leave
_POLL_S = 0.02

Beside = Callable[[Callable[[], None]], None]


def in_a_thread(work: Callable[[], None]) -> None:
    """A question has a deadline, so that the thread ends; one that is under way does not hold up the end of the process."""
    threading.Thread(target=work, name="asking", daemon=True).start()


@dataclass(frozen=True, slots=True)
class Reply:
    """What one command answered. `status` None: it did not end in time. `is_cut`: it said more than was read."""

    status: int | None
    output: str = ""
    errors: str = ""
    is_cut: bool = False

    @property
    def trouble(self) -> str:
        """Why it is no answer; empty where it is one."""
        words = " ".join(self.errors.split())[:REASON_CHARS_MAX] or "no output"
        if self.status is None:
            return f"it did not end in time: {words}"
        if self.status != 0:
            return f"it ended with {self.status}: {words}"
        if "error:" in self.errors:  # squeue leaves with 0 where it could not do all that it was asked
            return f"it ended with 0, and with an error: {words}"
        return "it said more than was read" if self.is_cut else ""


@dataclass(frozen=True, slots=True)
class AskLimits:
    """How long, in seconds. `is_whole`: ends the wait before the command does, by what it has printed. `bytes_max`: is read.
    `ends_all`: what the command has left in its session by its end is ended, too."""

    timeout_s: float
    is_whole: Callable[[str], bool] | None = None
    bytes_max: int | None = None
    ends_all: bool = False


def ask(words: Sequence[str], environment: Mapping[str, str], limits: AskLimits, input_bytes: bytes = b"") -> Reply:
    """Never raises, ends by its deadline. `input_bytes`: what the command reads."""
    limit = REPLY_BYTES_MAX if limits.bytes_max is None else limits.bytes_max
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        given.write(input_bytes)
        given.seek(0)
        try:
            asked = subprocess.Popen(
                words, env=dict(environment), stdin=given, stdout=output, stderr=errors, start_new_session=True
            )
        except OSError as error:
            return Reply(127, "", f"{words[0]} cannot be run: {error}")
        deadline_s, is_whole = time.monotonic() + limits.timeout_s, limits.is_whole
        while (status := asked.poll()) is None and time.monotonic() < deadline_s:
            if is_whole is not None and is_whole(_read(output, limit)[0]):
                deadline_s = min(deadline_s, time.monotonic() + LEAVE_S)
                is_whole = None
            with suppress(subprocess.TimeoutExpired):
                asked.wait(_POLL_S)
            if is_flood(output) or is_flood(errors):
                _end(asked)
        if status is None:
            _end(asked)
        if limits.ends_all:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(asked.pid, signal.SIGKILL)
        text, is_cut = _read(output, limit)
        return Reply(status, text, _read(errors, limit)[0], is_cut)


def is_flood(file: IO[bytes]) -> bool:
    """Of what a command prints there."""
    return os.fstat(file.fileno()).st_size > FLOOD_BYTES


def without(environment: Mapping[str, str], withheld: frozenset[str], prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment, less those variables, and less all that begin so."""
    return {name: value for name, value in environment.items() if name not in withheld and not name.startswith(prefixes or "\0")}


def _end(asked: subprocess.Popen[bytes]) -> None:
    """By SIGTERM, upon which srun ends its step; by SIGKILL where that is not enough."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(asked.pid, number)
        with suppress(subprocess.TimeoutExpired):
            asked.wait(LEAVE_S)
            return


def _read(file: IO[bytes], limit: int) -> tuple[str, bool]:
    data = os.pread(file.fileno(), limit + 1, 0)
    return data[:limit].decode("utf-8", "replace"), len(data) > limit
