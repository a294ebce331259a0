"""The link of a page, followed after the run has failed and its supervisor has ended."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sentinel.paging.asked import RUN_URL_VARIABLE
from tests.integration.forked_sentinel import ForkedSentinel
from tests.integration.supervised import Supervised, double, wait_for
from tests.loopback import HttpServer


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def test_the_link_of_a_page_leads_to_the_run_when_its_supervisor_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the shipped units start them: `sentinel web` for all runs, and a supervisor that serves nothing."""
    root, log = tmp_path / "runs", tmp_path / "web.log"
    root.mkdir()
    log.touch()  # whoever asks for it before the forked process has opened it
    web = ForkedSentinel(["web", str(root), "--listen", "127.0.0.1:0"], log, log)
    try:
        (url,) = wait_for("the address", lambda: re.findall(r"^page: (http://\S+/)", log.read_text(), re.MULTILINE))
        monkeypatch.setenv(RUN_URL_VARIABLE, url)
        with HttpServer() as receiver:
            page = ["--page", f"webhook={receiver.url}/", "--listen", "off"]
            run = Supervised(root / "big", double(1, die=True), options=page).start()
            assert run.wait() == 1, run.log
            notices = [one.json for one in receiver.all()]
        links = notices[-1]["links"]
        assert re.fullmatch(re.escape(f"{url}#run=big&began=") + r"\d{10}", links["page"])
        (name,) = parse_qs(urlsplit(links["page"]).fragment)["run"]
        assert json.loads(got(f"{url}api/runs/{name}"))["state"].startswith("failed")
        assert "<!doctype html>" in got(links["page"].partition("#")[0]).lower()
        assert "broken job: 3 launches in a row" in got(links["report"])
    finally:
        web.send_signal(signal.SIGTERM)
        assert web.wait(30) == 0
