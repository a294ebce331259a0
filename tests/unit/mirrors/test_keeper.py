"""What the loop hears of the mirror's process: how far it is by the loop's own clock, and its words as remarks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sentinel.client.strict_json import dumps
from sentinel.mirrors import keeper
from sentinel.mirrors.keeper import MirrorKeeper
from sentinel.mirrors.settings import MirrorSettings
from sentinel.model.readings import MirrorReading, Reading, SourceReading
from sentinel.run_files.mirror_standing import MirrorStanding, Part, PartStanding

WALL_S = 1_800_000_000.0


class Helper:
    """The process, of which only the lines matter."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_complete = True

    def turn(self, now_s: float) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def finish(self, wait_s: float) -> bool:
        return self.is_complete


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Helper:
    made = Helper()
    monkeypatch.setattr(keeper, "LastingHelper", lambda *words: made)
    monkeypatch.setattr(time, "time", lambda: WALL_S)
    return made


def standing(**since: float | None) -> str:
    parts: dict[Part, PartStanding] = {name: PartStanding(s, "", "", 60.0) for name, s in since.items()}  # type: ignore[misc]
    return dumps(MirrorStanding("/backup", WALL_S, parts).document())


def behind(readings: list[Reading]) -> dict[str, float]:
    return {one.part: one.behind_s for one in readings if isinstance(one, MirrorReading)}


def test_a_process_that_says_nothing_has_pushed_nothing(tmp_path: Path, helper: Helper) -> None:
    kept = MirrorKeeper(tmp_path, MirrorSettings("/backup"))
    assert behind(kept.poll(1000.0)) == {"journal": 0.0, "streams": 0.0}
    assert kept.poll(1001.0) == [], "not at every turn"
    assert behind(kept.poll(5000.0)) == {"journal": 4000.0, "streams": 4000.0}


def test_what_was_pushed_counts_from_when_it_was_by_the_loops_clock(tmp_path: Path, helper: Helper) -> None:
    kept = MirrorKeeper(tmp_path, MirrorSettings("/backup"))
    helper.lines = [standing(journal=WALL_S - 5, streams=WALL_S - 3600, checkpoints=None)]
    assert behind(kept.poll(1000.0)) == {"journal": 5.0, "streams": 3600.0, "checkpoints": 0.0}
    helper.lines = [standing(journal=WALL_S, streams=WALL_S - 3600, checkpoints=None)]
    assert behind(kept.poll(1100.0)) == {"journal": 0.0, "streams": 3700.0, "checkpoints": 100.0}


def test_a_clock_that_is_set_makes_nothing_late(tmp_path: Path, helper: Helper, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = MirrorKeeper(tmp_path, MirrorSettings("/backup"))
    helper.lines = [standing(journal=WALL_S - 5)]
    kept.poll(1000.0)
    monkeypatch.setattr(time, "time", lambda: WALL_S + 1e6)
    helper.lines = [standing(journal=WALL_S - 5)]
    assert behind(kept.poll(1020.0))["journal"] == 25.0


def test_its_words_are_remarks(tmp_path: Path, helper: Helper, capsys: pytest.CaptureFixture[str]) -> None:
    kept = MirrorKeeper(tmp_path, MirrorSettings("/backup"))
    helper.lines = ["journal not mirrored: no space left"]
    said = [one for one in kept.poll(1000.0) if isinstance(one, SourceReading)]
    assert said == [SourceReading("mirror", True, "journal not mirrored: no space left", remark=True)]
    helper.is_complete = False
    kept.close()
    assert f"sentinel mirror push {tmp_path}" in capsys.readouterr().err
    assert kept.poll(2000.0) == []


def test_a_run_without_a_mirror_has_no_process(tmp_path: Path) -> None:
    kept = MirrorKeeper(tmp_path, None)
    assert kept.poll(1000.0) == []
    kept.close()
