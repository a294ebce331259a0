"""What the site answers to: every route with who may use it and what it says. README.md lists the same, and a test compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel.client.run_layout import incident_report_path
from sentinel.curves.registry import metrics_shown_on
from sentinel.web.acting import OF_INCIDENT, OF_RUN, ask_of, fields_of, stop_of
from sentinel.web.answers import REPORT_POLICY, TEXT, RefusedRequest, Request, Response, encode
from sentinel.web.cards import checkpoints_document, log_document, machines_document
from sentinel.web.curves import METRICS_ASKED_MAX, CurveView, MetricChoice, curves_document, metric_names, read_cursor
from sentinel.web.documents import events_document, incidents_document, ledger_document, run_document
from sentinel.web.fleet import order, overview_document, unread_document
from sentinel.web.places import named
from sentinel.web.report_file import read_plain_file
from sentinel.web.route import Answer, HttpRoute, Served, Words, number_of
from sentinel.web.static_files import INDEX
from sentinel.web.watched import ServedRun

WORDS_MAX = 2048  # of a query
BEING_READ = "it is being read; look again in a moment"
REPORT = "/runs/NAME/incidents/N/report"


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
        raise RefusedRequest(404, "this server tells no metrics")
    return served.exposition(served.runs.exposed())


def _runs(served: Served, request: Request, words: Words) -> Response:
    """`run`: the directory of one that is to be among them, for the list has the newest of many alone."""
    del words
    runs = served.runs.all(request.query.get("run", ""))
    rows = [_overview(served, run, has_losses=len(runs) > 1) for run in runs]
    unread = served.runs.beside(runs)
    rows += [unread_document(run.name, run.trouble or BEING_READ) for run in unread]
    runs += unread
    rows = [row | named(run.run_dir, [one.run_dir for one in runs]) for row, run in zip(rows, runs, strict=True)]
    return Response(encode({"runs": order(rows), "can_act": served.can_act, "left_out": served.runs.left_out}))


def _overview(served: Served, run: ServedRun, *, has_losses: bool) -> dict[str, Any]:
    trouble = trouble_of(run, served.runs.is_old(run))
    return overview_document(run.name, run.seen(), run.recent_losses() if has_losses else (), trouble)


def _run(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    is_stale, history = served.runs.is_stale(run), run.history()
    key = ("run", is_stale, history.snapshot.now_s)
    trouble = trouble_of(run, is_stale)
    return Response(run.document(key, lambda: run_document(run.seen(), history.schedule, trouble, run.policy())))


def _incidents(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    return Response(run.document("incidents", lambda: incidents_document(run.seen(), run.policy())))


def _events(served: Served, request: Request, words: Words) -> Response:
    run, since = served.runs.find(words["NAME"]), request.query.get("since", "0")
    if not (since.isascii() and since.isdecimal()) or len(since) > 18:
        raise RefusedRequest(400, "since: is not the number of an event")
    now = run.seen()
    return Response(run.document(("events", since), lambda: events_document(run.entries(int(since)), now.state, now.seq)))


def _curves(served: Served, request: Request, words: Words) -> Response:
    run = served.runs.find(words["NAME"])
    names = tuple(name for name in request.query.get("metrics", "").split(",") if name)
    if not 0 < len(names) <= METRICS_ASKED_MAX:
        raise RefusedRequest(
            400, f"metrics: name one to {METRICS_ASKED_MAX}, separated by commas, as in metrics=loss,activation_norm/"
        )
    since, snapshot, view = request.query.get("since", ""), run.seen(), _view(request.query)

    def build() -> object:
        tokens = {"tokens_per_step": run.tokens_per_step()}
        with run.drawings() as (drawn, stamp):
            choice, cursor = MetricChoice(names), read_cursor(since)
            return curves_document(drawn, snapshot.state, snapshot.step, choice, cursor, stamp, view) | tokens

    return Response(run.document(("curves", names, since, view), build))


def _view(query: Mapping[str, str]) -> CurveView:
    """Raises RefusedRequest."""
    steps = {name: float(_step(name, query[name])) for name in ("first", "last") if name in query}
    return CurveView(**steps, is_log=query.get("scale") == "log")


def _step(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise RefusedRequest(400, f"{name}: is not a step; send a whole number")
    return int(text)


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


def _machines(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    return Response(run.document("machines", lambda: machines_document(run.seen(), run.ranks())))


def _checkpoints(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    return Response(run.document("checkpoints", lambda: checkpoints_document(run.seen())))


def _log(served: Served, request: Request, words: Words) -> Response:
    del request
    run = served.runs.find(words["NAME"])
    return Response(run.document("log", lambda: log_document(run.seen())))


def _report(served: Served, request: Request, words: Words) -> Response:
    """The file as it lies there, and nothing that a link in its place leads to. `began`, in the link of a page, tells the run
    from others whose directories have its name."""
    began = _step("began", request.query["began"]) if "began" in request.query else None
    run = served.runs.find(words["NAME"]) if began is None else served.runs.find_one(words["NAME"], began)
    path = incident_report_path(run.run_dir, number_of(words))
    return Response(read_plain_file(path), "text/html; charset=utf-8", policy=REPORT_POLICY)


def _ask_of_incident(verb: str) -> Answer:
    def answer(served: Served, request: Request, words: Words) -> Response:
        run, number = served.runs.find(words["NAME"]), number_of(words)
        wanted = OF_INCIDENT[verb](number, fields_of(request.body))
        if all(incident.id != number for incident in run.seen().state.incidents):
            raise RefusedRequest(404, f"{words['NAME']}: there is no incident {number}")
        return ask_of(run, wanted, request, served.unattended)

    return answer


def _pressed_in_slack(served: Served, request: Request, words: Words) -> Response:
    del words
    return served.slack.answer(served.runs, served.unattended, request)


def _ask_of_run(verb: str) -> Answer:
    def answer(served: Served, request: Request, words: Words) -> Response:
        run = served.runs.find(words["NAME"])
        run.seen()
        return ask_of(run, OF_RUN[verb](fields_of(request.body)), request, served.unattended)

    return answer


def _stop(served: Served, request: Request, words: Words) -> Response:
    fields_of(request.body)
    run = served.runs.find(words["NAME"])
    run.seen()
    return stop_of(run, request)


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
    HttpRoute("GET", "/api/runs/NAME/machines", "reading", _machines),
    HttpRoute("GET", "/api/runs/NAME/checkpoints", "reading", _checkpoints),
    HttpRoute("GET", "/api/runs/NAME/log", "reading", _log),
    HttpRoute("GET", REPORT, "reading", _report),
    *(HttpRoute("POST", f"/api/runs/NAME/incidents/N/{verb}", "acting", _ask_of_incident(verb)) for verb in OF_INCIDENT),
    *(HttpRoute("POST", f"/api/runs/NAME/{verb}", "acting", _ask_of_run(verb)) for verb in OF_RUN),
    HttpRoute("POST", "/api/runs/NAME/stop", "acting", _stop),
    HttpRoute("POST", "/slack/actions", "signature", _pressed_in_slack),
)


def find_route(method: str, parts: tuple[str, ...]) -> tuple[HttpRoute, dict[str, str]]:
    """Raises RefusedRequest: 404 for a path nobody knows, 405 for another method than its own."""
    found = [(route, words) for route in ROUTES if (words := route.match(parts)) is not None]
    if not found:
        raise RefusedRequest(404, "there is no such page")
    wanted = "GET" if method == "HEAD" else method
    for route, words in found:
        if route.method == wanted:
            return route, words
    allowed = "GET, HEAD" if found[0][0].method == "GET" else "POST"
    raise RefusedRequest(405, f"this page knows {allowed} only", Allow=allowed)


def trouble_of(run: ServedRun, is_stale: bool) -> str:
    """Why what is shown of the run is older than it should be."""
    snapshot = run.seen()
    words = "the run directory has not answered for a while; a disk may hang" if is_stale else ""
    return "; ".join(part for part in (snapshot.trouble, words) if part)
