"""The process that pushes: what it tells and when, what a later one knows of it, and that there is one of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sentinel.client.strict_json import loads
from sentinel.errors import UsageError
from sentinel.mirrors.command import Pushing, only_pusher
from sentinel.mirrors.settings import MirrorSettings
from sentinel.run_files.mirror_standing import MirrorStanding, read_mirror_standing
from tests.unit.mirrors.kit import SmallRun


@pytest.fixture
def run(tmp_path: Path) -> SmallRun:
    return SmallRun(tmp_path / "run").begin().checkpoint(10)


def pushing(run: SmallRun, to: Path, said: list[str], tells: bool = False) -> Pushing:
    return Pushing(run.run_dir, MirrorSettings(str(to), every_steps=10), run.run_id, said.append, tells)


def test_asked_to_end_it_pushes_once_more_and_tells_how_far_it_came(run: SmallRun, tmp_path: Path) -> None:
    said: list[str] = []
    stop = threading.Event()
    stop.set()
    following = pushing(run, tmp_path / "mirror", said, tells=True)
    following.follow(stop)
    standings = [line for line in said if line.startswith("{")]  # a part that failed says so after its own
    last = MirrorStanding.of(loads(standings[-1]))
    assert last.parts["journal"].there == "3 entries"
    assert last.parts["journal"].since_s is not None
    assert "step 10 is not across yet" in last.parts["checkpoints"].error, "between two files it ends"
    assert not following.is_complete
    assert read_mirror_standing(run.run_dir) == last


def test_what_does_not_work_is_told_once_and_again_when_it_is_another_thing(run: SmallRun, tmp_path: Path) -> None:
    said: list[str] = []
    place = tmp_path / "mirror"
    one = pushing(run, place, said)
    stop = threading.Event()
    assert one.once(stop)
    place.rename(tmp_path / "away")
    del said[:]
    for _ in range(3):
        assert not one.once(stop)
    assert len([line for line in said if line.startswith("journal not mirrored: ")]) == 1
    (tmp_path / "away").rename(place)
    assert one.once(stop)


def test_a_later_process_counts_from_what_the_one_before_had_reached(run: SmallRun, tmp_path: Path) -> None:
    pushing(run, tmp_path / "mirror", []).once(threading.Event())
    before = read_mirror_standing(run.run_dir)
    pushing(run, tmp_path / "mirror", [])
    after = read_mirror_standing(run.run_dir)
    assert before is not None
    assert after is not None
    assert [part.since_s for part in after.parts.values()] == [part.since_s for part in before.parts.values()]
    pushing(run, tmp_path / "other", [])
    other = read_mirror_standing(run.run_dir)
    assert other is not None
    assert [part.since_s for part in other.parts.values()] == [None] * 3


def test_one_process_pushes_a_run(run: SmallRun) -> None:
    with only_pusher(run.run_dir, None) as is_ours:
        assert is_ours
        with pytest.raises(UsageError, match="pushes it already"), only_pusher(run.run_dir, None):
            pass
        stop = threading.Event()
        stop.set()
        with only_pusher(run.run_dir, stop) as is_ours_too:
            assert not is_ours_too
