"""A real Alertmanager on loopback for the length of a test (Debian: prometheus-alertmanager), which notifies a webhook and a
PagerDuty of the test's own. Its tool `amtool` silences, as a person would."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.strict_json import loads
from tests.integration.supervised import wait_for
from tests.loopback import HttpServer

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
AMTOOL = shutil.which("amtool")
needs_alertmanager = pytest.mark.skipif(
    PROGRAM is None or AMTOOL is None, reason="Alertmanager and amtool are not installed (Debian: prometheus-alertmanager)"
)
CONFIG = """
route: {{receiver: local, group_by: [alertname, run, incident], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: local
    webhook_configs: [{{url: '{webhook}/hook', send_resolved: true}}]
    pagerduty_configs: [{{routing_key: local-key, url: '{pagerduty}/v2/enqueue', send_resolved: true}}]
"""


@dataclass
class RealAlertmanager:
    url: str
    hook: HttpServer
    pagerduty: HttpServer

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            return loads(answer.read())

    def alerts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/api/v2/alerts")
        return found

    def silence(self, author: str, *matchers: str) -> None:
        words = [str(AMTOOL), f"--alertmanager.url={self.url}", "silence", "add", f"--author={author}"]
        subprocess.run([*words, "--comment=seen", "--duration=1h", *matchers], check=True, capture_output=True, timeout=30)


@contextmanager
def alertmanager(folder: Path) -> Iterator[RealAlertmanager]:
    with HttpServer() as hook, HttpServer() as pagerduty:
        config = folder / "alertmanager.yml"
        config.write_text(CONFIG.format(webhook=hook.url, pagerduty=pagerduty.url))
        with socket.create_server(("127.0.0.1", 0)) as place:
            port = place.getsockname()[1]
        words = [str(PROGRAM), f"--config.file={config}", f"--storage.path={folder / 'data'}", "--cluster.listen-address="]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*words, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            real = RealAlertmanager(f"http://127.0.0.1:{port}", hook, pagerduty)
            wait_for("Alertmanager", lambda: _is_ready(process, real.url, folder / "log"))
            yield real
        finally:
            process.kill()
            process.wait(10)


def _is_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-2000:]
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
