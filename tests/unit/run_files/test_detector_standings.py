"""What every detector says reaches a person: written by the supervisor, read by `sentinel status`, unknown wherever it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.run_layout import STANDINGS_NAME
from sentinel.model.findings import Verdict
from sentinel.model.readings import SourceReading
from sentinel.report.detectors import detector_rows
from sentinel.report.reading import read_status
from sentinel.report.text import status_text
from sentinel.run_files.detector_standings import StandingsFile, read_standings
from tests.builders import Bench
from tests.unit.told_run import at, write_run


def trained(steps: int = 90) -> Bench:
    return Bench().launched().steps(1, steps)


def verdicts(run_dir: Path) -> dict[str, tuple[str, str]]:
    return {kind: (verdict, reason) for kind, verdict, reason in read_standings(run_dir).verdicts}


def test_what_is_read_is_what_the_detectors_say(tmp_path: Path) -> None:
    bench = trained()
    StandingsFile(tmp_path).write(77.0, bench.engine)
    told = read_standings(tmp_path)
    assert (told.time_s, told.attempt, told.step, told.missing) == (77.0, 1, 90, "")
    assert verdicts(tmp_path) == {str(k): (str(v), r) for k, (v, r) in bench.engine.detectors.verdicts().items()}
    assert verdicts(tmp_path)["spike"][0] == "healthy"


def test_a_blind_source_makes_them_unknown_and_an_end_too(tmp_path: Path) -> None:
    bench = trained()
    bench.tell(SourceReading("metrics", False, "stale handle"))
    StandingsFile(tmp_path).write(1.0, bench.engine)
    assert verdicts(tmp_path)["spike"] == ("unknown", "metrics cannot be seen: stale handle")
    bench.exits(signal=9)
    StandingsFile(tmp_path).write(2.0, bench.engine)
    assert verdicts(tmp_path)["spike"] == ("unknown", "no attempt is running")


def test_before_the_first_attempt_nothing_is_healthy(tmp_path: Path) -> None:
    StandingsFile(tmp_path).write(0.0, Bench().engine)
    assert read_standings(tmp_path).attempt == 0
    assert "healthy" not in {verdict for verdict, _ in verdicts(tmp_path).values()}


def test_it_is_written_every_five_seconds_and_when_a_verdict_changes(tmp_path: Path) -> None:
    bench, file = trained(), StandingsFile(tmp_path)
    written = []
    for tenth in range(120):
        if tenth == 80:
            bench.tell(SourceReading("metrics", False, "stale handle"))
        file.keep(tenth / 10, bench.engine)
        written.append(read_standings(tmp_path).time_s)
    assert sorted(set(written)) == [0.0, 5.0, 8.0]


def test_a_reason_that_moves_is_no_change_of_class(tmp_path: Path) -> None:
    bench, file = trained(), StandingsFile(tmp_path)
    bench.tell(SourceReading("metrics", False, "stale handle"))
    file.keep(0.0, bench.engine)
    bench.tell(SourceReading("metrics", True, "it can be read"))
    bench.tell(SourceReading("metrics", False, "permission denied"))
    file.keep(2.0, bench.engine)
    assert read_standings(tmp_path).time_s == 0.0


def test_a_disk_that_says_no_disturbs_nobody_and_is_asked_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def full(path: Path, data: bytes, *, durable: bool) -> None:
        asked.append(path)
        raise OSError(28, "No space left on device")

    bench, file = trained(), StandingsFile(tmp_path)
    monkeypatch.setattr("sentinel.run_files.detector_standings.write_atomically", full)
    for tenth in range(60):
        file.keep(tenth / 10, bench.engine)
    assert len(asked) == 2
    monkeypatch.undo()
    file.keep(10.0, bench.engine)
    assert read_standings(tmp_path).time_s == 10.0


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"v": 1}', '{"v": 1, "time_s": 1, "attempt": 1, "step": 1, "detectors": [1]}',
        '{"v": 1, "time_s": "x", "attempt": 1, "step": 1, "detectors": []}',
        '{"v": 1, "time_s": 1, "attempt": 1, "step": 1, "detectors": [{"kind": "spike", "verdict": "fine", "reason": ""}]}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_said_and_is_no_error(tmp_path: Path, text: str) -> None:
    run_dir = write_run(tmp_path / "run")
    (run_dir / STANDINGS_NAME).write_text(text)
    status = read_status(run_dir)
    assert "damaged" in status["detectors"]["missing"]
    assert status["detectors"]["verdicts"] == []
    assert "detectors   nothing is known of them: senses.json is damaged" in status_text(status)


def test_a_missing_file_an_unreadable_one_and_one_of_a_newer_version_are_said(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    assert read_status(run_dir)["detectors"]["missing"] == "no supervisor has written senses.json yet"
    (run_dir / STANDINGS_NAME).write_text('{"v": 2}')
    assert "version 2, this sentinel reads version 1" in status_text(read_status(run_dir))
    (run_dir / STANDINGS_NAME).unlink()
    (run_dir / STANDINGS_NAME).mkdir()
    assert "cannot be read" in status_text(read_status(run_dir))


def test_a_run_without_a_supervisor_says_as_of_whom(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=91)
    StandingsFile(run_dir).write(at(91), trained().engine)
    status = json.loads(json.dumps(read_status(run_dir)))
    assert status["detectors"]["age_s"] > 0
    text = status_text(status)
    assert "as of the last supervisor, " in text
    assert "; nobody judges now" in text


def told(**changes: Any) -> dict[str, Any]:
    said = [
        ("spike", Verdict.HEALTHY, "in its band"), ("plateau", Verdict.UNKNOWN, "no val_loss is logged"),
        ("hang", Verdict.BREACHED, "silent for 90 s"), ("drift", Verdict.HEALTHY, "level"),
        ("generalisation", Verdict.UNKNOWN, "no val_loss is logged"), ("slowdown", Verdict.UNKNOWN, "12 of 40 steps timed"),
    ]  # fmt: skip
    rows = [{"kind": kind, "verdict": str(verdict), "reason": reason} for kind, verdict, reason in said]
    return {"age_s": 2.0, "attempt": 3, "step": 400, "missing": "", "unwritten_remarks": 0, "verdicts": rows} | changes


def test_breached_first_then_unknown_by_reason_then_the_healthy_in_one_line() -> None:
    assert detector_rows(told(), is_watched=True) == [
        ("detectors", "as of 2 s ago, attempt 3, step 400"),
        ("breached", "hang: silent for 90 s"),
        ("unknown", "plateau, generalisation: no val_loss is logged"),
        ("unknown", "slowdown: 12 of 40 steps timed"),
        ("healthy", "spike, drift"),
    ]


def test_an_old_file_of_a_living_supervisor_is_said_to_be_old() -> None:
    (_, words), *_ = detector_rows(told(age_s=600.0, unwritten_remarks=7), is_watched=True)
    assert words.startswith("as of 10 min ago")
    assert "what holds now is not known" in words
    assert "7 more" in detector_rows(told(unwritten_remarks=7), is_watched=True)[-1][1]


def test_of_a_run_that_is_over_one_line_says_it_of_all() -> None:
    rows = [row | {"verdict": "unknown", "reason": "no attempt is running"} for row in told()["verdicts"]]
    assert detector_rows(told(verdicts=rows), is_watched=False)[1:] == [("unknown", "every one of them: no attempt is running")]
