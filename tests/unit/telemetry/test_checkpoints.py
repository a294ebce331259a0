import os
import shutil

import pytest

from sentinel.checkpoints import manifest as manifest_file
from sentinel.client.strict_json import loads
from sentinel.model.readings import CheckpointReading
from sentinel.telemetry import checkpoints
from sentinel.telemetry.checkpoints import RELIST_S, YOUNG_S, CheckpointSource


@pytest.fixture
def source(world):
    source = CheckpointSource(world.run_dir)
    assert [reading.ok for reading in source.poll(0.0)] == [True]
    return source


def steps_of(readings) -> list[int]:
    return [reading.step for reading in readings if isinstance(reading, CheckpointReading)]


def test_a_checkpoint_is_reported_once_with_its_cursor_and_digest(world, source) -> None:
    world.checkpoint(20, attempt=2)
    (reading,) = source.poll(1.0)
    assert (reading.step, reading.path, reading.attempt, reading.samples_end) == (20, "checkpoints/step-00000020", 2, 200)
    assert len(reading.digest) == 64
    assert source.poll(2.0) == []


def test_what_was_there_before_comes_oldest_first(world, source) -> None:
    for step in (300, 100, 200):
        world.checkpoint(step)
    assert steps_of(source.poll(1.0)) == [100, 200, 300]


def test_a_directory_without_a_manifest_waits_for_it(world, source) -> None:
    folder = world.run_dir / "checkpoints" / "step-00000005"
    folder.mkdir(parents=True)
    for now_s in range(10):
        assert source.poll(float(now_s)) == []
    (folder / "manifest.json").write_text('{"step": 5, "attempt": 1, "cursor"')
    assert source.poll(11.0) == []
    (folder / "manifest.json").write_text('{"step": 5, "attempt": 1, "cursor": 50}')
    assert steps_of(source.poll(12.0)) == [5]


def test_temporary_directories_are_nothing(world, source) -> None:
    world.checkpoint(5).rename(world.run_dir / "checkpoints" / ".step-00000005.77.ab.tmp")
    assert source.poll(1.0) == []


def test_a_checkpoint_saved_again_after_a_rollback_is_a_new_one(world, source) -> None:
    folder = world.checkpoint(5, attempt=1)
    (first,) = source.poll(1.0)
    shutil.rmtree(folder)
    world.checkpoint(5, attempt=2)
    (second,) = source.poll(100.0)
    assert (first.attempt, second.attempt) == (1, 2)


def test_while_nothing_happens_the_directory_is_not_listed(world, source, monkeypatch) -> None:
    world.checkpoint(5)
    source.poll(10.0)
    listings = []
    monkeypatch.setattr(checkpoints, "list_entries", lambda run_dir: listings.append(run_dir) or ["step-00000005"])
    source.poll(10.0 + YOUNG_S)  # the change is young: a second one within the same tick of the filesystem's clock may hide
    assert len(listings) == 1
    for tenths in range(21, 200):
        source.poll(10.0 + tenths / 10)
    assert len(listings) == 1
    source.poll(12.0 + RELIST_S)
    assert len(listings) == 2


def test_a_batch_is_bounded(world, source, monkeypatch) -> None:
    monkeypatch.setattr(checkpoints, "READINGS_PER_POLL", 2)
    for step in range(1, 6):
        world.checkpoint(step)
    assert [steps_of(source.poll(100.0)) for _ in range(4)] == [[1, 2], [3, 4], [5], []]
    assert not source.has_more


def test_a_directory_that_cannot_be_read_is_blindness_said_once(world, source) -> None:
    (world.run_dir / "checkpoints").write_text("a file")
    os.utime(world.run_dir / "checkpoints", (1, 1))
    assert [(reading.source, reading.ok) for reading in source.poll(1.0)] == [("checkpoints", False)]
    assert source.poll(2.0) == []
    (world.run_dir / "checkpoints").unlink()
    world.checkpoint(7)
    assert [type(reading).__name__ for reading in source.poll(3.0)] == ["SourceReading", "CheckpointReading"]


def test_all_of_them_are_read_at_once_and_a_directory_that_cannot_be_read_is_no_empty_one(world) -> None:
    assert checkpoints.read_all(world.run_dir) == ()
    world.checkpoint(7)
    world.checkpoint(5)
    assert steps_of(checkpoints.read_all(world.run_dir)) == [5, 7]
    (world.run_dir / "checkpoints").rename(world.run_dir / "away")
    (world.run_dir / "checkpoints").write_text("a file")
    with pytest.raises(NotADirectoryError):
        checkpoints.read_all(world.run_dir)


@pytest.fixture
def manifests_read(monkeypatch):
    """One entry for every manifest whose content was parsed."""
    read = []
    monkeypatch.setattr(manifest_file, "loads", lambda data: read.append(data) or loads(data))
    return read


def remarks_of(readings) -> list[str]:
    return [reading.reason for reading in readings if getattr(reading, "remark", False)]


def test_a_manifest_that_is_too_large_is_told_once_by_its_size_and_no_byte_of_it_is_read(world, source, manifests_read) -> None:
    place = world.checkpoint(5) / "manifest.json"
    os.truncate(place, manifest_file.MANIFEST_BYTES_MAX + 1)
    (words,) = remarks_of(source.poll(1.0))
    for part in (str(place), str(manifest_file.MANIFEST_BYTES_MAX + 1), str(manifest_file.MANIFEST_BYTES_MAX)):
        assert part in words
    assert [source.poll(float(now_s)) for now_s in range(2, 100)] == [[]] * 98
    assert manifests_read == []
    place.write_text('{"step": 5, "attempt": 1}')
    assert steps_of(source.poll(100.0)) == [5]


def test_a_manifest_that_is_none_is_judged_again_when_it_is_no_longer_young_and_then_never(world, source, manifests_read) -> None:
    place = world.checkpoint(5) / "manifest.json"
    place.write_text('{"step": 5, "att')
    assert source.poll(1.0) == []
    (words,) = remarks_of(source.poll(1.0 + 2 * YOUNG_S))
    assert f"{place}: is not a manifest" in words
    assert [source.poll(float(now_s)) for now_s in range(10, 100)] == [[]] * 90
    assert len(manifests_read) == 2
    place.write_text('{"step": 6, "attempt": 1}')
    source.poll(100.0)
    assert "is of step 6, and the directory of step 5" in remarks_of(source.poll(100.0 + 2 * YOUNG_S))[0]


def test_a_manifest_that_cannot_be_read_now_is_tried_again_and_no_verdict(world, source, monkeypatch) -> None:
    world.checkpoint(5)

    def fails(path, mode, **how):
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(manifest_file, "open", fails, raising=False)
        assert [source.poll(float(now_s)) for now_s in range(1, 20)] == [[]] * 19
    assert steps_of(source.poll(20.0)) == [5]
