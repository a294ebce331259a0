import pytest

from sentinel.model.attempts import Alive, Exited, ExitReport, NotStarted, Unseen
from sentinel.model.readings import LauncherReading, SourceReading
from sentinel.telemetry.launcher_watch import LOOK_EVERY_S, LauncherWatch


@pytest.fixture
def watch(world, launcher):
    watch = LauncherWatch(launcher, world.run_dir, 1)
    assert watch.poll(0.0) == [SourceReading("launcher", True, "it can be read"), LauncherReading(NotStarted(1))]
    return watch


def test_a_view_is_reported_when_it_changes(watch, launcher) -> None:
    launcher.view = Alive(1, 10, (11, 12))
    assert watch.poll(1.0) == [LauncherReading(Alive(1, 10, (11, 12)))]
    assert watch.poll(2.0) == []
    launcher.view = Alive(1, 10, (11,))
    assert watch.poll(3.0) == [LauncherReading(Alive(1, 10, (11,)))]


def test_a_look_is_taken_only_so_often(watch, launcher) -> None:
    for hundredths in range(1, 50):
        watch.poll(hundredths / 100)
    assert launcher.looks == 1
    watch.poll(LOOK_EVERY_S)
    assert launcher.looks == 2


def test_the_keepers_exit_file_brings_the_next_look_forward(world, watch, launcher) -> None:
    launcher.view = Exited(1, ExitReport(0, (), None))
    (world.attempt(1) / "exit.json").write_text("{}")
    assert watch.poll(0.01) == [LauncherReading(launcher.view)]


def test_an_attempt_that_has_exited_is_looked_at_no_more(watch, launcher) -> None:
    launcher.view = Exited(1, ExitReport(0, (), None))
    watch.poll(1.0)
    looks = launcher.looks
    for now_s in range(2, 20):
        assert watch.poll(float(now_s)) == []
    assert launcher.looks == looks


def test_not_being_able_to_look_is_blindness_and_says_nothing_about_the_attempt(watch, launcher) -> None:
    launcher.view = Unseen(1, "the host does not answer")
    assert watch.poll(1.0) == [SourceReading("launcher", False, "the host does not answer")]
    assert watch.poll(2.0) == []
    launcher.view = NotStarted(1)
    assert watch.poll(3.0) == [SourceReading("launcher", True, "it can be read"), LauncherReading(NotStarted(1))]
