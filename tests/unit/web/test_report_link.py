"""The link to a report that a page carries, followed by a person: without the token it leads to the page, which asks for it."""

from __future__ import annotations

from pathlib import Path

from sentinel.client.run_layout import incident_report_path
from tests.unit.told_run import START_S, told, write_run
from tests.unit.web.web_kit import BEARER, TOKEN, served, write_told

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_report_followed_from_a_page_leads_to_where_the_token_is_asked_for(tmp_path: Path) -> None:
    with served(tmp_path, token=TOKEN, host="0.0.0.0") as site:
        followed = site.get("/runs/gpt%207%0d%0aX:%20y/incidents/4/report", BROWSER)
        assert (followed.status, followed.headers["Location"]) == (303, "/#run=gpt%207%0D%0AX%3A%20y")
        assert "X" not in followed.headers
        followed = site.get("/runs/demo/incidents/4/report?began=1700000000", BROWSER)
        assert followed.headers["Location"] == "/#run=demo&began=1700000000"
        assert site.get("/runs/demo/incidents/4/report?began=%0d%0aX:%20y", BROWSER).headers["Location"] == "/#run=demo"
        assert site.get("/runs/demo/incidents/4/report").status == 401, "a program is told what it needs"
        assert site.get("/api/runs", BROWSER).status == 401
        wrong = site.get("/runs/demo/incidents/4/report", {**BROWSER, "Authorization": "Bearer wrong-wrong-wrong-wrong"})
        assert wrong.status == 401
        assert site.get("/runs/demo/incidents/4/report", {**BROWSER, **BEARER}).status == 404


def test_of_two_runs_of_one_name_the_link_leads_to_the_report_of_its_own(tmp_path: Path) -> None:
    first = write_told(tmp_path / "a")
    second = write_run(tmp_path / "b" / "demo", facts=[(when + 777.0, fact) for when, fact in told()])
    for run_dir in (first, second):
        report = incident_report_path(run_dir, 2)
        report.parent.mkdir(parents=True)
        report.write_text(f"the report of {run_dir.parent.name}")
    with served(tmp_path / "a", tmp_path / "b") as site:
        path = "/runs/demo/incidents/2/report"
        assert site.get(f"{path}?began={int(START_S)}").body == b"the report of a"
        assert site.get(f"{path}?began={int(START_S + 777.0)}").body == b"the report of b"
        assert site.get(f"{path}?began=5").status == 404
        rows = site.get("/api/runs").json["runs"]
    told_apart = {row["name"]: (row["directory"], row["place"], row["began"]) for row in rows}
    assert told_apart == {
        "demo": ("demo", str(tmp_path / "a"), int(START_S)), "demo~2": ("demo", str(tmp_path / "b"), int(START_S + 777.0)),
    }  # fmt: skip
