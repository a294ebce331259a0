"""`sentinel page test`, as a person types it: every route gets a page and its end, and what came of each is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli import page_test
from sentinel.cli import root as cli
from sentinel.cli.root import app
from sentinel.errors import UsageError
from tests.integration.alertmanager_kit import alertmanager, needs_alertmanager
from tests.loopback import HttpServer, Reply


def sent(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["page", "test", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_every_route_gets_a_page_and_its_end() -> None:
    with HttpServer() as one, HttpServer() as two:
        code, out, err = sent("--page", f"webhook={one.url}", "--page", f"webhook={two.url}/x")
        pages = [got.json for got in one.all()]
        assert len(two.all()) == 2
    assert code == 0
    assert out.splitlines() == [
        "terminal: trigger: printed; resolve: printed",
        "webhook: trigger: accepted (200); resolve: accepted (200)",
        "webhook-2: trigger: accepted (200); resolve: accepted (200)",
    ]
    assert "Nothing is wrong" in err
    assert [page["stage"] for page in pages] == ["trigger", "resolve"]
    assert pages[0]["dedup_key"] == pages[1]["dedup_key"] != ""
    assert pages[0]["key"] != pages[1]["key"]


def test_a_route_that_cannot_deliver_is_named_and_the_others_are_tried() -> None:
    with HttpServer() as bad, HttpServer() as good:
        bad.always = lambda got: Reply(503)
        code, out, err = sent("--page", f"webhook={bad.url}", "--page", f"webhook={good.url}")
    assert code == 1
    assert "webhook-2: trigger: accepted" in out
    assert f"webhook: trigger NOT DELIVERED: the webhook at {bad.host} answered 503: {{}}; a real page" in err


def test_one_route_can_be_tested_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENTINEL_PAGERDUTY_KEY", raising=False)
    with HttpServer() as server:
        code, out, _ = sent("--page", f"webhook={server.url}", "--page", "pagerduty", "--route", "webhook")
        assert (code, out.count("\n"), len(server.all())) == (0, 1, 2)
        code, _, err = sent("--page", "pagerduty", "--route", "pagerduty")
        assert (code, "SENTINEL_PAGERDUTY_KEY is not set" in err) == (1, True)


def test_a_test_may_be_as_severe_as_a_page_at_night_is() -> None:
    with HttpServer() as server:
        words = ["--route", "webhook", "--page", f"webhook={server.url}"]
        assert sent(*words, "--severity", "critical")[0] == 0
        assert sent(*words)[0] == 0
        posted = [(got.json["stage"], got.json["severity"]) for got in server.all()]
    assert posted == [("trigger", "critical"), ("resolve", "critical"), ("trigger", "info"), ("resolve", "info")]


def test_a_route_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_test, "TRY_S", 0.3)
    with HttpServer() as server:
        server.hold()
        code, _, err = sent("--page", f"webhook={server.url}", "--route", "webhook")
    assert (code, "nothing came of it within 0.3 s" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"), [(["--route", "pager"], "no such route, only: terminal"), (["--page", "pigeon"], "is none of")]
)
def test_what_a_person_gets_wrong_is_said_before_anything_is_sent(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        sent(*words)


def test_a_run_whose_pages_could_go_nowhere_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SENTINEL_PAGERDUTY_KEY", raising=False)
    for verb in (["run", "--run-dir", str(tmp_path / "r"), "--page", "pagerduty", "--", "true"],
                 ["demo", "--run-dir", str(tmp_path / "r"), "--page", "pagerduty"]):  # fmt: skip
        monkeypatch.setattr("sys.argv", ["sentinel", *verb])
        with pytest.raises(SystemExit) as raised:
            cli.main()
        assert raised.value.code == 2
        assert "SENTINEL_PAGERDUTY_KEY is not set" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@needs_alertmanager
def test_a_real_alertmanager_takes_the_test_page_and_forgets_it(tmp_path: Path) -> None:
    with alertmanager(tmp_path) as real:
        code, out, _ = sent("--page", f"alertmanager={real.url}", "--route", "alertmanager")
        assert (code, out) == (0, "alertmanager: trigger: alert posted; resolve: alert resolved\n")
        assert real.alerts() == []
