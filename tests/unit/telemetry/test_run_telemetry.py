import os
import socket

import pytest

from sentinel.model.attempts import Alive, Exited, ExitReport, NotStarted, Unseen
from sentinel.model.readings import CheckpointReading, EndReading, Heartbeat, LauncherReading, Receipt, SourceReading, StepReading
from sentinel.telemetry import checkpoints, metrics_jsonl
from sentinel.telemetry.run_telemetry import RunTelemetry
from tests.file_limit import no_file_left

EXITED = Exited(1, ExitReport(0, (), None))


@pytest.fixture
def telemetry(world, launcher):
    telemetry = RunTelemetry(world.run_dir, launcher)
    yield telemetry
    telemetry.close()


def read_all(telemetry, now_s: float = 1.0) -> list[object]:
    readings = list(telemetry.poll(now_s))
    for _ in range(1000):
        if not telemetry.has_more:
            break
        readings += telemetry.poll(now_s)
    return [reading for reading in readings if not isinstance(reading, SourceReading)]


def kinds(readings) -> list[str]:
    return [type(reading).__name__ for reading in readings]


def test_before_an_attempt_is_followed_nothing_is_seen(telemetry, launcher) -> None:
    assert telemetry.poll(1.0) == []
    assert launcher.looks == 0


def test_each_source_says_at_its_first_look_that_it_sees(telemetry) -> None:
    telemetry.follow(1)
    words = [reading for reading in telemetry.poll(1.0) if isinstance(reading, SourceReading)]
    assert {(word.source, word.ok) for word in words} == {
        (name, True) for name in ("metrics", "heartbeats", "checkpoints", "launcher")
    }


def test_where_no_file_is_left_to_open_nothing_raises_and_all_is_read_afterwards(world, telemetry, launcher) -> None:
    telemetry.follow(1)
    launcher.view = Alive(1, 10, (11,))
    world.start(1)
    me = {"phase": "forward", "pid": os.getpid(), "host": socket.gethostname()}
    for step in range(1, 10):
        world.beat(1, 0, me | {"step": step, "time_s": float(step)})
        read_all(telemetry, float(step))
    world.beat(1, 0, me | {"step": 10, "time_s": 10.0})
    world.checkpoint(10)
    with no_file_left():
        blind = [one for now_s in (20.0, 30.0) for one in telemetry.poll(now_s)]
    assert {(one.source, one.ok) for one in blind if isinstance(one, SourceReading)} >= {("heartbeats", False)}
    assert {"CheckpointReading", "Heartbeat"} <= set(kinds(read_all(telemetry, 40.0)))


def test_life_comes_first_and_the_exit_last_of_all(world, telemetry, launcher) -> None:
    telemetry.follow(1)
    launcher.view = Alive(1, 10, (11,))
    world.start(1)
    world.steps(1, 1, 2)
    world.beat(1, 0, {"step": 2, "phase": "forward", "time_s": 1.0})
    assert kinds(read_all(telemetry)) == ["LauncherReading", "Receipt", "StepReading", "StepReading", "Heartbeat"]
    launcher.view = EXITED
    world.steps(1, 3, 3)
    world.checkpoint(3)
    world.write(1, {"kind": "end", "step": 3, "reason": "finished"})
    assert kinds(read_all(telemetry, 2.0)) == ["CheckpointReading", "StepReading", "EndReading", "LauncherReading"]
    assert read_all(telemetry, 3.0) == []


def test_between_whole_looks_rows_are_read_and_the_checkpoints_before_them(world, telemetry, launcher) -> None:
    """A commit may be heard by nobody: a manifest that is written in place rings no bell."""
    telemetry.follow(1)
    launcher.view = Alive(1, 10, (11,))
    world.start(1)
    read_all(telemetry)
    world.steps(1, 1, 1)
    world.checkpoint(1)
    world.steps(1, 2, 2)
    world.beat(1, 0, {"step": 2, "phase": "forward", "time_s": 1.0})
    looks = launcher.looks
    assert kinds(telemetry.poll_steps(1.1)) == ["CheckpointReading", "StepReading", "StepReading"]
    assert launcher.looks == looks
    launcher.view = EXITED
    world.steps(1, 3, 3)
    assert kinds(read_all(telemetry, 2.0)) == ["StepReading", "Heartbeat", "LauncherReading"]


def test_every_checkpoint_is_told_before_the_steps_of_a_backlog(world, telemetry, launcher, monkeypatch) -> None:
    """Whoever decides on a rollback must know what there is to go back to."""
    monkeypatch.setattr(checkpoints, "READINGS_PER_POLL", 2)
    launcher.view = Alive(1, 10, (11,))
    world.start(1)
    world.steps(1, 1, 9)
    for step in (2, 4, 6, 8):
        world.checkpoint(step)
    telemetry.follow(1)
    found = [kind for kind in kinds(read_all(telemetry)) if kind in ("CheckpointReading", "StepReading")]
    assert found == ["CheckpointReading"] * 4 + ["StepReading"] * 9


def test_an_exit_waits_until_a_long_stream_is_read(world, telemetry, launcher, monkeypatch) -> None:
    monkeypatch.setattr(metrics_jsonl, "LINES_PER_POLL", 10)
    telemetry.follow(1)
    launcher.view = EXITED
    world.start(1)
    world.steps(1, 1, 95)
    for _ in range(9):
        assert LauncherReading(EXITED) not in telemetry.poll(1.0)
        assert telemetry.has_more
    assert kinds(read_all(telemetry))[-2:] == ["StepReading", "LauncherReading"]


def test_the_torn_last_line_of_a_dead_attempt_is_read_before_its_exit(world, telemetry, launcher) -> None:
    telemetry.follow(1)
    launcher.view = EXITED
    world.write(1, {"step": 1}, b'{"step":2}')
    assert kinds(read_all(telemetry)) == ["StepReading", "StepReading", "LauncherReading"]


def test_an_exit_is_told_even_when_the_stream_cannot_be_read(world, telemetry, launcher) -> None:
    telemetry.follow(1)
    launcher.view = EXITED
    world.stream(1).mkdir()
    readings = telemetry.poll(1.0)
    assert ("metrics", False) in [(r.source, r.ok) for r in readings if isinstance(r, SourceReading)]
    assert readings[-1] == LauncherReading(EXITED)


def test_following_another_attempt_starts_at_the_beginning_of_its_files(world, telemetry, launcher) -> None:
    world.start(1)
    world.steps(1, 1, 10)
    world.checkpoint(8)
    telemetry.follow(1)
    assert len(read_all(telemetry)) == 13
    telemetry.follow(2)
    launcher.view = NotStarted(2)
    world.start(2, resume_step=8)
    world.steps(2, 9, 9)
    readings = read_all(telemetry, 2.0)
    assert kinds(readings) == ["LauncherReading", "Receipt", "StepReading"]  # the checkpoint belongs to the run, and is known
    assert isinstance(readings[1], Receipt)
    assert [(reading.attempt, reading.step) for reading in readings[1].history] == [(1, step) for step in range(1, 9)]


def test_following_the_same_attempt_again_changes_nothing(world, telemetry) -> None:
    telemetry.follow(1)
    world.steps(1, 1, 3)
    read_all(telemetry)
    telemetry.follow(1)
    assert read_all(telemetry, 2.0) == []


def test_a_new_supervisor_reads_everything_anew(world, launcher) -> None:
    world.steps(1, 1, 3)
    world.beat(1, 0, {"step": 3, "phase": "data", "time_s": 1.0})
    world.checkpoint(2)
    for _ in range(2):
        telemetry = RunTelemetry(world.run_dir, launcher)
        telemetry.follow(1)
        readings = read_all(telemetry)
        telemetry.close()
        assert {StepReading, Heartbeat, CheckpointReading, LauncherReading} == {type(reading) for reading in readings}


def test_a_blindness_that_began_in_one_attempt_ends_in_the_next(world, telemetry, launcher) -> None:
    telemetry.follow(1)
    world.stream(1).mkdir()
    launcher.view = Unseen(1, "gone")
    telemetry.poll(1.0)
    telemetry.follow(2)
    launcher.view = NotStarted(2)
    words = [(r.source, r.ok) for r in telemetry.poll(2.0) if isinstance(r, SourceReading)]
    assert words == [("launcher", True), ("metrics", True)]


def test_an_end_line_is_told_before_the_exit_of_the_same_look(world, telemetry, launcher) -> None:
    telemetry.follow(1)
    world.write(1, {"kind": "end", "step": 3, "reason": "stopped_on_request"})
    launcher.view = EXITED
    assert read_all(telemetry) == [EndReading(1, 3, "stopped_on_request"), LauncherReading(EXITED)]


def test_damaged_lines_are_counted_and_said(world, telemetry) -> None:
    telemetry.follow(1)
    world.write(1, b"garbage\n", {"step": 1})
    said = [reading.reason for reading in telemetry.poll(1.0) if isinstance(reading, SourceReading)]
    assert any("1 damaged line(s) left out" in reason for reason in said), said


def test_what_was_printed_is_searched_to_its_end_before_the_exit_is_told(world, launcher, monkeypatch) -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")
    from sentinel.policy.line_patterns import compile_pattern
    from sentinel.telemetry import log_patterns

    monkeypatch.setattr(log_patterns, "READ_BYTES", 4096)
    monkeypatch.setattr(log_patterns, "BLOCK_BYTES", 1024)
    logs = world.run_dir / "attempts" / "0001" / "logs"
    logs.mkdir(parents=True)
    telemetry = RunTelemetry(world.run_dir, launcher)
    telemetry.look_for([("Ecc", compile_pattern("ECC error"))])
    telemetry.follow(1)
    launcher.view = Alive(1, 10, (11,))
    world.start(1)
    world.steps(1, 1, 2)
    assert "LogMatch" not in kinds(read_all(telemetry))
    (logs / "rank-00001.err").write_text("a flood\n" * 4000 + "ECC error")
    launcher.view = EXITED
    seen = kinds(read_all(telemetry, 2.0))
    assert seen.count("LogMatch") == 1, "a last line without an end, too"
    assert seen.index("LogMatch") < seen.index("LauncherReading")
    telemetry.close()


def test_logs_that_cannot_be_searched_are_said_to_be_and_hold_no_exit_up(world, launcher, monkeypatch) -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")
    from sentinel.policy.line_patterns import compile_pattern
    from sentinel.telemetry.log_patterns import LogPatterns

    def denied(self, now_s: float, *, is_over: bool = False):
        raise PermissionError(13, "Permission denied", "logs")

    monkeypatch.setattr(LogPatterns, "poll", denied)
    telemetry = RunTelemetry(world.run_dir, launcher)
    telemetry.look_for([("Ecc", compile_pattern("ECC error"))])
    telemetry.follow(1)
    world.start(1)
    launcher.view = EXITED
    readings = [reading for now_s in (1.0, 2.0, 3.0) for reading in telemetry.poll(now_s)]
    words = [r for r in readings if isinstance(r, SourceReading) and r.source == "log patterns"]
    assert [(word.ok, word.reason) for word in words] == [(False, "logs: Permission denied")]
    assert any(isinstance(reading, LauncherReading) for reading in readings)
    telemetry.close()
