"""The real Prometheus on loopback, with the shipped rules made not to wait, and a tiny exporter for it to scrape."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sentinel.metrics.exposition import CONTENT_TYPE

RULES = Path(__file__).resolve().parents[2] / "deploy/prometheus/rules.yml"
PROGRAM = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed (Debian: prometheus)")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def quick_rules() -> str:
    """The shipped rules; what is true is told at once."""
    return re.sub(r"^( +for:) \S+$", r"\1 0s", RULES.read_text(encoding="utf-8"), flags=re.MULTILINE)


class Exporter:
    """Answers /metrics with what `exposition` makes at that moment."""

    def __init__(self, exposition: Callable[[], bytes]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exposition()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Prometheus:
    def __init__(self, folder: Path, target: int) -> None:
        self._url = f"http://127.0.0.1:{(port := free_port())}/api/v1/"
        folder.mkdir()
        (folder / "rules.yml").write_text(quick_rules())
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
            "rule_files: [rules.yml]\n"
            f"scrape_configs: [{{job_name: sentinel, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
        )
        words = [
            str(PROGRAM), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        self._log = (folder / "log").open("w")
        self._child = subprocess.Popen(words, stdout=self._log, stderr=self._log)

    def query(self, expr: str) -> dict[str, float]:
        """Run → value of an instant query; empty where nothing is known, and while Prometheus is starting."""
        found = self._get(f"query?query={quote(expr)}")
        return {one["metric"].get("run", ""): float(one["value"][1]) for one in found.get("result", [])}

    def firing(self) -> set[tuple[str, str]]:
        """Alert and run."""
        alerts = self._get("alerts").get("alerts", [])
        return {(one["labels"]["alertname"], one["labels"].get("run", "")) for one in alerts if one["state"] == "firing"}

    def judged(self) -> bool:
        """Every rule was evaluated, at least once since there was something to scrape."""
        rules = [rule for group in self._get("rules").get("groups", []) for rule in group["rules"]]
        return bool(rules) and bool(self.query("up == 1")) and all(rule["health"] == "ok" for rule in rules)

    def _get(self, path: str) -> dict[str, Any]:
        assert self._child.poll() is None, Path(self._log.name).read_text()
        try:
            with urllib.request.urlopen(self._url + path, timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)["data"]
                return found
        except (urllib.error.URLError, ConnectionError):
            return {}

    def close(self) -> None:
        self._child.kill()
        self._child.wait(10)
        self._log.close()
