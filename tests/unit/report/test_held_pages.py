"""A page that waits says so wherever a run is shown: until when, and by what."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sentinel.cli import page_test
from sentinel.cli.root import app
from sentinel.engine import evolve
from sentinel.journal.session import take_run
from sentinel.model import facts as f
from sentinel.model.actions import SendPage
from sentinel.model.state import RunState
from sentinel.paging.case import build_notice
from sentinel.policy.schema import Paging
from sentinel.policy.schema_mute import Mute
from sentinel.policy_files.explain import Assumed, explain
from sentinel.policy_files.loading import load_policy
from sentinel.report.html.writing import incident_report
from sentinel.report.pages import page_document, page_rows, page_story, pages_document
from sentinel.terminal.panel import draw
from sentinel.terminal.picture import Picture
from sentinel.terminal.words import describe
from sentinel.web.fleet import _incident_row
from tests.fakes import ManualClock
from tests.unit.told_run import START_S, at, state_of, told, write_run

UNTIL_S = START_S + 5 * 3600  # 18:46:40 in UTC
MUTED = "muted until 18:46 UTC (nights)"
RAISED = f.PageRaised(2, "warning", "demo: spike since step 379", "Spike: loss 8.6")
HELD = f.PageHeld(2, ("terminal",), ("nights",), UNTIL_S, "UTC")


def waiting(*more: f.Fact) -> RunState:
    state = state_of(told(92))
    for fact in (RAISED, HELD, *more):
        state = evolve(state, at(92), fact)
    return state


def document(state: RunState) -> dict[str, Any]:
    found = page_document(state.incident(2))
    assert found is not None
    return found


def test_documents_rows_and_stories_say_it() -> None:
    page = document(waiting())
    assert (page["held"], page["held_until_s"], page["held_on"]) == (MUTED, UNTIL_S, ["terminal"])
    (row,) = page_rows(pages_document(waiting(), at(100)))
    told_so_far = "nobody is told yet; nobody has answered"
    assert row[1] == f"incident 2 (warning), open for 8 s, {MUTED}: {told_so_far}"
    assert page_story(page) == [
        "a person is to be called (warning), and nobody was yet",
        f"its page is held back: {MUTED}",
        "its page is open, nobody has answered: sentinel ack 2 RUN_DIR",
    ]


def test_one_that_waits_no_more_says_nothing_of_it() -> None:
    assert "held" not in document(waiting(f.PageHeld(2, ())))
    assert "held" not in document(waiting(f.PageResolved(2, "done")))


def test_the_terminal_and_the_list_of_runs_say_it() -> None:
    shown = Picture(waiting(), at(92), 600, (), (), 0.2, True)
    out = io.StringIO()
    Console(file=out, width=120, height=40, force_terminal=True, color_system=None, legacy_windows=False).print(draw(shown))
    assert f"a person is to be called for incident 2, nobody is told yet; {MUTED}" in out.getvalue()
    assert _incident_row(waiting().incident(2), is_over=False)["held"] == MUTED
    assert "held" not in _incident_row(state_of(told(92)).incident(2), is_over=False)


def test_the_journal_in_words() -> None:
    state = waiting()
    said = [describe(fact, at(92), state) for fact in (HELD, f.PageHeld(2, ()))]
    assert [line.text for line in said if line is not None] == [
        f"incident 2: its page on terminal: {MUTED}", "incident 2: its page waits no more",
    ]  # fmt: skip


def test_the_report_says_it(tmp_path: Path) -> None:
    write_run(tmp_path, 91)
    with take_run(tmp_path) as session:
        session.journal.append(at(92), [RAISED, HELD], session.epoch)
    assert f"Its page is held back: {MUTED}." in incident_report(tmp_path, 2)


def test_the_notice_says_since_when_it_was_open(tmp_path: Path) -> None:
    state = evolve(waiting(), UNTIL_S, f.PageHeld(2, ()))
    page = SendPage("page/2/1/trigger/terminal", 2, "warning", RAISED.title, RAISED.text, route="terminal")
    text = build_notice(tmp_path, state, page, Paging(), UNTIL_S).text
    assert "It was open since Mon 1970-01-12 13:48 UTC, and muted (nights) until now." in text.splitlines()[0]
    never = replace(state, incidents=tuple(replace(i, page=None) for i in state.incidents))
    assert "It was open since" not in build_notice(tmp_path, never, page, Paging(), UNTIL_S).text


POLICY = """apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: quiet}
extends: default
spec:
  paging:
    mute:
      - {name: nights, timezone: UTC, times: [22:00-07:00], days: [mon-fri]}
      - {name: slow, timezone: UTC, days: [sat-sun], kinds: [slowdown], severities: [warning, critical], routes: [terminal]}
    inhibit:
      - {name: gpu, while: [gpu_fault], hold: [straggler, Slowdown]}
"""


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "quiet.yaml"
    path.write_text(POLICY)
    return path


def test_explain_says_which_windows_and_inhibitions_concern_a_finding(policy_file: Path) -> None:
    policy = load_policy(policy_file)

    def after(finding: str) -> str:
        return "\n".join(explain(policy, finding, Assumed()).after)

    nights = "info and warning pages wait in nights (22:00-07:00 on mon, tue, wed, thu, fri; UTC): what is still open"
    assert nights in after("spike")
    assert "slow (" not in after("spike")
    assert "warning and critical pages on terminal wait in slow (all day on sat, sun; UTC)" in after("slowdown")
    assert "wait while an incident of gpu_fault of the same attempt is open (gpu)" in after("slowdown")
    held = "while it is open, info and warning pages about straggler and Slowdown of the same attempt wait (gpu)"
    assert held in after("gpu_fault")


@pytest.mark.parametrize(
    ("wall", "says"),
    [
        ("2026-11-26 23:00", "real info and warning pages wait now: muted until 07:00 UTC (nights)"),
        ("2026-11-28 12:00",
         "real warning and critical pages about slowdown wait now: muted until Mon 2026-11-30 00:00 UTC (slow)"),
        ("2026-11-26 12:00", ""),
    ],
)  # fmt: skip
def test_a_test_page_says_that_a_real_one_would_wait(
    policy_file: Path, monkeypatch: pytest.MonkeyPatch, wall: str, says: str
) -> None:
    from tests.unit.policy.test_quiet_hours import at as on

    monkeypatch.setattr(page_test, "SystemClock", lambda: ManualClock(on(wall, "UTC")))
    done = CliRunner().invoke(app, ["page", "test", "--policy", str(policy_file)])
    assert done.exit_code == 0
    assert done.stdout.strip() == "terminal: trigger: printed; resolve: printed" + (f"; {says}" if says else "")


def test_a_policy_that_extends_another_changes_a_window_by_its_name(tmp_path: Path, policy_file: Path) -> None:
    child = tmp_path / "child.yaml"
    head = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: child}\nextends: quiet.yaml\n"
    child.write_text(f"{head}remove: [paging.mute.slow]\n"
                     "spec: {paging: {mute: [{name: nights, timezone: Europe/Berlin}]}}\n")
    (mute,) = load_policy(child).spec.paging.mute
    assert isinstance(mute, Mute)
    assert (mute.timezone, mute.times[0].text, len(mute.weekdays)) == ("Europe/Berlin", "22:00-07:00", 5)
