"""Every page of the site over a told run on disk, by real HTTP on loopback; and what it refuses."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from sentinel.curves.registry import CURVES
from sentinel.report.following import RunSnapshot
from sentinel.web.access import Access
from sentinel.web.answers import REPORT_POLICY
from sentinel.web.routes import ROUTES
from sentinel.web.runs import Runs
from sentinel.web.site import Site, SiteServices
from sentinel.web.static_files import StaticFiles
from tests.fakes import ManualClock
from tests.integration.supervised import wait_for
from tests.unit.told_run import START_S, write_stream
from tests.unit.web.web_kit import BEARER, JSON, TOKEN, Served, append_told, served, write_told
from tests.unit.web_page.simulated_run import incident

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def told_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A run that has ended, and one in the middle of its second incident beside it."""
    runs = tmp_path_factory.mktemp("runs")
    write_told(runs)
    write_told(runs, until=100, name="half")
    with served(runs, token=TOKEN) as site:
        yield site


def test_the_runs_are_listed_worst_first(told_site: Served) -> None:
    said = until_said(told_site, "/api/runs", lambda said: all(run["state"] != "unknown" for run in said["runs"]))
    assert said["can_act"] is True
    assert [(run["name"], run["state"], run["step"], run["total_steps"]) for run in said["runs"]] == [
        ("half", "probation", 600, 600),
        ("demo", "finished", 600, 600),
    ]
    worst = said["runs"][0]
    assert worst | {"goodput": 0, "loss": []} == {
        "name": "half", "state": "probation", "step": 600, "total_steps": 600, "goodput": 0, "open_incidents": 1, "paged": False,
        "supervisor": "gone", "urgency": 1, "gravity": 0, "loss": [], "reason": worst["reason"], "trouble": "",
         "unwatched": worst["reason"],
        "began": int(START_S), "directory": "half", "place": "",
        "incident": {
            "id": worst["incident"]["id"], "kind": "spike", "onset_step": 379, "reason": "loss 8.6 over 2.2",
            "awaits_approval": False, "called": [], "acknowledged_by": "",
        },
    }  # fmt: skip
    assert worst["reason"].startswith("Nobody watches this run: ")
    assert all(isinstance(value, float) for value in worst["loss"])
    assert len(worst["loss"]) > 10


def test_a_run_is_its_status_and_what_only_a_page_asks(told_site: Served) -> None:
    said = told_site.get("/api/runs/half").json
    assert (said["run"], said["attempt"], said["open_incident"]["id"], said["schedule"]["steps_thrown_away"]) == (
        "demo",
        3,
        2,
        66,
    )
    assert (said["newest"], said["trouble"], said["pages"], said["seq"]) == ({"loss": 2.5}, "", [], 38)
    assert said["elapsed_s"] == pytest.approx(said["now_s"] - START_S, abs=1e-3)
    assert (said["began_at_s"], said["ended_at_s"]) == (START_S, None)


def test_incidents_have_their_times_on_the_runs_own_clock(told_site: Served) -> None:
    first, second = told_site.get("/api/runs/half/incidents").json
    assert (first["id"], first["opened_elapsed_s"], first["closed_elapsed_s"]) == (1, 30.5, 60.0)
    assert first["cost_words"] == "10 s", "what it threw away and stood still; GPUs are not known"
    assert (first["opened_at_s"], first["closed_at_s"]) == (START_S + 30.5, START_S + 60.0)
    assert (second["opened_at_s"], second["closed_at_s"]) == (START_S + 90.2, None)
    assert (second["kind"], second["opened_elapsed_s"], second["closed_elapsed_s"]) == ("spike", 90.2, None)


def test_the_pages_own_tests_are_shown_incidents_of_the_real_shape(told_site: Served) -> None:
    """A key that the page reads and the site does not tell would go unnoticed there."""
    _, second = told_site.get("/api/runs/half/incidents").json
    assert set(incident(2, "spike")) == set(second)
    assert second["break_step"] == 384, "where the band of the incident ends"


def test_events_come_in_order_and_only_once(told_site: Served) -> None:
    said = told_site.get("/api/runs/half/events").json
    seqs = [event["seq"] for event in said["events"]]
    assert seqs == sorted(set(seqs))
    opened = next(event for event in said["events"] if event["text"].startswith("INCIDENT 2"))
    assert (opened["tone"], opened["incident"], opened["elapsed_s"], opened["at_s"]) == ("bad", 2, 90.2, START_S + 90.2)
    later = told_site.get(f"/api/runs/half/events?since={opened['seq']}").json
    assert [event["seq"] for event in later["events"]] == [seq for seq in seqs if seq > opened["seq"]]
    assert told_site.get(f"/api/runs/half/events?since={said['seq']}").json == {"seq": said["seq"], "events": []}


def test_curves_come_by_attempt_and_then_only_what_is_new(told_site: Served) -> None:
    path = "/api/runs/half/curves?metrics=loss"
    said = until_said(told_site, path, lambda said: set(said["curves"]["loss"]) == {"1", "2", "3"})
    assert said["whole"]
    assert [(a["attempt"], a["survives_to"], a["is_over"]) for a in said["attempts"]] == [
        (1, 100, True),
        (2, 350, True),
        (3, 600, False),
    ]
    assert said["curves"]["loss"]["2"]["step"] == list(range(101, 385))
    again = told_site.get(f"{path}&since={said['cursor']}").json
    assert (again["whole"], again["curves"], again["cursor"]) == (False, {}, said["cursor"])
    assert told_site.get("/api/runs/half/metrics").json == {"metrics": ["loss"]}


def test_the_page_is_told_which_curves_to_show(told_site: Served) -> None:
    shown = told_site.get("/api/curves").json["shown"]
    assert shown[:2] == ["loss", "grad_norm"]
    assert {"activation_norm/", "loss_scale", "lr"} <= set(shown)
    assert shown == [curve.name for curve in CURVES if curve.page]


def test_lineage_and_ledger(told_site: Served) -> None:
    branches = told_site.get("/api/runs/demo/lineage").json
    assert [(b["attempt"], b["parent"], b["survives_to"]) for b in branches] == [(1, None, 100), (2, 1, 350), (3, 2, 600)]
    ledger = told_site.get("/api/runs/demo/ledger").json
    assert sum(ledger["accounts"].values()) == pytest.approx(ledger["whole_s"])
    assert 0 < ledger["goodput"] < 1


@pytest.mark.parametrize(
    "path", ["/api/runs/none", "/api/runs/", "/api/runs/demo/none", "/api", "/x", "/runs/demo/incidents/1/report"]
)
def test_what_is_not_there_is_a_sentence(told_site: Served, path: str) -> None:
    answer = told_site.get(path)
    assert answer.status == 404
    assert set(answer.json) == {"error"}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/api/runs/demo/curves", "metrics"),
        ("/api/runs/demo/curves?metrics=,", "metrics"),
        ("/api/runs/demo/curves?metrics=" + ",".join(f"m{n}" for n in range(65)), "64"),
        ("/api/runs/demo/events?since=-1", "since"),
        ("/api/runs/demo/events?since=x", "since"),
        ("/api/runs/demo/events?since=" + "9" * 30, "since"),
        ("/api/runs/%ff", "UTF-8"),
        ("/api/runs?a=%ff", "UTF-8"),
        ("/api/runs?" + "&".join(f"a{n}=1" for n in range(20)), "query"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_send(told_site: Served, path: str, why: str) -> None:
    answer = told_site.get(path)
    assert answer.status == 400
    assert why in answer.json["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../routes.py", "/static/..%2froutes.py", "/static/%2e%2e/routes.py", "/static//etc/passwd",
        "/static/..\\routes.py",
        "/static/", "/static/.", "/static/../../../../etc/passwd", "/api/runs/..", "/api/runs/..%2fhalf",
        "/api/runs/%2e%2e/metrics",
        "/api/runs/half%00", "/runs/..%2f..%2fetc/incidents/1/report", "/runs/half/incidents/..%2f..%2f1/report",
        "/runs/half/incidents/-1/report", "/runs/half/incidents/%31%00/report",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_what_is_served(told_site: Served, path: str) -> None:
    heard = told_site.say(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert heard.split(b" ", 2)[1] in (b"404", b"400")
    assert b"root:" not in heard
    assert b"import" not in heard


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "POST"])
def test_reading_is_only_for_get_and_head(told_site: Served, method: str) -> None:
    answer = told_site.ask(method, "/api/runs", b"", BEARER)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert told_site.get("/api/runs/half/pause").headers["Allow"] == "POST"


def test_head_tells_the_length_and_nothing_else(told_site: Served) -> None:
    told, head = told_site.get("/healthz"), told_site.get("/healthz", method="HEAD")
    assert (told.body, head.body, head.headers["Content-Length"]) == (b"ok\n", b"", "3")


@pytest.mark.parametrize(
    "path", ["/", "/static/none.js", "/api/runs", "/nowhere", "/healthz", "/metrics", "/api/runs/half/curves"]
)
def test_every_answer_is_guarded(told_site: Served, path: str) -> None:
    headers = told_site.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert headers["Cache-Control"] in ("no-store", "no-cache")
    assert "Server" not in headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9464", ""])
def test_a_host_that_is_not_ours_reads_nothing_at_all(told_site: Served, host: str) -> None:
    for path in ("/", "/api/runs", "/metrics"):
        answer = told_site.get(path, {"Host": host})
        assert answer.status == 403
        assert "half" not in answer.body.decode()


@pytest.mark.parametrize("who", ["a\r\nSet-Cookie: b=c", "a\nb"])
def test_no_header_is_injected_by_what_a_client_sends(told_site: Served, who: str) -> None:
    for head in (
        f"GET /api/runs/{who} HTTP/1.1\r\nHost: localhost",
        "GET /x%0d%0aSet-Cookie:%20b=c HTTP/1.1\r\nHost: localhost",
    ):
        heard = told_site.say(f"{head}\r\nConnection: close\r\n\r\n".encode())
        assert b"Set-Cookie" not in heard.partition(b"\r\n\r\n")[0]


def test_names_that_are_markup_stay_text(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=42, name=f"a b&{HOSTILE.replace('/', '')}")
    path = write_stream(run_dir, 2, [101], loss=1.0)
    with path.open("a") as file:
        file.write(json.dumps({"kind": "step", "step": 102, HOSTILE: 1.0, "\ud800": 2.0}) + "\n")
    with served(tmp_path) as site:
        (run,) = site.get("/api/runs").json["runs"]
        assert run["name"] == run_dir.name
        place = "/api/runs/a%20b%26%3Cscript%3Ealert(1)%3Cscript%3E"
        for answer in (site.get(place), site.get(f"{place}/metrics"), site.get("/%3Cscript%3E")):
            assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        assert site.get(place).json["newest"][HOSTILE] == 1.0
        assert HOSTILE in site.get(f"{place}/metrics").json["metrics"]


def test_numbers_that_are_not_finite_travel_as_words(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=42)
    write_stream(run_dir, 2, range(101, 111), loss="NaN", grad_norm="Infinity")
    with served(tmp_path) as site:
        assert site.get("/api/runs/demo").json["newest"] == {"loss": "NaN", "grad_norm": "Infinity"}
        said = site.get("/api/runs/demo/curves?metrics=loss,grad_norm").json["curves"]
        assert said["loss"]["2"]["non_finite"] == said["grad_norm"]["2"]["non_finite"] == [110]
        assert all(math.isfinite(value) for value in said["loss"]["2"]["high"])


def test_the_page_is_served_as_it_lies_in_the_package_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "page" / "vendor").mkdir(parents=True)
    for name in ("index.html", "app.js", "vendor/lib.css", "secret.py"):
        (tmp_path / "page" / name).write_text(name)
    site = Site(Runs([]), Access("", True, (), ManualClock()), files=StaticFiles(tmp_path / "page"))
    for path, status, kind in (
        ("/", 200, "text/html"), ("/static/app.js", 200, "text/javascript"), ("/static/vendor/lib.css", 200, "text/css"),
        ("/static/secret.py", 404, "application/json"), ("/static/vendor", 404, "application/json"),
    ):  # fmt: skip
        status_line, headers, _ = ask(site, path)
        assert status_line.startswith(str(status)), path
        assert headers["Content-Type"].startswith(kind)
    (tmp_path / "page" / "app.js").write_text("another version")
    assert ask(site, "/static/app.js")[2] == b"app.js"


def ask(site: Site, path: str, method: str = "GET") -> tuple[str, dict[str, str], bytes]:
    """By PEP 3333, and checked by the standard library's own checker of it."""
    said: list[Any] = []
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "HTTP_HOST": "localhost",
    }
    setup_testing_defaults(environ)
    chunks = validator(site)(environ, lambda status, headers, exc_info=None: said.extend([status, headers]) or print)
    body = b"".join(chunks)
    chunks.close()  # type: ignore[attr-defined]
    return said[0], dict(said[1]), body


def test_a_report_is_shown_as_a_file_in_which_nothing_runs(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path)
    report = run_dir / "incidents" / "0002" / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text(f"<h1>{HOSTILE}</h1>")
    (run_dir / "incidents" / "0001").mkdir()
    (run_dir / "incidents" / "0001" / "report.html").symlink_to("/etc/passwd")
    with served(tmp_path) as site:
        shown = site.get("/runs/demo/incidents/2/report")
        assert (shown.status, shown.headers["Content-Type"], shown.body) == (200, "text/html; charset=utf-8", report.read_bytes())
        assert shown.headers["Content-Security-Policy"] == REPORT_POLICY
        assert "script-src" not in REPORT_POLICY, "no script, by default-src 'none'"
        assert "sandbox" in REPORT_POLICY
        for number in ("1", "3", "2000000000"):
            assert site.get(f"/runs/demo/incidents/{number}/report").status == 404, "a link leads nowhere"


def test_metrics_are_those_of_the_own_run_else_of_all(tmp_path: Path) -> None:
    write_told(tmp_path, until=42, name="one")
    write_told(tmp_path, until=100, name="two")

    def exposition(snapshots: list[RunSnapshot]) -> bytes:
        return "".join(f"{snapshot.run_dir.name} {snapshot.step}\n" for snapshot in snapshots).encode()

    with served(tmp_path, services=SiteServices(exposition)) as site:
        answer = site.get("/metrics")
        assert (answer.status, answer.body) == (200, b"one 384\ntwo 600\n")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    with served(tmp_path, own=tmp_path / "two", services=SiteServices(exposition)) as site:
        assert site.get("/metrics").body == b"two 600\n"
        assert [run["name"] for run in site.get("/api/runs").json["runs"]] == ["one", "two"]


def test_away_from_loopback_everything_about_a_run_takes_the_token(tmp_path: Path) -> None:
    write_told(tmp_path)
    with served(tmp_path, token=TOKEN, host="0.0.0.0", services=SiteServices(lambda snapshots: b"")) as site:
        readable = [route.path for route in ROUTES if route.needs == "reading"]
        assert len(readable) > 8
        for path in readable:
            path = path.replace("NAME", "demo").replace("/N/", "/1/")
            assert site.get(path).status == 401
            assert site.get(path, {"Authorization": "Bearer wrong"}).status == 401
        assert site.get("/api/runs", BEARER).status == 200
        assert site.get("/metrics", BEARER).status == 200
        assert site.get("/healthz").status == 200
        assert site.get("/", {"Host": "any.name.of.this.machine"}).status == 200, "the page holds nothing of the run"


def test_a_journal_that_goes_away_is_told_and_what_was_known_stays(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=42)
    with served(tmp_path) as site:
        assert site.get("/api/runs/demo").json["trouble"] == ""
        journal = run_dir / "sentinel.db"
        journal.rename(tmp_path / "aside")
        blind = until_said(site, "/api/runs/demo", lambda said: said["trouble"])
        assert "journal" in blind["trouble"]
        assert (blind["state"], blind["step"], blind["schedule"]["steps_thrown_away"]) == ("probation", 384, 32)
        (tmp_path / "aside").rename(journal)
        append_told(run_dir, 42, 100)
        seen = until_said(site, "/api/runs/demo", lambda said: not said["trouble"] and said["attempt"] == 3)  # all of it
        assert seen["seq"] > blind["seq"]
        assert seen["open_incident"]["id"] == 2
        assert [b["attempt"] for b in site.get("/api/runs/demo/lineage").json] == [1, 2, 3]


def test_a_run_that_cannot_be_read_is_listed_and_one_that_no_longer_can_is_said_to_be_old(tmp_path: Path) -> None:
    """Neither is passed over: what nobody can read may be what somebody was woken for."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "sentinel.db").write_bytes(b"no database" * 100)
    run_dir = write_told(tmp_path, until=42)
    with served(tmp_path) as site:
        rows = until_said(site, "/api/runs", lambda said: any(row["state"] != "unknown" for row in said["runs"]))["runs"]
        unread, shown = sorted(rows, key=lambda row: row["name"])
        assert (unread["state"], unread["supervisor"], unread["urgency"], shown["trouble"]) == ("unknown", "unknown", 2, "")
        assert "damaged" in unread["trouble"]
        assert set(unread) == set(shown)
        (run_dir / "sentinel.db").rename(tmp_path / "aside")
        site.get("/api/runs/demo")
        said = until_said(site, "/api/runs", lambda said: any(row["name"] == "demo" and row["trouble"] for row in said["runs"]))
        assert {row["name"]: row["urgency"] for row in said["runs"]} == {"demo": 1, "damaged": 2}


def test_runs_that_were_not_looked_at_yet_are_not_said_to_be_none(tmp_path: Path) -> None:
    """Whoever opens the list of a busy machine first."""
    write_told(tmp_path)
    runs = Runs([tmp_path])
    runs._scan()
    runs._is_late = True  # nobody waits for the thread, which does not run
    said = json.loads(ask(Site(runs, Access("", True, (), ManualClock())), "/api/runs")[2])
    (row,) = said["runs"]
    assert (row["name"], row["state"], row["trouble"]) == ("demo", "unknown", "it is being read; look again in a moment")


def test_a_directory_that_holds_no_run_yet_shows_its_first_run_when_it_begins(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        assert site.get("/api/runs").json["runs"] == []


def until_said(site: Served, path: str, is_wanted: Callable[[Any], object]) -> Any:
    found: list[Any] = []

    def answers() -> bool:
        found[:] = [site.get(path).json]
        return bool(is_wanted(found[0]))

    wait_for(path, answers, 20.0)
    return found[0]


def test_the_readme_lists_every_route_and_no_other() -> None:
    text = (ROOT / "sentinel/web/README.md").read_text(encoding="utf-8")
    shown = re.findall(r"`((?:GET|POST) /[^`\s]*)`", text)
    assert sorted(shown) == sorted(f"{route.method} {route.path}" for route in ROUTES)


def test_whatever_is_posted_needs_the_token_or_a_signature() -> None:
    others = [route.path for route in ROUTES if route.method == "POST" and route.needs != "acting"]
    assert others == ["/slack/actions"], "what it refuses: test_slack_buttons.py"


def test_a_post_without_the_token_is_refused_before_anything_else(told_site: Served) -> None:
    posts = [route.path.replace("NAME", "half").replace("/N/", "/2/") for route in ROUTES if route.needs == "acting"]
    assert len(posts) >= 5
    for path in posts:
        assert told_site.post(path, JSON).status == 401
        assert told_site.post(path, {**BEARER, "Content-Type": "text/plain"}).status == 415
        assert told_site.post(path, {**BEARER, **JSON, "Origin": "http://evil.example"}).status == 403
        assert told_site.post(path, body=b'{"to_step": 1}').status == 409, "nobody supervises it"
