"""What the site answers to: every route with who may use it and what it says. README.md lists the same, and a test compares."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from sentinel.client.run_layout import incident_report_path
from sentinel.curves.registry import metrics_shown_on
from sentinel.web.acting import OF_INCIDENT, OF_RUN, Unattended, ask_of
from sentinel.web.answers import REPORT_POLICY, TEXT, Refused, Request, Response, encode
from sentinel.web.curves import METRICS_ASKED_MAX, MetricChoice, curves_document, metric_names, read_cursor
from sentinel.web.documents import events_document, incidents_document, ledger_document, run_document
from sentinel.web.fleet import order, overview_document
from sentinel.web.runs import Runs
from sentinel.web.slack import SlackDoor
from sentinel.web.static_files import INDEX, StaticFiles
from sentinel.web.watched import ServedRun

REPORT_BYTES_MAX = 16 << 20
WORDS_MAX = 2048  # of a query
REPORT = "/runs/NAME/incidents/N/report"
Exposition = Callable[[list[ServedRun]], Response]


@dataclass(frozen=True, slots=True)
class Served:
    """What answers are made of."""

    runs: Runs
    files: StaticFiles
    exposition: Exposition | None
    can_act: bool
    unattended: Unattended | None = None
    slack: SlackDoor = field(default_factory=SlackDoor)


Words = Mapping[str, str]  # the parts of the path that stand for something, by their name in the route
Answer = Callable[[Served, Request, Words], Response]


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """`path`: a part in capitals stands for anything; FILE at its end for all that follows. `needs`: nothing, what reading
    needs (on a loopback address nothing), what acting needs, or a signature, which the answer verifies itself."""

    method: Literal["GET", "POST"]
    path: str
    needs: Literal["nothing", "reading", "acting", "signature"]
    answer: Answer

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        wanted = tuple(self.path[1:].split("/")) if self.path != "/" else ()
        if wanted[-1:] == ("FILE",) and len(parts) >= len(wanted):
            parts = (*parts[: len(wanted) - 1], "/".join(parts[len(wanted) - 1 :]))
        if len(parts) != len(wanted) or any(a != b for a, b in zip(wanted, parts, strict=True) if not a.isupper()):
            return None
        return {a: b for a, b in zip(wanted, parts, strict=True) if a.isupper()}


def _index(served: Served, request: Request, words: Words) -> Response:
    del request, words
    return served.files.answer(INDEX)


def _file(served: Served, request: Request, words: Words) -> Response:
    del request
    return served.files.answer(words["FILE"])


def _health(served: Served, request: Request, words: Words) -> Response:
    del served, request, words
    return Response(b"ok\n", TEXT)


def _metrics_of_runs(served: Served, request: Request, words: Words) -> Response:
    del request, words
    if served.exposition is None:
        raise Refused(404, "this server tells no metrics")
    return served.exposition(served.runs.exposed())


def _runs(served: Served, request: Request, words: Words) -> Response:
    del request, words
    runs = served.runs.all()
    rows = [overview_document(run.name, run.seen(), run.recent_losses() if len(runs) > 1 else ()) for run in runs]
    return Response(encode({"runs": order(rows), "can_act": served.can_act}))


def _run(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    is_stale, history = served.runs.is_stale(run), run.history()
    key = ("run", is_stale, history.snapshot.now_s)
    return Response(run.document(key, lambda: run_document(run.seen(), history.schedule, trouble_of(run, is_stale))))


def _incidents(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    return Response(run.document("incidents", lambda: incidents_document(run.seen())))


def _events(served: Served, request: Request, words: Words) -> Response:
    run, since = served.runs.find(words["NAME"]), request.query.get("since", "0")
    if not (since.isascii() and since.isdecimal()) or len(since) > 18:
        raise Refused(400, "since: is not the number of an event")
    now = run.seen()
    return Response(run.document(("events", since), lambda: events_document(run.entries(int(since)), now.state, now.seq)))


def _curves(served: Served, request: Request, words: Words) -> Response:
    run = served.runs.find(words["NAME"])
    names = tuple(name for name in request.query.get("metrics", "").split(",") if name)
    if not 0 < len(names) <= METRICS_ASKED_MAX:
        raise Refused(400, f"metrics: name one to {METRICS_ASKED_MAX}, separated by commas, as in metrics=loss,activation_norm/")
    since, snapshot = request.query.get("since", ""), run.seen()

    def build() -> object:
        with run.drawings() as (drawn, stamp):
            return curves_document(drawn, snapshot.state, snapshot.step, MetricChoice(names), read_cursor(since), stamp)

    return Response(run.document(("curves", names, since), build))


def _metric_names(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    run.seen()
    with run.drawings() as (drawn, _):
        return Response(encode({"metrics": metric_names(drawn.values())}))


def _shown_curves(served: Served, request: Request, words: Words) -> Response:
    """Which curves a page shows until somebody chooses others; in order, families with a slash at their end."""
    del served, request, words
    return Response(encode({"shown": metrics_shown_on("page")}))


def _lineage(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    history = run.history()
    return Response(run.document(("lineage", history.snapshot.now_s), lambda: history.lineage))


def _ledger(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    return Response(run.document("ledger", lambda: ledger_document(run.seen())))


def _report(served: Served, request: Request, words: Words) -> Response:
    """The file as it lies there, and nothing that a link in its place leads to."""
    del request
    path = incident_report_path(served.runs.find(words["NAME"]).run_dir, number_of(words))
    return Response(read_plain_file(path), "text/html; charset=utf-8", policy=REPORT_POLICY)


def _ask_of_incident(verb: str) -> Answer:
    def answer(served: Served, request: Request, words: Words) -> Response:
        run, number = served.runs.find(words["NAME"]), number_of(words)
        if all(incident.id != number for incident in run.seen().state.incidents):
            raise Refused(404, f"{words['NAME']}: there is no incident {number}")
        return ask_of(run, OF_INCIDENT[verb](number), request, served.unattended)

    return answer


def _pressed_in_slack(served: Served, request: Request, words: Words) -> Response:
    del words
    return served.slack.answer(served.runs, served.unattended, request)


def _ask_of_run(verb: str) -> Answer:
    def answer(served: Served, request: Request, words: Words) -> Response:
        run = served.runs.find(words["NAME"])
        run.seen()
        return ask_of(run, OF_RUN[verb](), request, served.unattended)

    return answer


ROUTES = (
    HttpRoute("GET", "/", "nothing", _index),
    HttpRoute("GET", "/static/FILE", "nothing", _file),
    HttpRoute("GET", "/healthz", "nothing", _health),
    HttpRoute("GET", "/metrics", "reading", _metrics_of_runs),
    HttpRoute("GET", "/api/curves", "reading", _shown_curves),
    HttpRoute("GET", "/api/runs", "reading", _runs),
    HttpRoute("GET", "/api/runs/NAME", "reading", _run),
    HttpRoute("GET", "/api/runs/NAME/incidents", "reading", _incidents),
    HttpRoute("GET", "/api/runs/NAME/events", "reading", _events),
    HttpRoute("GET", "/api/runs/NAME/curves", "reading", _curves),
    HttpRoute("GET", "/api/runs/NAME/metrics", "reading", _metric_names),
    HttpRoute("GET", "/api/runs/NAME/lineage", "reading", _lineage),
    HttpRoute("GET", "/api/runs/NAME/ledger", "reading", _ledger),
    HttpRoute("GET", REPORT, "reading", _report),
    *(HttpRoute("POST", f"/api/runs/NAME/incidents/N/{verb}", "acting", _ask_of_incident(verb)) for verb in OF_INCIDENT),
    *(HttpRoute("POST", f"/api/runs/NAME/{verb}", "acting", _ask_of_run(verb)) for verb in OF_RUN),
    HttpRoute("POST", "/slack/actions", "signature", _pressed_in_slack),
)


def find_route(method: str, parts: tuple[str, ...]) -> tuple[HttpRoute, dict[str, str]]:
    """Raises Refused: 404 for a path nobody knows, 405 for another method than its own."""
    found = [(route, words) for route in ROUTES if (words := route.match(parts)) is not None]
    if not found:
        raise Refused(404, "there is no such page")
    wanted = "GET" if method == "HEAD" else method
    for route, words in found:
        if route.method == wanted:
            return route, words
    allowed = "GET, HEAD" if found[0][0].method == "GET" else "POST"
    raise Refused(405, f"this page knows {allowed} only", Allow=allowed)


def trouble_of(run: ServedRun, is_stale: bool) -> str:
    """Why what is shown of the run is older than it should be."""
    snapshot = run.seen()
    words = "the run directory has not answered for a while; a disk may hang" if is_stale else ""
    return "; ".join(part for part in (snapshot.trouble, words) if part)


def number_of(words: Words) -> int:
    text = words["N"]
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise Refused(404, "an incident has a number")
    return int(text)


def read_plain_file(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        _no_report()
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > REPORT_BYTES_MAX:
            _no_report()
        return file.read(REPORT_BYTES_MAX)


def _no_report() -> NoReturn:
    raise Refused(404, "there is no report of this incident yet; it is written when the incident ends")
