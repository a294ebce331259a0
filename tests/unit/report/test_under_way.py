"""What a plan is doing at the moment, and how long a verification is expected to take, in `status`, its JSON and on the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from sentinel.model.state import RunState
from sentinel.report.documents import status_document, under_way_document
from sentinel.report.following import RunSnapshot
from sentinel.report.html.writing import run_report
from sentinel.report.summary import report_text
from sentinel.report.text import status_text
from tests.unit.engine.test_verifying import TB, behind, crashed
from tests.unit.run_files.test_stall import NO_SCHEDULE
from tests.unit.told_run import write_run

ROOT = Path(__file__).resolve().parents[3]


def verifying(**more: object) -> RunState:
    """Its plan is at the verification of a checkpoint of 1 TB, at 2 GB/s."""
    return replace(crashed("full", TB, behind()).done("capture").state, **more)  # type: ignore[arg-type]


def test_the_expected_time_of_a_verification_is_in_the_status() -> None:
    found = under_way_document(verifying())
    words = "verify every byte of the checkpoint of step 60, about 8 min 20 s (1.0 TB at 2.0 GB/s)"
    assert found == {"words": words, "number": 2, "of": 4, "expected_s": 500.0}
    seen = RunSnapshot(Path("/runs/r"), verifying(), 1e9, supervisor="alive")
    assert f"now         {words} (2 of 4)" in status_text(status_document(seen, None, "") | {"schedule": NO_SCHEDULE})


def test_the_reports_of_a_run_say_it_too(tmp_path: Path) -> None:
    words = "verify every byte of the checkpoint of step 60, about 8 min 20 s (1.0 TB at 2.0 GB/s) (2 of 4)"
    assert f"- now: {words}\n" in report_text(tmp_path, verifying(), 1e9)
    assert "- now:" not in report_text(tmp_path, verifying(plan=None), 1e9)
    html = run_report(write_run(tmp_path / "run", until=91))
    assert re.search(r"<p>Now: [^<]+ \(1 of 2\)\.</p>", html)
    assert "<p>Now:" not in run_report(write_run(tmp_path / "ended"))


def test_where_no_rate_is_known_nothing_is_expected() -> None:
    found = under_way_document(crashed(size=TB).done("capture").state)
    assert found is not None
    assert (found["words"], found["expected_s"]) == ("verify every byte of the checkpoint of step 60", None)


def test_without_a_plan_nothing_is_under_way() -> None:
    assert under_way_document(verifying(plan=None)) is None
    assert under_way_document(verifying(ended="stopped")) is None


def test_the_page_shows_it() -> None:
    assert "status.under_way.words" in (ROOT / "sentinel/web/page/header.js").read_text(encoding="utf-8")
