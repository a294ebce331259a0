"""Status, incidents and the report as a person reads them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sentinel.client.run_layout import REPORT_NAME
from sentinel.engine.goodput import ACCOUNTS
from sentinel.report.reading import read_incidents, read_run, read_status
from sentinel.report.summary import attempt_rows, ledger_rows, report_text, write_report
from sentinel.report.tables import markdown_table, rounded_parts, text_table
from sentinel.report.text import incident_story, incidents_text, status_text
from tests.unit.told_run import at, state_of, told, write_run, write_stream


def test_columns_are_aligned_and_nothing_is_a_dash() -> None:
    lines = text_table(("name", "steps"), [("a", 5), ("long name", None), ("b\nc", 1200)]).splitlines()
    assert lines == ["name       steps", "---------  -----", "a              5", "long name      -", "b c         1200"]


def test_a_pipe_does_not_break_a_markdown_table() -> None:
    assert markdown_table(("a",), [("x|y",)]).splitlines()[-1] == "| x\\|y |"


def test_rounded_parts_sum_to_the_rounded_whole() -> None:
    dice = random.Random(1)
    for _ in range(200):
        parts = {str(n): dice.random() * 100 for n in range(6)}
        rounded = rounded_parts(parts)
        assert sum(rounded.values()) == pytest.approx(round(sum(parts.values()), 1), abs=1e-9)
        assert all(abs(rounded[name] - parts[name]) < 0.1 for name in parts)


def test_status_of_a_run_in_trouble(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=91)
    write_stream(run_dir, 2, [384])
    text = status_text(read_status(run_dir))
    for expected in ("recovering", "384 of 600", "incident 2, spike, open: loss 8.6", "rung 2, pending: roll back to step 350"):
        assert expected in text
    assert "Nobody watches this run: its supervisor is gone" in text
    assert "Nothing of it trains now." in text
    assert f"sentinel run --policy demo --run-dir {run_dir}" in text


def test_status_of_a_finished_run_gives_no_advice(tmp_path: Path) -> None:
    text = status_text(read_status(write_run(tmp_path / "run")))
    assert "finished: the trainer finished at step 600" in text
    assert "sentinel run" not in text


def test_incidents_as_a_table_and_as_stories(tmp_path: Path) -> None:
    text = incidents_text(read_incidents(write_run(tmp_path / "run")))
    header, _, crash, spike, *rest = text.splitlines()
    assert header.split("  ")[0] == "incident"
    assert crash.split() == ["1", "crash", "-", "132", "resume", "recovered", "32", "12.0"]
    assert spike.split() == ["2", "spike", "379", "380", "wait,", "rollback+skip", "recovered", "34", "14.0"]
    assert "  rung 2 (rollback+skip, attempt 3): roll back to step 350; skip samples" in rest
    assert incidents_text([]) == "no incidents"


@pytest.mark.parametrize(
    ("rank", "node", "line"),
    [(3, "n2", "  blamed: rank 3 on node n2"), (0, "", "  blamed: rank 0"), (None, "n2", "  blamed: node n2"), (None, "", None)],
)
def test_a_story_names_whom_the_evidence_blames(tmp_path: Path, rank: int | None, node: str, line: str | None) -> None:
    incident = read_incidents(write_run(tmp_path / "run"))[0] | {"blamed_rank": rank, "blamed_node": node}
    assert [words for words in incident_story(incident) if "blamed" in words] == ([] if line is None else [line])


def test_the_ledger_table_sums_to_its_last_row() -> None:
    rows = ledger_rows(state_of(told()), at(150))
    assert [row[0] for row in rows] == [*ACCOUNTS, "whole"]
    parts = [float(str(row[1])) for row in rows]
    assert sum(parts[:-1]) == pytest.approx(parts[-1])
    assert parts[-1] == 150.0


def test_the_lineage_says_what_of_each_attempt_survives() -> None:
    rows = attempt_rows(state_of(told()))
    assert [row[:4] for row in rows] == [(1, 0, 132, 100), (2, 100, 384, 350), (3, 350, 600, 600)]
    assert [row[4] for row in rows] == pytest.approx([0.0, 30.6, 91.5])


def test_the_report_has_every_part(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    write_stream(run_dir, 3, [599, 600], val_loss=1.875)
    run = read_run(run_dir)
    path = write_report(run_dir, run.state, run.now_s)
    assert path == run_dir / REPORT_NAME
    text = path.read_text()
    for expected in ("# Run demo: finished", "## Incidents", "## Goodput", "## Attempts", str(run_dir / "sentinel.db")):
        assert expected in text
    assert "| 1 crash | - | 132 | resume | recovered | 32 | 12.0 |" in text
    assert "held-out loss: 1.8750 at step 600" in text
    assert "python3 -m trainer --set schedule.steps=600" in text


def test_a_run_without_incidents_has_a_report_too(tmp_path: Path) -> None:
    text = report_text(tmp_path, state_of(told(5)), at(5))
    assert "## Incidents\n\nNone." in text
    assert "it lives" in text


@pytest.mark.parametrize(
    ("in_s", "words"),
    [
        (630.0, "in 10 min 30 s (a)"),
        (45.0, "in 45 s (a)"),
        (-7300.0, "passed 2 h 1 min ago (a)"),
        (1.2e6, "in 13 days 21 h (a)"),
    ],
)
def test_a_deadline_is_said_in_a_unit_that_says_something_and_one_that_has_passed_has_passed(
    tmp_path: Path, in_s: float, words: str
) -> None:
    status = read_status(write_run(tmp_path / "run")) | {"deadline": {"in_s": in_s, "by": "a"}}
    assert f"deadline    {words}" in status_text(status)
