"""What the operator's commands do: ask the supervisor of a run and wait for its answer; what they type, read and checked."""

from __future__ import annotations

import getpass
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sentinel.client.settings import BY_WORD
from sentinel.clock import SystemClock
from sentinel.errors import AlreadySupervised, RetryLater, UsageError
from sentinel.journal.answering import is_being_answered
from sentinel.model.amounts import time_words
from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.operator_requests import OperatorRequest
from sentinel.operator.answers import POLL_S, Answered, await_answer, check_supervised, is_supervised, post_request
from sentinel.operator.unattended import ANSWERS, SEND_S, answer_unattended
from sentinel.plan.overrides import with_rung
from sentinel.policy.schema import Rung
from sentinel.policy.schema_problems import validate_rung
from sentinel.telemetry.inbox import withdraw

PAGE_SEND_S = 5.0  # somebody holds a phone and waits; the rest is sent by whoever starts the run again
LAST_LOOK_S = 1.0
ANSWER_S = 30.0  # a supervisor looks at least once a second; on a busy shared filesystem it may take longer
AS_CONFIGURED = "configured"


def ask(run_dir: Path, request: OperatorRequest, timeout_s: float = ANSWER_S) -> Answered:
    """Post the request and wait for the supervisor's answer. What answers a page is answered without a supervisor, too.

    Raises:
        UsageError: not the directory of a run, or nobody supervises it and could do this.
        RetryLater: no answer within `timeout_s`; the request was taken back, unless the supervisor had read it.
    """
    by = f"{getpass.getuser()}@{socket.gethostname()}"
    if isinstance(request, ANSWERS):
        _let_answer(run_dir)
        if not is_supervised(run_dir):
            with suppress(AlreadySupervised):  # somebody has come between two looks: asked as usual
                return ask_unattended(run_dir, by, request, SEND_S)
    check_supervised(run_dir)
    number = post_request(run_dir, by, request)
    answer = await_answer(run_dir, number, timeout_s)
    if answer is not None:
        return answer
    was_there = withdraw(run_dir, number)
    answer = await_answer(run_dir, number, LAST_LOOK_S)  # it may have read the request just before
    if answer is not None:
        return answer
    rest = "the request was taken back" if was_there else "it has read the request; `sentinel events` shows whether it acts on it"
    raise RetryLater(f"{run_dir}: the supervisor has not answered within {time_words(timeout_s)}; {rest}", timeout_s)


def _let_answer(run_dir: Path) -> None:
    """Somebody else answers a page of the run, and so holds it, for some seconds: they look into no inbox."""
    clock, never = SystemClock(), threading.Event()
    end_s = clock.now_s() + ANSWER_S
    while is_being_answered(run_dir) and clock.now_s() < end_s:
        clock.wait(never, POLL_S)


def ask_unattended(run_dir: Path, by: str, request: OperatorRequest, within_s: float = PAGE_SEND_S) -> Answered:
    """Of a run that nobody supervises. Raises UsageError for what only a supervisor can do, and as `answer_unattended` does."""
    if not isinstance(request, ANSWERS):
        check_supervised(run_dir)
    answer = answer_unattended(run_dir, by, request, within_s)
    return Answered(answer.granted, answer.answer)


def read_range(text: str) -> SampleRange:
    """`51200-53760`, half open. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d{1,18})\s*-\s*(\d{1,18})\s*", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise UsageError(f"{text}: is not a range of sample indices; write first-end, as in 51200-53760 (the end is not skipped)")
    return SampleRange(int(match[1]), int(match[2]))


def read_settings(words: Sequence[str], live: bool) -> tuple[SettingsInForce, tuple[str, ...], int | None]:
    """`lr=0.5x clip_norm=0.3 until='2000 steps'` in the policy's own words; `lr=configured` gives the schedule back.

    Returns the settings, their keys, and `until` in steps. Raises UsageError with the word, what is wrong, and what to write.
    """
    given: dict[str, object] = {}
    back: list[str] = []
    known = (*(name for name, row in BY_WORD.items() if not live or row.changes == "live"), *(("until",) if live else ()))
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or key not in (*BY_WORD, "until"):
            raise UsageError(f"{word}: is no setting; write KEY=VALUE with one of: {', '.join(known)}")
        if key in given or key in back:
            raise UsageError(f"{word}: {key} is given twice; give it once")
        if live and key != "until" and BY_WORD[key].changes != "live":
            _checked({key: _plain(value)})  # what is no value is none after a rollback either
            raise UsageError(f"{word}: takes effect only at a relaunch; use `sentinel rollback --to STEP --set {word}`")
        if value == AS_CONFIGURED and key != "until":
            back.append(key)
        else:
            given[key] = _plain(value)
    if not back and not set(given) - {"until"}:
        raise UsageError("no setting is named; write KEY=VALUE, as in lr=0.5x")
    if "until" in given:
        _check_until(given)
    overrides, until = SettingsInForce(), None
    if given.keys() - {"until"}:
        rung = _checked(given)
        overrides, until = with_rung(overrides, rung, 0, None, ()), rung.until_steps
    return overrides, tuple(BY_WORD[key].key for key in (*(k for k in given if k != "until"), *back)), until


def _check_until(given: Mapping[str, object]) -> None:
    """Raises UsageError where nothing that is given could lapse then."""
    words = [word for word in given if word != "until"]
    if not words:
        raise UsageError("until: a setting that is given back has no end; leave until out")
    if not any(BY_WORD[word].lapses for word in words):
        raise UsageError(f"until: {', '.join(words)} is done once and does not lapse; leave until out")


def _checked(given: dict[str, object]) -> Rung:
    rung, problems = validate_rung(given)
    if rung is None:
        raise UsageError(
            "; ".join(f"{p.path}: {p.message}; {p.remedy}" if p.remedy else f"{p.path}: {p.message}" for p in problems)
        )
    return rung


def _plain(value: str) -> object:
    """A number where it is one, a list for betas, else the text (`0.5x`, `2000 steps`, `bf16`)."""
    text = value.strip()
    if text in ("true", "false"):
        return text == "true"
    if "," in text:
        return [_plain(part) for part in text.strip("[]").split(",")]
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text
