"""Reports write themselves in a thread that nobody waits for, and what goes wrong costs the report alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.model.paging import IncidentPage
from sentinel.report.html import keeper, writing
from sentinel.report.html.keeper import ReportKeeper
from tests.integration.supervised import wait_for
from tests.unit.report.streamed_run import write_streamed
from tests.unit.told_run import at, state_of, told


def test_an_incident_that_is_over_is_told_while_the_run_goes_on_and_the_run_at_its_end(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    states = [state_of(told(80))]
    reports = ReportKeeper(run_dir, lambda: states[-1], every_s=0.01)
    wait_for("the report of incident 1", (run_dir / "incidents/0001/report.html").is_file)
    assert not (run_dir / "report.html").exists()
    states.append(state_of(told()))
    reports.close()
    reports.close()
    assert "2 incidents" in (run_dir / "report.html").read_text()
    assert "It is repaired" in (run_dir / "incidents/0002/report.html").read_text()


def test_a_supervisor_that_leaves_a_run_going_on_writes_nothing_more(tmp_path: Path) -> None:
    """Its journal is out of reach, or another one took over; whoever goes on must not wait for reports."""
    run_dir = write_streamed(tmp_path / "demo", until=80)
    ReportKeeper(run_dir, lambda: state_of(told(80)), every_s=60).close()
    assert not (run_dir / "report.html").exists()
    assert not (run_dir / "incidents").exists()


def test_each_is_written_once_and_again_only_when_something_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int | None] = []
    wrote = threading.Semaphore(0)

    def note(run_dir: Path, number: int | None, out: object, with_texts: bool) -> Path:
        written.append(number)
        wrote.release()
        return run_dir

    monkeypatch.setattr(writing, "report_command", note)
    looks = threading.Semaphore(0)
    states = [state_of(told(80))]

    def latest() -> object:
        looks.release()
        return states[-1]

    reports = ReportKeeper(tmp_path, latest, every_s=0.001)  # type: ignore[arg-type]
    assert wrote.acquire(timeout=10)
    for _ in range(5):
        assert looks.acquire(timeout=10)
    assert written == [1]
    crash, *others = states[-1].incidents
    page = IncidentPage("critical", "a crash", "the case", at(31), resolved="a person says so", resolved_s=at(40))
    states.append(replace(states[-1], incidents=(replace(crash, page=page), *others)))
    assert wrote.acquire(timeout=10), "that its page was resolved is part of the story"
    states.append(state_of(told()))
    assert wrote.acquire(timeout=10)
    reports.close()
    assert written[:2] == [1, 1]
    assert written[-1] is None
    assert 2 in written


def test_what_an_earlier_supervisor_told_is_not_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    (run_dir / "incidents/0001").mkdir(parents=True)
    (run_dir / "incidents/0001/report.html").write_text("told")
    ReportKeeper(run_dir, lambda: state_of(told()), every_s=60).close()
    assert (run_dir / "incidents/0001/report.html").read_text() == "told"
    assert (run_dir / "incidents/0002/report.html").stat().st_size > 1000


def broken_disk(*_: object) -> Path:
    raise UsageError("incidents/0001/report.html: cannot be written: No space left on device")


def bug(*_: object) -> Path:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(("trouble", "said"), [(broken_disk, "No space left"), (bug, "ZeroDivisionError: a bug")])
def test_what_goes_wrong_is_said_once_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trouble: Callable[..., Path], said: str
) -> None:
    monkeypatch.setattr(writing, "report_command", trouble)
    reports = ReportKeeper(tmp_path, lambda: state_of(told()), every_s=0.001)
    reports.close()
    reports.close()
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("`sentinel report") == 1


def test_a_disk_that_hangs_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hangs = threading.Event()

    def hang(*_: object) -> Path:
        hangs.wait()
        return tmp_path

    monkeypatch.setattr(writing, "report_command", hang)
    monkeypatch.setattr(keeper, "CLOSE_S", 0.05)
    reports = ReportKeeper(tmp_path, lambda: state_of(told()), every_s=0.001)
    reports.close()
    assert "it took too long" in capsys.readouterr().err
    hangs.set()


def test_a_run_that_never_launched_leaves_no_report(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo", until=0)
    ReportKeeper(run_dir, lambda: state_of([]), every_s=60).close()
    assert not (run_dir / "report.html").exists()
