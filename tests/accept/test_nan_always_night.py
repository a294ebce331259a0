"""The night that nothing can repair, with everything real: two ranks train, the weights become NaN in every attempt, the ladder
is exhausted, and whoever is called sees the same case everywhere: in Alertmanager, at a receiver of PagerDuty's, on the page in
the browser, in the report, in TensorBoard.   make accept
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.alertmanager_kit import alertmanager, needs_alertmanager
from tests.integration.supervised import Supervised, wait_for
from tests.integration.test_page_of_a_run import TOKEN, with_token
from tests.integration.test_page_of_a_run import Page as Asked
from tests.loopback import HttpServer, Reply
from tests.unit.web_page.browser import MISSING, PHONE, Page, start

pytest.importorskip("tensorboard", reason="TensorBoard is not installed (pip install tensorboard)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs_alertmanager,
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "there"),
]
TRAINER = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trainer"]
RECIPE = ["--preset", "micro", "--set", "schedule.steps=160", "checkpoint.every=20", "--fault", "nan_state@step=90:always"]
KEY = "k" * 32


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    chrome = start(records_requests=True)
    yield Page(chrome)
    chrome.quit()


def test_one_case_is_seen_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Page) -> None:
    monkeypatch.setenv("SENTINEL_PAGERDUTY_KEY", KEY)
    pictures = tmp_path / "pictures"
    (tmp_path / "alertmanager").mkdir()
    with alertmanager(tmp_path / "alertmanager") as real, HttpServer() as pagerduty:
        pagerduty.always = lambda got: Reply(202, b'{"status":"success"}')
        events: list[dict[str, Any]] = []

        def actions() -> list[str]:
            events.extend(got.json for got in pagerduty.all())
            return [event["event_action"] for event in events]

        pages = ["--page", f"alertmanager={real.url}", "--page", f"pagerduty={pagerduty.url}/v2/enqueue"]
        run = Supervised(tmp_path / "run", [*TRAINER, *RECIPE], options=[*pages, *with_token(tmp_path)]).start()
        browser.open(f"{Asked(run).url}#/runs/run")
        wait_for("a step on the page", lambda: run.last_step(1) > 20)
        assert "non_finite" not in browser.text("#incident-list"), "the list of detectors names it at all times"
        wait_for("the incident, without a reload", lambda: "non_finite" in browser.text("#incident-list"), 200)
        browser.picture("live", pictures)
        assert run.wait(400) == 1, run.log

        (incident,) = run.incidents()
        assert (incident["kind"], incident["state"]) == ("non_finite", "exhausted")
        (alert,) = real.alerts()
        case = alert["annotations"]["description"]
        for words in ("onset step 91", "rollback+skip+lr", "NEXT", "COST", "sentinel ack 1", "#non_finite", "report.html"):
            assert words in case, case
        assert actions() == ["trigger"]

        assert said("ack", "1", run) == 0
        assert real.alerts()[0]["annotations"]["acknowledged_by"] == acknowledged_by(run)
        assert actions() == ["trigger", "acknowledge"]
        assert json.loads(shown("status", "--json", run))["pages"], "it is still open"
        with served(tmp_path, run) as address:
            browser.open(f"{address}#/runs/run", PHONE, dark=True)
            wait_for("the acknowledgement", lambda: "acknowledged" in browser.text("body"))
            assert "no repair is left" in browser.text("body")
            browser.picture("afterwards-phone", pictures)

        browser.open((run.run_dir / "incidents" / "0001" / "report.html").as_uri())
        assert "non_finite" in browser.text("body")
        assert browser.find("svg"), "its plots are in the file"
        asked_for = [json.loads(entry["message"])["message"] for entry in browser.logs("performance")]
        addresses = [m["params"]["request"]["url"] for m in asked_for if m["method"] == "Network.requestWillBeSent"]
        assert all(address.startswith(("file:", "data:", "about:")) for address in addresses), addresses
        browser.picture("report", pictures)

        assert said("resolve", "1", run) == 0
        wait_for("end of the alert", lambda: not real.alerts())
        assert actions() == ["trigger", "acknowledge", "resolve"]
        assert {event["dedup_key"] for event in events} == {"sentinel/run/1"}
        assert all(TOKEN not in path.read_text(errors="replace") for path in run.run_dir.rglob("*") if path.is_file())
        assert all(KEY not in path.read_text(errors="replace") for path in run.run_dir.rglob("*") if path.is_file())
    check_boards(run, incident)


def check_boards(run: Supervised, incident: dict[str, Any]) -> None:
    """By TensorBoard's own reader: each attempt, the branch that was left, the run that survives."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def steps(board: str) -> list[int]:
        found = EventAccumulator(str(run.run_dir / "tensorboard" / board), size_guidance={"scalars": 0})
        found.Reload()
        return [event.step for event in found.Scalars("lm loss")]

    back = next(remedy["rollback_to_step"] for remedy in incident["remedies"] if remedy["rollback_to_step"] is not None)
    assert max(steps("attempt-0001")) > back, "the abandoned branch is there whole"
    assert steps("effective") == sorted(set(steps("effective"))), "and the effective run has no zigzag"


def said(word: str, number: str, run: Supervised) -> int:
    words = [sys.executable, "-m", "sentinel", word, number, str(run.run_dir)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60).returncode


def shown(word: str, option: str, run: Supervised) -> str:
    words = [sys.executable, "-m", "sentinel", word, option, str(run.run_dir)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def acknowledged_by(run: Supervised) -> str:
    return str(run.incidents()[0]["acknowledged_by"])


class served:
    """`sentinel web` for a run that nobody supervises any more."""

    def __init__(self, tmp_path: Path, run: Supervised) -> None:
        self._log = tmp_path / "web.log"
        self._words = [sys.executable, "-m", "sentinel", "web", str(run.run_dir), "--listen", "127.0.0.1:0"]

    def __enter__(self) -> str:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)

        def address() -> str:
            return next((word for word in self._log.read_text().split() if word.startswith("http://")), "")

        return str(wait_for("the address", address))

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
