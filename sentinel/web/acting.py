"""What a person asks from the page: a request put into the run's inbox, as every command does, and the supervisor's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sentinel.client.strict_json import loads, printable
from sentinel.errors import JournalError, RetryLater, UsageError
from sentinel.model import operator_requests as w
from sentinel.operator.answers import Answered, await_answer, check_supervised, post_request
from sentinel.web.answers import Refused, Request, Response, encode
from sentinel.web.watched import ServedRun

ANSWER_S = 5.0  # a supervisor looks at least once a second
WHO_CHARS_MAX = 64
OF_INCIDENT: Mapping[str, Callable[[int], w.OperatorRequest]] = {
    "acknowledge": w.Acknowledge,
    "resolve": w.Resolve,
    "approve": w.Approve,
    "deny": w.Deny,
}
OF_RUN: Mapping[str, Callable[[], w.OperatorRequest]] = {"pause": w.PauseRun, "resume": w.ResumeRun}


Unattended = Callable[[Path, str, w.OperatorRequest], Answered]
"""Answers what may be answered of a run that nobody supervises. Takes the run, who asks, the request. Raises UsageError."""


def ask_of(
    run: ServedRun, operator_request: w.OperatorRequest, request: Request, unattended: Unattended | None = None
) -> Response:
    """200 with the answer; 202 when there is none yet, and the request stays open. Raises Refused."""
    check_body(request.body)
    try:
        answer = ask(run, operator_request, who_of(request), unattended)
    except JournalError as error:
        return _unanswered(f"it was asked, and the answer cannot be read: {error}")
    if answer is None:
        return _unanswered("it was asked, and is not answered yet; the answer will stand among the events")
    return _answered(answer)


def ask(run: ServedRun, operator_request: w.OperatorRequest, who: str, unattended: Unattended | None) -> Answered | None:
    """The supervisor's answer; None where none came in time. Raises Refused where nobody could be asked, JournalError where the
    answer cannot be read."""
    try:
        if unattended is not None and run.seen().supervisor == "gone":
            return unattended(run.run_dir, who, operator_request)
        check_supervised(run.run_dir)
        number = post_request(run.run_dir, who, operator_request)
    except (UsageError, JournalError, RetryLater) as error:
        raise Refused(409, str(error)) from None
    return await_answer(run.run_dir, number, ANSWER_S, run.seen().seq)


def check_body(body: bytes) -> None:
    """Nothing in it means anything yet; what is not an object was sent by mistake. Raises Refused."""
    try:
        fields: Any = loads(body) if body.strip() else {}
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise Refused(400, "the body is not a JSON object; send {}")


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
