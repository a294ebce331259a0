"""The page's files and a simulated run behind the API, on loopback: for tests of the page alone. It notes what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from sentinel.curves.registry import metrics_shown_on
from tests.unit.web_page.simulated_run import SimulatedRun

PAGE = Path(__file__).resolve().parents[3] / "sentinel" / "web" / "page"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
TOKEN = "open-sesame"


class PageServer:
    """`runs` by name. `broken`: path endings that are answered with 500. `silent`: connections are cut. `asked`: verbs that were
    granted, with the name given."""

    def __init__(self) -> None:
        self.reset()
        self.can_act = True
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def reset(self) -> SimulatedRun:
        """One run, and nothing wrong."""
        run = SimulatedRun()
        self.runs = {run.name: run}
        self.can_act, self.needs_token = True, False
        self.broken: set[str] = set()
        self.silent = False
        self.asked: list[tuple[str, str]] = []
        self.fields: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.gate = threading.Event()  # POSTs wait for it
        self.gate.set()
        return run

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def get(self, parts: list[str], query: dict[str, list[str]]) -> Any:
        if parts == ["curves"]:
            return {"shown": metrics_shown_on("page")}
        if parts == ["runs"]:
            rows = sorted(map(_overview, self.runs.values()), key=lambda row: (row["urgency"], row["name"]))
            return {"runs": rows, "can_act": self.can_act}
        run = self.runs.get(parts[1])
        if run is None:
            return None
        since = query.get("since", [""])[0]
        answers: dict[str, Callable[[], Any]] = {
            "": run.status,
            "incidents": run.told_incidents,
            "events": lambda: {"seq": run.seq, "events": [e for e in run.events if e["seq"] > int(since or 0)][-500:]},
            "curves": lambda: run.curves(query.get("metrics", [""])[0].split(","), since, _view(query)),
            "metrics": lambda: {"metrics": run.names},
            "lineage": run.lineage,
            "ledger": run.ledger,
            "machines": run.machines,
            "checkpoints": run.checkpoints,
            "log": run.log,
        }
        return answers[parts[2] if len(parts) > 2 else ""]()

    def post(self, parts: list[str], who: str, fields: dict[str, Any]) -> dict[str, Any]:
        run = self.runs[parts[1]]
        verb = parts[-1]
        self.gate.wait(20)
        self.asked.append(("/".join(parts[2:]), who))
        self.fields.append(fields)
        if verb == "acknowledge":
            next(i for i in run.incidents if i["id"] == int(parts[3]))["acknowledged_by"] = who or "browser at 127.0.0.1"
        if verb in ("pause", "resume"):
            run.state = "paused" if verb == "pause" else "training"
        run.tell(f"{who or 'browser'} asked to {verb}: granted", "warn")
        return {"granted": True, "words": f"{verb}: noted"}


def _view(query: dict[str, list[str]]) -> tuple[float, float, bool]:
    first, last = float(query.get("first", ["-inf"])[0]), float(query.get("last", ["inf"])[0])
    return first, last, query.get("scale") == ["log"]


def _overview(run: SimulatedRun) -> dict[str, Any]:
    status = run.status()
    keys = ("state", "step", "total_steps", "goodput", "supervisor")
    opened = sum(i["state"] in ("open", "probation") for i in run.incidents)
    incident = next((i for i in reversed(run.incidents) if i["state"] in ("open", "probation")), None)
    worst = incident and {key: incident[key] for key in ("id", "kind", "onset_step", "reason", "acknowledged_by")}
    if worst:
        worst |= {"called": ["phone"], "awaits_approval": incident["awaits_approval"] is not None}
    row = {"name": run.name, "open_incidents": opened, "paged": bool(status["pages"]), "incident": worst, "reason": ""}
    loss = [2.0 + step / 100 for step in range(20)]
    row |= {"began": run.began, "directory": run.directory or run.name, "place": run.place, "unwatched": run.unwatched}
    return row | {"urgency": 0 if status["pages"] else 4, "loss": loss} | {key: status[key] for key in keys}


def _handler_of(site: PageServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            site.paths.append(split.path)
            parts = [unquote(part) for part in split.path[1:].split("/")]
            if site.silent:
                self.close_connection = True
            elif parts[0] == "api":
                self._answer_api(parts[1:], parse_qs(split.query))
            elif parts[0] == "runs" and site.needs_token and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._send_json(401, {"error": "reading from here needs the token"})
            elif parts[0] == "runs":
                self._send(200, b"<!doctype html><title>report</title>", "text/html")
            else:
                self._send_file("/".join(parts[1:]) if parts[0] == "static" else "index.html")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._send_json(401, {"error": "the token is missing or is another one"})
                return
            parts = [unquote(part) for part in self.path[1:].split("/")]
            who = self.headers.get("X-Sentinel-Who", "").encode("latin-1").decode()  # UTF-8 in a header
            self._send_json(200, site.post(parts[1:], who, json.loads(body)))

        def _answer_api(self, parts: list[str], query: dict[str, list[str]]) -> None:
            if site.needs_token and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._send_json(401, {"error": "reading from here needs the token"})
                return
            if parts[-1] in site.broken:
                self._send_json(500, {"error": f"{parts[-1]} could not be read: <b>disk</b>"})
                return
            found = site.get(parts, query)
            self._send_json(404 if found is None else 200, {"error": "no such run"} if found is None else found)

        def _send_json(self, status: int, document: Any) -> None:
            self._send(status, json.dumps(document).encode(), "application/json")

        def _send_file(self, name: str) -> None:
            path = PAGE / name
            self._send(200, path.read_bytes(), TYPES[path.suffix]) if path.is_file() else self._send(404, b"", "text/plain")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            for name, value in (("Content-Type", kind), ("Content-Length", len(body)), ("Content-Security-Policy", POLICY)):
                self.send_header(name, str(value))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
