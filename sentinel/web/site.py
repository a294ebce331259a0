"""The site as one WSGI application: it checks access, finds the route, and sends every answer, errors too, with the same security
headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sentinel.report.following import RunSnapshot
from sentinel.web.access import Access
from sentinel.web.acting import Unattended
from sentinel.web.answers import TEXT, RefusedRequest, Request, Response, read_request, refusal_of
from sentinel.web.route import Served
from sentinel.web.routes import REPORT, find_route
from sentinel.web.runs import Runs
from sentinel.web.static_files import StaticFiles
from sentinel.web.watched import ServedRun

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RenderMetrics = Callable[[Sequence[RunSnapshot]], bytes]


@dataclass(frozen=True, slots=True)
class SiteServices:
    """What other packages do for the site. `exposition`: renders the metrics of runs in Prometheus' text format; None:
    /metrics is 404. `unattended`: answers an operator request about a run that nobody supervises; None: it is refused."""

    exposition: RenderMetrics | None = None
    unattended: Unattended | None = None


NO_SERVICES = SiteServices()


class Site:
    def __init__(
        self, runs: Runs, access: Access, services: SiteServices = NO_SERVICES, files: StaticFiles | None = None
    ) -> None:
        self._access = access
        exposition = services.exposition
        render = None if exposition is None else lambda shown: _metrics_response(exposition, shown)
        self._served = Served(runs, files or StaticFiles(), render, access.can_act, services.unattended)

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            response = self.answer(read_request(environ))
        except RefusedRequest as refused:
            response = refusal_of(refused)
        except Exception as bug:  # noqa: BLE001 - a bug costs one answer; the client gets its type, no traceback
            response = refusal_of(RefusedRequest(500, f"an error of the page itself: {type(bug).__name__}"))
        start_response(response.status_line, response.all_headers())
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [response.body]

    def answer(self, request: Request) -> Response:
        """Raises RefusedRequest."""
        self._access.check_host(request)
        route, words = find_route(request.method, request.parts)
        if route.needs == "reading":
            try:
                self._access.check_reading(request)
            except RefusedRequest as refused:
                if refused.status == 401 and route.path == REPORT and _is_browser_navigation(request):
                    return _redirect_to_page(words["NAME"], request.query.get("began", ""))
                raise
        elif route.needs == "acting":
            self._access.check_acting(request)
        return route.answer(self._served, request, words)


def _is_browser_navigation(request: Request) -> bool:
    """A browser follows a link, from a page for example. It sends no token and displays whatever comes back."""
    return "text/html" in request.header("Accept") and not request.header("Authorization")


def _redirect_to_page(run: str, began: str) -> Response:
    """There a person enters the token, and the page opens the report with it."""
    when = f"&began={began}" if began.isascii() and began.isdecimal() else ""
    return Response(b"", TEXT, 303, (("Location", f"/#run={quote(run, safe='')}{when}"),))


def _metrics_response(exposition: RenderMetrics, runs: Iterable[ServedRun]) -> Response:
    shown = [run.snapshot or RunSnapshot(run.run_dir, trouble=run.trouble) for run in runs]
    return Response(exposition(shown), METRICS_TYPE)
