"""The site: one WSGI application. It checks who asks, finds the route, and gives every answer, refusals too, the same guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sentinel.report.following import Sight
from sentinel.web.access import Access
from sentinel.web.acting import Unattended
from sentinel.web.answers import TEXT, Refused, Request, Response, read_request, refusal_of
from sentinel.web.routes import REPORT, Served, find_route
from sentinel.web.runs import Runs
from sentinel.web.static_files import StaticFiles
from sentinel.web.watched import WatchedRun

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Exposed = Callable[[Sequence[Sight]], bytes]


@dataclass(frozen=True, slots=True)
class Given:
    """What other rooms do for the site. `exposition`: the metrics of some runs as Prometheus reads them; None: /metrics is not
    there. `unattended`: answers a wish about a run that nobody supervises; None: it is refused."""

    exposition: Exposed | None = None
    unattended: Unattended | None = None


NOTHING_GIVEN = Given()


class Site:
    def __init__(self, runs: Runs, access: Access, given: Given = NOTHING_GIVEN, files: StaticFiles | None = None) -> None:
        self._access = access
        exposition = given.exposition
        expose = None if exposition is None else lambda found: _expose(exposition, found)
        self._served = Served(runs, files or StaticFiles(), expose, access.can_act, given.unattended)

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            response = self.answer(read_request(environ))
        except Refused as refused:
            response = refusal_of(refused)
        except Exception as bug:  # noqa: BLE001 - a bug costs this answer; what it was is said, where is not
            response = refusal_of(Refused(500, f"an error of the page itself: {type(bug).__name__}"))
        start_response(response.status_line, response.all_headers())
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [response.body]

    def answer(self, request: Request) -> Response:
        """Raises Refused."""
        self._access.check_host(request)
        route, words = find_route(request.method, request.parts)
        if route.needs == "reading":
            try:
                self._access.check_reading(request)
            except Refused as refused:
                if refused.status == 401 and route.path == REPORT and _is_followed(request):
                    return _to_the_page(words["NAME"])
                raise
        elif route.needs == "acting":
            self._access.check_acting(request)
        return route.answer(self._served, request, words)


def _is_followed(request: Request) -> bool:
    """By a browser whose person was given the link in a page: it shows what it gets, and can show no token."""
    return "text/html" in request.header("Accept") and not request.header("Authorization")


def _to_the_page(run: str) -> Response:
    """The page asks for the token, keeps it, and opens the report with it."""
    return Response(b"", TEXT, 303, (("Location", f"/#run={quote(run, safe='')}"),))


def _expose(exposition: Exposed, runs: Iterable[WatchedRun]) -> Response:
    return Response(exposition([run.seen() for run in runs]), METRICS_TYPE)
