"""A standby waits for the end of a lease that it counts itself, takes a run once, and neither begins nor ends one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.run_layout import LEASE_NAME
from sentinel.errors import AlreadySupervised, Fenced, UsageError
from sentinel.journal.identity import read_own_identity
from sentinel.journal.lease_watch import LeaseWatch
from sentinel.journal.run_file import find_run_file, write_run_file
from sentinel.journal.standbys import StandbyFile, read_standbys
from sentinel.launcher.attempt_view import read_keeper
from sentinel.model.agents import AgentReport
from sentinel.model.events import StopWanted
from sentinel.model.state import RunState, UnseenAttempt
from sentinel.run_files.agent_files import ReportFile
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.supervisor import standby, standby_pages
from sentinel.supervisor.run_request import RunRequest
from sentinel.supervisor.standby import PageUnread, RanksInReach, Standby, is_over, stand_by
from sentinel.supervisor.standby_pages import page_unread_lease
from sentinel.supervisor.systemd import Notifier
from tests.unit.told_run import write_run


class Stops:
    """Stands for StopSignals, and for time: each wait lets so many seconds pass. `then`: what happens after so many waits."""

    def __init__(self, then: dict[int, Callable[[], object]] | None = None) -> None:
        self.now_s, self.waits, self.names, self.events = 0.0, 0, [], []
        self.event: Any = self
        self._then = then or {}

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        self.waits += 1
        assert self.waits < 1000, "it waits for ever"
        self._then.get(self.waits, lambda: None)()
        return bool(self.names)

    def stop(self, *, resumes: bool = False) -> None:
        self.events.append(StopWanted("SIGINT", resumes=resumes))


def write_lease(run_dir: Path, number: float = 1.0, **changed: object) -> None:
    who = {"host": "n1", "pid": 4242, "create_time": 1.0, "boot_id": "another", "since_boot_s": 1.0, "pid_namespace": ""}
    plain = {"epoch": 3, **who, "attempt": 1, "launch": None, "renewed_boot_s": number, **changed}
    (run_dir / LEASE_NAME).write_text(json.dumps(plain))


@pytest.fixture(autouse=True)
def outside_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "NOTIFY_SOCKET"):
        monkeypatch.delenv(name, raising=False)


def waiting(run_dir: Path, stops: Any, page_unread: PageUnread = lambda stage, text: None) -> Standby:
    watch = LeaseWatch(run_dir, lambda: stops.now_s)
    return Standby(run_dir, stops, watch, Notifier(), StandbyFile(run_dir), page_unread)


def test_it_waits_for_the_whole_lease_of_a_machine_that_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lease(tmp_path)
    stops = Stops()
    assert waiting(tmp_path, stops).wait() is None
    assert 60.0 <= stops.now_s <= 62.0
    said = capsys.readouterr().err
    assert "stands by for supervisor epoch 3 (pid 4242 on n1)" in said
    assert "has not changed for 60 s: this standby takes the run over" in said


def test_it_waits_on_while_the_lease_changes(tmp_path: Path) -> None:
    write_lease(tmp_path)
    renewals = {number: lambda number=number: write_lease(tmp_path, float(number)) for number in range(20, 200, 20)}
    stops = Stops(renewals)
    assert waiting(tmp_path, stops).wait() is None
    assert stops.now_s >= 180 * 2.0 + 60.0


def test_a_short_lease_is_waited_for_as_long_as_it_is(tmp_path: Path) -> None:
    write_lease(tmp_path, lasts_s=6.0)
    stops = Stops()
    assert waiting(tmp_path, stops).wait() is None
    assert 6.0 <= stops.now_s <= 6.3


def test_a_supervisor_of_this_machine_that_has_died_is_not_waited_for(tmp_path: Path) -> None:
    me = read_own_identity()
    write_lease(tmp_path, boot_id=me.boot_id, pid=me.pid, since_boot_s=1.5, pid_namespace=me.pid_namespace)
    stops = Stops()
    assert waiting(tmp_path, stops).wait() is None
    assert stops.now_s == 0.0


def test_one_that_let_the_run_go_may_be_back_in_a_moment(tmp_path: Path) -> None:
    """A supervisor that begins anew, with another policy or after it was suspended, releases its lease for that."""
    write_lease(tmp_path, released=True)
    stops = Stops({3: lambda: write_lease(tmp_path, 2.0), 5: lambda: write_lease(tmp_path, 3.0, released=True)})
    assert waiting(tmp_path, stops).wait() is None
    assert 20.0 <= stops.now_s <= 24.0


@pytest.mark.parametrize("has_lease", [True, False])
@pytest.mark.parametrize(("resumes", "code"), [(False, 130), (True, 75)])
def test_a_stop_ends_the_waiting_and_touches_nothing(tmp_path: Path, has_lease: bool, resumes: bool, code: int) -> None:
    if has_lease:
        write_lease(tmp_path)
    stops = Stops()
    stops._then[4] = lambda: stops.stop(resumes=resumes)
    assert stand_by(RunRequest(tmp_path, None, (), "/", standby=True), stops, lambda *_: pytest.fail("taken")) == code
    assert not (tmp_path / "sentinel.db").exists()
    assert read_standbys(tmp_path, 0.0) == ()


def test_where_nobody_has_begun_the_run_it_waits_for_a_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stops = Stops({100: lambda: write_lease(tmp_path)})
    assert waiting(tmp_path, stops).wait() is None
    assert stops.now_s >= 200.0 + 60.0
    assert "nobody has begun this run yet" in capsys.readouterr().err


@pytest.mark.parametrize("left", [None, b"", b'{"epoch": 3, "ho'])
def test_a_lease_that_is_gone_or_damaged_is_told_and_not_taken_for_a_run_that_nobody_has_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left: bytes | None
) -> None:
    (tmp_path / "sentinel.db").touch()
    if left is not None:
        (tmp_path / LEASE_NAME).write_bytes(left)
    seen = []
    stops = Stops({50: lambda: seen.append(read_standbys(tmp_path, 0.0)[0].lacks), 51: lambda: stops.stop()})
    assert waiting(tmp_path, stops).wait() == 130
    said = capsys.readouterr().err
    assert "nobody has begun" not in said
    assert f"start it: sentinel run --run-dir {tmp_path}" in said
    assert said.count("stands by") == 1
    assert "is not there or cannot be read" in seen[0]


def test_a_person_is_called_once_where_the_lease_stays_away_and_told_when_it_is_back(tmp_path: Path) -> None:
    """Nobody can tell whether a supervisor lives, and the standby never takes over on that."""
    (tmp_path / "sentinel.db").touch()
    pages: list[tuple[str, str, float]] = []
    stops = Stops({400: lambda: write_lease(tmp_path), 402: lambda: stops.stop()})
    page_unread = lambda stage, text: pages.append((stage, text, stops.now_s))  # noqa: E731
    assert waiting(tmp_path, stops, page_unread).wait() == 130
    (called, text, at_s), (over, over_text, over_s) = pages
    assert (called, over) == ("trigger", "resolve")
    assert 300.0 <= at_s < 310.0
    assert over_s >= 800.0
    assert f"start it: sentinel run --run-dir {tmp_path} (it has been so for 5 min)" in text
    assert "can be read again" in over_text


def test_a_run_that_nobody_has_begun_and_a_lease_that_is_back_soon_call_nobody(tmp_path: Path) -> None:
    pages: list[str] = []
    stops = Stops({400: lambda: stops.stop()})
    assert waiting(tmp_path, stops, lambda stage, text: pages.append(stage)).wait() == 130
    stops = Stops({100: lambda: write_lease(tmp_path), 102: lambda: stops.stop()})
    (tmp_path / "sentinel.db").touch()
    assert waiting(tmp_path, stops, lambda stage, text: pages.append(stage)).wait() == 130
    assert pages == []


def test_the_call_about_the_lease_goes_by_the_routes_of_the_runs_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = tmp_path / "run"
    write_run(run_dir, until=42)
    monkeypatch.setattr(standby_pages, "_begin_sending", lambda send: send())
    sent = []
    monkeypatch.setattr(standby_pages, "send_own_page", lambda *words: sent.append(words) or True)
    request = RunRequest(run_dir, "default", (), "/", standby=True, pages=("terminal",))
    page_unread_lease(request, run_dir, "trigger", "it is gone")
    assert sent, capsys.readouterr().err
    _, _, route, page, stage, text = sent[0][:6]
    assert (route.name, page.kind, stage, text) == ("terminal", "lease_unreadable", "trigger", "it is gone")
    assert page.answers[1] == f"sentinel run --run-dir {run_dir}"


def test_a_run_directory_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    stops = Stops()
    stops._then[3] = stops.stop
    assert stand_by(RunRequest(tmp_path / "run", None, (), "/", standby=True), stops, lambda *_: 0) == 130
    assert not (tmp_path / "run").exists(), "a standby begins nothing"


def test_whoever_is_beaten_waits_on_and_so_does_one_that_was_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lease(tmp_path)
    stops = Stops()
    monkeypatch.setattr(standby, "LeaseWatch", lambda run_dir: LeaseWatch(run_dir, lambda: stops.now_s))
    ends: list[Any] = [AlreadySupervised("pid 7 was faster"), Fenced("epoch 9 took it"), UsageError("no room"), 0]

    def take(watch: LeaseWatch, lacks: str) -> int:
        assert watch.has_run_out
        end = ends.pop(0)
        write_lease(tmp_path, float(len(ends)))
        if isinstance(end, int):
            return end
        raise end

    assert stand_by(RunRequest(tmp_path, None, (), "/", standby=True), stops, take) == 0
    assert ends == []
    said = capsys.readouterr().err
    assert "pid 7 was faster" in said
    assert "epoch 9 took it; it stands by again" in said
    assert "tries again every 5 s" in said


def test_a_run_that_was_ended_is_left_so_but_one_that_was_suspended_is_what_it_waits_for() -> None:
    assert not is_over(RunState())
    assert not is_over(RunState(ended="suspended"))
    assert all(is_over(RunState(ended=how)) for how in ("finished", "failed", "stopped", "unobserved"))
    unseen = UnseenAttempt(2, "nothing proves its end", 1.0, ())
    assert is_over(RunState(ended="suspended", unseen=unseen)), "a person would not wait"


# -- what it reaches -----------------------------------------------------------------------------------------------------


def with_keeper(run_dir: Path, boot_id: str, launcher: str = "local") -> Path:
    write_run(run_dir, until=42)
    run = find_run_file(run_dir)
    assert run is not None
    import dataclasses

    write_run_file(run_dir, dataclasses.replace(run, launcher=launcher))
    files = AttemptFiles.of(run_dir, 1)
    files.folder.mkdir(parents=True, exist_ok=True)
    plain = {"pid": 7, "create_time": 1.0, "boot_id": boot_id, "host": "n1", "command_pid": 8}
    files.keeper.write_text(json.dumps(plain))
    assert read_keeper(files) is not None
    write_lease(run_dir)
    return run_dir


def lacks(reach: RanksInReach, run_dir: Path) -> str:
    watch = LeaseWatch(run_dir)
    watch.look()
    return reach.lacks(watch.record)


def test_ranks_on_a_machine_that_nothing_reaches_are_named(tmp_path: Path) -> None:
    run_dir = with_keeper(tmp_path / "run", "another")
    words = lacks(RanksInReach(run_dir), run_dir)
    assert "the ranks of attempt 1 live on n1, which the launcher 'local' does not reach" in words
    assert "would start nothing beside them" in words


def test_a_scheduler_or_the_own_machine_reaches_them(tmp_path: Path) -> None:
    for name, boot_id, launcher in (("a", "another", "slurm"), ("b", read_own_identity().boot_id, "local")):
        run_dir = with_keeper(tmp_path / name, boot_id, launcher)
        assert lacks(RanksInReach(run_dir), run_dir) == ""


def test_an_agent_reaches_them_while_it_writes(tmp_path: Path) -> None:
    run_dir = with_keeper(tmp_path / "run", "another")
    reach, file = RanksInReach(run_dir), ReportFile(run_dir, "n1")
    for turn in (1, 2):
        file.write(AgentReport("n1", "another", "life", turn))
        assert lacks(reach, run_dir) == ""
    assert "no agent writes there" in lacks(reach, run_dir)
    file.write(AgentReport("n1", "another", "life", 3, has_left=True))
    assert "no agent writes there" in lacks(reach, run_dir)
