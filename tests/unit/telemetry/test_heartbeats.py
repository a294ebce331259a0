import io
import os

import pytest

from sentinel.model.readings import Heartbeat, SourceReading
from sentinel.telemetry import heartbeats
from sentinel.telemetry.heartbeats import Heartbeats


@pytest.fixture
def beats(world):
    beats = Heartbeats(world.run_dir, 1)
    assert [reading.ok for reading in beats.poll(0.0)] == [True]  # no folder yet, and nothing wrong with that
    return beats


def beat(step: int, phase: str = "forward", time_s: float = 1.0) -> dict[str, object]:
    return {"step": step, "phase": phase, "time_s": time_s, "pid": 1, "host": "a"}


def test_each_change_is_one_reading_per_rank_in_rank_order(world, beats) -> None:
    world.beat(1, 10, beat(3))
    world.beat(1, 2, beat(4, "backward"))
    assert beats.poll(1.0) == [Heartbeat(1, 2, 4, "backward", 1.0, host="a"), Heartbeat(1, 10, 3, "forward", 1.0, host="a")]
    assert beats.poll(2.0) == []
    world.beat(1, 10, beat(4))
    assert beats.poll(3.0) == [Heartbeat(1, 10, 4, "forward", 1.0, host="a")]


def test_a_file_written_again_with_the_same_content_is_no_beat(world, beats) -> None:
    world.beat(1, 0, beat(3))
    beats.poll(1.0)
    world.beat(1, 0, beat(3))
    assert beats.poll(2.0) == []


def test_an_unchanged_file_is_not_opened(world, beats, monkeypatch) -> None:
    for rank in range(20):
        world.beat(1, rank, beat(3))
    assert len(beats.poll(1.0)) == 20
    monkeypatch.setattr(heartbeats, "open", lambda *_: pytest.fail("opened a file that did not change"), raising=False)
    assert beats.poll(2.0) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"step":"x","phase":"data"}', b'{"step":1}', b"\xff\0"])
def test_a_damaged_file_is_left_out_and_tried_again(world, beats, content: bytes) -> None:
    world.beat(1, 0, content)
    world.beat(1, 1, beat(5))
    assert beats.poll(1.0) == [Heartbeat(1, 1, 5, "forward", 1.0, host="a")]
    world.beat(1, 0, beat(6))
    assert beats.poll(2.0) == [Heartbeat(1, 0, 6, "forward", 1.0, host="a")]


def test_a_phase_of_a_newer_trainer_is_still_a_beat(world, beats) -> None:
    world.beat(1, 0, beat(5, "reticulating"))
    assert beats.poll(1.0) == [Heartbeat(1, 0, 5, "idle", 1.0, host="a")]


def test_other_files_in_the_folder_are_nothing(world, beats) -> None:
    world.beat(1, 0, beat(5))
    (world.attempt(1) / "heartbeats" / "rank-x.json").write_text("{}")
    (world.attempt(1) / "heartbeats" / ".rank-00001.json.9.tmp").write_text("{}")
    assert len(beats.poll(1.0)) == 1


def test_a_folder_that_cannot_be_listed_is_blindness_said_once(world, beats) -> None:
    folder = world.attempt(1) / "heartbeats"
    folder.write_text("a file")
    assert [(reading.source, reading.ok) for reading in beats.poll(1.0)] == [("heartbeats", False)]
    assert beats.poll(2.0) == []
    folder.unlink()
    assert beats.poll(3.0) == [SourceReading("heartbeats", True, "it can be read")]


def test_how_long_a_rank_was_busy_is_read_where_it_is_told(world, beats) -> None:
    world.beat(1, 0, beat(5) | {"busy_s": 0.25, "busy_step": 4})
    world.beat(1, 1, beat(5))
    assert [(reading.busy_s, reading.busy_step) for reading in beats.poll(1.0)] == [(0.25, 4), (None, 0)]


@pytest.mark.parametrize(
    "odd", [{"busy_s": -1, "busy_step": 4}, {"busy_s": "x", "busy_step": 4}, {"busy_s": 1}, {"busy_step": 1}]
)
def test_a_busy_time_that_is_none_is_left_out_and_the_beat_is_not(world, beats, odd) -> None:
    world.beat(1, 0, beat(5) | odd)
    assert beats.poll(1.0) == [Heartbeat(1, 0, 5, "forward", 1.0, host="a")]


@pytest.mark.parametrize(
    "host", ["a,b", "a\0", "\x1b[31ma", "a\nb", "a b", "\ud800", "a;reboot", "n[1-9]", "-w", "a" * 256, "", 7, None]
)
def test_a_host_that_could_not_stand_in_the_environment_of_a_command_is_not_told(world, beats, host) -> None:
    world.beat(1, 0, beat(5) | {"host": host})
    assert beats.poll(1.0) == [Heartbeat(1, 0, 5, "forward", 1.0)]


def test_two_beats_within_one_tick_of_the_files_clock_are_both_seen(world, beats) -> None:
    world.beat(1, 0, beat(3, "data"))
    path = world.attempt(1) / "heartbeats" / "rank-00000.json"
    before = path.stat()
    assert [reading.phase for reading in beats.poll(1.0)] == ["data"]
    path.write_text(path.read_text().replace('"data"', '"eval"'))  # as long, in the same file, and as old for all one can see
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert [reading.phase for reading in beats.poll(1.1)] == ["eval"]


def test_a_beat_that_changes_while_it_is_read_is_read_again(world, beats, monkeypatch) -> None:
    world.beat(1, 0, beat(3))
    path = world.attempt(1) / "heartbeats" / "rank-00000.json"
    torn = [path.read_bytes()[:20] + b"#" * 20, path.read_bytes()]

    class Torn(io.BytesIO):
        def read(self, *_: object) -> bytes:
            return torn.pop(0) if torn else path.read_bytes()

    monkeypatch.setattr(heartbeats, "open", lambda *_, **how: Torn(), raising=False)
    assert beats.poll(1.0) == []
    assert beats.poll(1.01) == [Heartbeat(1, 0, 3, "forward", 1.0, host="a")]
