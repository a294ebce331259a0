"""The sources of a run on a filesystem that really hangs: one folder of the run directory is a mount that stops answering."""

import pytest

from sentinel.client.run_layout import CHECKPOINTS, INBOX, attempt_folder
from sentinel.model.attempts import Alive, Exited, ExitReport
from sentinel.model.readings import Heartbeat, LauncherReading, SourceReading, StepReading
from sentinel.telemetry import run_telemetry, timed_reads
from sentinel.telemetry.run_telemetry import EXIT_WAITS_S, RunTelemetry
from tests.hanging_folder import HangingFolder, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no filesystem that hangs: {why_not()}")
EXITED = Exited(1, ExitReport(0, (), None))


@pytest.fixture(autouse=True)
def no_patience(monkeypatch) -> None:
    monkeypatch.setattr(run_telemetry, "ANSWER_S", 0.2)
    monkeypatch.setattr(run_telemetry, "HURRY_S", 0.2)
    monkeypatch.setattr(timed_reads, "RESUMED_S", 0.05)


@pytest.fixture
def telemetry(world, launcher):
    launcher.view = Alive(1, 10, (11,))
    world.start(1)
    world.steps(1, 1, 2)
    world.beat(1, 0, {"step": 2, "phase": "forward", "time_s": 1.0})
    telemetry = RunTelemetry(world.run_dir, launcher)
    telemetry.follow(1)
    yield telemetry
    telemetry.close()


def of_kind(readings, kind) -> list:
    return [reading for reading in readings if type(reading) is kind]


def blind(readings) -> list[str]:
    return [reading.source for reading in of_kind(readings, SourceReading) if not reading.ok]


@pytest.mark.parametrize("name", [INBOX, CHECKPOINTS])
def test_a_folder_that_hangs_blinds_its_source_and_no_other(name, world, telemetry) -> None:
    with HangingFolder(world.run_dir / name) as folder:
        assert blind(telemetry.poll(1.0)) == []
        folder.hang()
        source = {INBOX: "inbox", CHECKPOINTS: "checkpoints"}[name]
        world.steps(1, 3, 4)
        first = telemetry.poll(40.0)
        assert blind(first) == [source]
        assert [reading.step for reading in of_kind(first, StepReading)] == [3, 4]
        assert not telemetry.has_more
        world.steps(1, 5, 5)
        world.beat(1, 0, {"step": 5, "phase": "forward", "time_s": 2.0})
        second = telemetry.poll(41.0)
        assert blind(second) == []  # said once
        assert len(of_kind(second, StepReading)) == len(of_kind(second, Heartbeat)) == 1
        folder.go_on()
        again = telemetry.poll(42.0)
        while not of_kind(again, SourceReading):
            again = telemetry.poll(42.0)
        assert [(reading.source, reading.ok) for reading in of_kind(again, SourceReading)] == [(source, True)]


def test_heartbeats_that_hang_leave_the_stream_and_the_launcher(world, telemetry, launcher) -> None:
    beats = attempt_folder(world.run_dir, 1) / "heartbeats"
    telemetry.poll(1.0)
    with HangingFolder(beats) as folder:
        folder.hang()
        world.steps(1, 3, 3)
        launcher.view = Alive(1, 10, (12,))
        readings = telemetry.poll(2.0)
        assert blind(readings) == ["heartbeats"]
        assert len(of_kind(readings, StepReading)) == len(of_kind(readings, LauncherReading)) == 1


def test_an_exit_waits_a_minute_for_a_stream_that_hangs_and_is_told_then(tmp_path, world, telemetry, launcher) -> None:
    telemetry.poll(1.0)
    stream = world.stream(1)
    content = stream.read_bytes()
    with HangingFolder(tmp_path / "elsewhere", {"metrics.jsonl": content}) as folder:
        stream.unlink()
        stream.symlink_to(folder.path / "metrics.jsonl")
        telemetry.poll(2.0)
        folder.hang()
        launcher.view = EXITED
        assert blind(telemetry.poll(3.0)) == ["metrics"]
        assert of_kind(telemetry.poll(2.9 + EXIT_WAITS_S), LauncherReading) == []
        assert of_kind(telemetry.poll(3.0 + EXIT_WAITS_S), LauncherReading) == [LauncherReading(EXITED)]


def test_an_exit_comes_behind_the_last_rows_of_a_stream_that_answers_late(tmp_path, world, telemetry, launcher) -> None:
    telemetry.poll(1.0)
    stream = world.stream(1)
    content = stream.read_bytes() + b'{"step":3}\n{"step":4}'
    with HangingFolder(tmp_path / "elsewhere", {"metrics.jsonl": content}) as folder:
        stream.unlink()
        stream.symlink_to(folder.path / "metrics.jsonl")
        folder.hang()
        launcher.view = EXITED
        telemetry.poll(2.0)
        folder.go_on()
        out = []
        while not of_kind(out, LauncherReading):
            out += telemetry.poll(3.0)
        kinds = [reading for reading in out if type(reading) in (StepReading, LauncherReading)]
        assert [getattr(reading, "step", "exit") for reading in kinds][-3:] == [3, 4, "exit"]
