"""How a rank exits: the exceptions that carry an exit code of PROTOCOL.md, and the final message of a process."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

PROGRAM = __name__.partition(".")[0]  # as `python -m` starts it: trainer in a checkout, sentinel_trainer out of a wheel
FINISHED, CRASHED, BAD_CONFIG, BAD_DATA, NON_FINITE, STOPPED = 0, 1, 3, 4, 5, 6
INTERRUPTED = 130  # a person's Ctrl-C without a supervisor, as shells count it


class TrainerError(Exception):
    """An end with a meaning of its own; `code` is what the process exits with."""

    code = CRASHED


class ConfigError(TrainerError):
    """Wrong settings: retrying cannot help. The message names the value, the place and the remedy."""

    code = BAD_CONFIG


class DataError(TrainerError):
    """The corpus or every checkpoint is unusable: do not retry without a change."""

    code = BAD_DATA


class NonFiniteError(TrainerError):
    """Too many updates in a row were not finite, or left out as outliers: the parameters cannot recover by waiting."""

    code = NON_FINITE


class SaveError(TrainerError):
    """A checkpoint could not be written; what was committed before is untouched."""


class LeaseLostError(TrainerError):
    """A later attempt holds the run: this one must not write to it any more."""


def is_peer_lost(error: BaseException) -> bool:
    """Whether the error means that another rank went away (gloo and NCCL have no type of their own for it)."""
    text = str(error).lower()
    signs = ("connection closed by peer", "connection reset", "connection refused", "broken pipe", "gloo/transport", "nccl")
    return not isinstance(error, TrainerError) and any(sign in text for sign in signs)


def describe_error(error: BaseException) -> str:
    """The final message of a process, for people. A TrainerError is its own sentence; an unexpected error is a traceback. A rank
    whose peer left prints one line, so that the peer's own message stays visible."""
    if isinstance(error, TrainerError):
        return f"trainer: {error}"
    if isinstance(error, KeyboardInterrupt):
        return "trainer: interrupted; what was committed stays, and --resume continues from it"
    if is_peer_lost(error) and "nccl" not in str(error).lower():  # NCCL says so where it cannot start, too: keep all
        first = str(error).strip().splitlines()[0]
        return f"trainer: another rank left, so this one cannot go on; that one says why ({type(error).__name__}: {first})"
    return "".join(traceback.format_exception(error)).rstrip()


def leave_now(code: int) -> None:
    """Exit without teardown: leaving a process group politely is a collective, and a lost peer would never join it."""
    with contextlib.suppress(OSError):  # a full disk must not turn an exit into a hang
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
