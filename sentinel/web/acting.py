"""What a person asks from the page: a request put into the run's inbox, as every command does, and the supervisor's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sentinel.client.strict_json import loads, printable
from sentinel.errors import JournalError, RetryLater, UsageError
from sentinel.model import operator_requests as w
from sentinel.operator.answers import Answered, await_answer, check_supervised, post_request
from sentinel.operator.stopping import ask_to_stop, supervisor_here
from sentinel.web.answers import RefusedRequest, Request, Response, encode
from sentinel.web.watched import ServedRun

ANSWER_S = 5.0  # a supervisor looks at least once a second
WHO_CHARS_MAX = 64
Fields = Mapping[str, Any]
"""The body of a request."""

STEP_MAX = 1 << 53
RUNG_MAX = 1 << 20


def _rung(fields: Fields) -> int | None:
    """Of which a person was told when they answered: meanwhile another may wait."""
    rung = fields.get("rung")
    if rung is not None and (type(rung) is not int or not 0 <= rung < RUNG_MAX):
        raise RefusedRequest(400, 'rung: is not the index of a rung; send {"rung": 0} for the first, or {} for whichever waits')
    return rung


OF_INCIDENT: Mapping[str, Callable[[int, Fields], w.OperatorRequest]] = {
    "acknowledge": lambda number, _: w.Acknowledge(number),
    "resolve": lambda number, _: w.Resolve(number),
    "approve": lambda number, fields: w.Approve(number, _rung(fields)),
    "deny": lambda number, fields: w.Deny(number, _rung(fields)),
}


def _roll_back(fields: Fields) -> w.OperatorRequest:
    step = fields.get("to_step")
    if type(step) is not int or not 0 <= step < STEP_MAX:
        raise RefusedRequest(400, 'to_step: is not a step; send {"to_step": 400} for the newest good checkpoint at or below it')
    return w.RollBack(step)


OF_RUN: Mapping[str, Callable[[Fields], w.OperatorRequest]] = {
    "pause": lambda _: w.PauseRun(),
    "resume": lambda _: w.ResumeRun(),
    "hold": lambda _: w.HoldRun(),
    "rollback": _roll_back,
}


Unattended = Callable[[Path, str, w.OperatorRequest], Answered]
"""Answers what may be answered of a run that nobody supervises. Takes the run, who asks, the request. Raises UsageError."""


def ask_of(
    run: ServedRun, operator_request: w.OperatorRequest, request: Request, unattended: Unattended | None = None
) -> Response:
    """200 with the answer; 202 when there is none yet, and the request stays open. Raises RefusedRequest."""
    try:
        answer = ask(run, operator_request, who_of(request), unattended)
    except JournalError as error:
        return _unanswered(f"it was asked, and the answer cannot be read: {error}")
    if answer is None:
        return _unanswered("it was asked, and is not answered yet; the answer will stand among the events")
    return _answered(answer)


STOP_ASKED = "asked from the page to stop the run after a checkpoint"


def stop_of(run: ServedRun, request: Request) -> Response:
    """202: the supervisor was asked to stop after a checkpoint, as `sentinel stop` asks it. A signal does not say who sends it,
    so that is written down before. Raises RefusedRequest."""
    try:
        holder = supervisor_here(run.run_dir)
        if holder is None:
            raise RefusedRequest(
                409, f"nobody supervises the run, so nobody can be asked; in a terminal: sentinel stop {run.run_dir}"
            )
        number = post_request(run.run_dir, who_of(request), w.Remark(STOP_ASKED))
        with suppress(JournalError):
            await_answer(run.run_dir, number, ANSWER_S, run.seen().seq)
        ask_to_stop(run.run_dir, holder)
    except (UsageError, RetryLater) as error:
        raise RefusedRequest(409, str(error)) from None
    return _unanswered("it stops after a checkpoint, and its supervisor leaves; the events show how far it is")


def ask(run: ServedRun, operator_request: w.OperatorRequest, who: str, unattended: Unattended | None) -> Answered | None:
    """The supervisor's answer; None where none came in time. Raises RefusedRequest where nobody could be asked, JournalError
    where the answer cannot be read."""
    try:
        if unattended is not None and run.seen().supervisor == "gone":
            return unattended(run.run_dir, who, operator_request)
        check_supervised(run.run_dir)
        number = post_request(run.run_dir, who, operator_request)
    except (UsageError, JournalError, RetryLater) as error:
        raise RefusedRequest(409, str(error)) from None
    return await_answer(run.run_dir, number, ANSWER_S, run.seen().seq)


def fields_of(body: bytes) -> Fields:
    """An empty body has none. What is not an object was sent by mistake. Raises RefusedRequest."""
    try:
        fields: Any = loads(body) if body.strip() else {}
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise RefusedRequest(400, "the body is not a JSON object; send {}")
    return fields


def who_of(request: Request) -> str:
    """As it stands in the journal: the name that was given, if any, and always from where."""
    place = f"browser at {request.peer}"
    raw = request.header("X-Sentinel-Who").encode("latin-1", "replace").decode("utf-8", "replace")
    name = " ".join("".join(c if c.isprintable() else " " for c in raw).split())[:WHO_CHARS_MAX]
    return f"{name} ({place})" if name else place


def _answered(answer: Answered) -> Response:
    return Response(encode({"granted": answer.granted, "words": printable(answer.words)}))


def _unanswered(words: str) -> Response:
    return Response(encode({"granted": None, "words": words}), status=202)
