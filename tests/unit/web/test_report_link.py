"""The link to a report that a page carries, followed by a person: without the token it leads to the page, which asks for it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.web.web_kit import BEARER, TOKEN, served

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_report_followed_from_a_page_leads_to_where_the_token_is_asked_for(tmp_path: Path) -> None:
    with served(tmp_path, token=TOKEN, host="0.0.0.0") as site:
        followed = site.get("/runs/gpt%207%0d%0aX:%20y/incidents/4/report", BROWSER)
        assert (followed.status, followed.headers["Location"]) == (303, "/#run=gpt%207%0D%0AX%3A%20y")
        assert "X" not in followed.headers
        assert site.get("/runs/demo/incidents/4/report").status == 401, "a program is told what it needs"
        assert site.get("/api/runs", BROWSER).status == 401
        wrong = site.get("/runs/demo/incidents/4/report", {**BROWSER, "Authorization": "Bearer wrong-wrong-wrong-wrong"})
        assert wrong.status == 401
        assert site.get("/runs/demo/incidents/4/report", {**BROWSER, **BEARER}).status == 404
