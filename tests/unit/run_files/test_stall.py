"""A step that is overdue: from when, on which surfaces, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.engine.goodput import account
from sentinel.model.stall import StepTimes
from sentinel.report.documents import status_document
from sentinel.report.snapshot import RunSnapshot
from sentinel.report.text import status_text
from sentinel.run_files.detector_standings import OLD_AFTER_S, DetectorStandings, read_standings
from sentinel.run_files.heartbeats import RankSeen
from sentinel.run_files.stall import run_word, stall_of
from tests.unit.detectors.bank_kit import beat, make_bank, receipt, row
from tests.unit.told_run import at, state_of, told

NOW_S = at(20)
NO_SCHEDULE = {
    "full_rate_steps_lost": 0.0, "steps_under": {}, "skipped_samples": 0, "skipped_tokens": None, "steps_thrown_away": 0,
    "steps_thrown_away_exact": True,
    "lapses": [],
}  # fmt: skip


def standings(last_step_s: float | None, written_s: float = NOW_S, attempt: int = 1, lines: int = 1) -> DetectorStandings:
    return DetectorStandings(written_s, attempt, 40, step_times=StepTimes(last_step_s, 0.2, lines))


@pytest.mark.parametrize(
    ("silent_s", "is_stalled"), [(0.5, False), (0.99, False), (1.01, True), (70.0, True)]
)  # three steps take 0.6 s, and no machine is that even
def test_a_step_is_overdue_after_three_step_times_and_a_second(silent_s: float, is_stalled: bool) -> None:
    assert (StepTimes(100.0, 0.2).stalled_since_s(100.0 + silent_s) is not None) == is_stalled


def test_slow_steps_and_logs_that_show_few_of_them_have_their_time() -> None:
    assert StepTimes(0.0, 30.0).stalled_since_s(89.0) is None
    assert StepTimes(0.0, 30.0).stalled_since_s(91.0) == 0.0
    assert StepTimes(0.0, 1.0, steps_seen_at_once=100).stalled_since_s(299.0) is None
    assert StepTimes().stalled_since_s(1e9) is None
    assert StepTimes(1.0, None).stalled_since_s(1e9) is None


def test_what_the_supervisor_has_not_written_is_not_held_against_the_run() -> None:
    state = state_of(told(20))
    assert state.label == "training"
    assert stall_of(state, NOW_S, standings(NOW_S - 70)) is not None
    assert stall_of(state, NOW_S + 5, standings(NOW_S)) is None  # written five seconds ago, and then all was well
    assert stall_of(state, NOW_S + OLD_AFTER_S + 1, standings(NOW_S - 70)) is None
    assert stall_of(state, NOW_S, standings(NOW_S - 70, attempt=2)) is None
    assert stall_of(state, NOW_S, DetectorStandings()) is None
    assert stall_of(state_of(told(0)), NOW_S, standings(NOW_S - 70)) is None  # nothing trains yet


def test_status_says_since_when_and_shows_how_long_each_rank_has_been_silent() -> None:
    ranks = (RankSeen(0, 41, "forward", 69.6, "a"), RankSeen(1, 41, "data", 70.2, "a"))
    seen = RunSnapshot(
        Path("/runs/demo"), state_of(told(20)), NOW_S, step=40, total_steps=600, supervisor="alive", attempt_alive=True,
        senses=standings(NOW_S - 70), ranks=ranks,
    )  # fmt: skip
    document = status_document(seen, None, "")
    assert (document["state"], document["stalled_s"], document["last_step_s"]) == ("stalled", 70.0, NOW_S - 70)
    assert document["reason"] == "no step for 70 s (a step takes 0.2 s)"
    assert [seen["rank"] for seen in document["ranks"]] == [0, 1]
    assert document["forecast"] == {"unknown": "no step is being made", "is_over": False}, "no end is promised meanwhile"
    text = status_text(document | {"schedule": NO_SCHEDULE})
    assert "A hang is suspected: no step for 70 s (a step takes 0.2 s)" in text
    assert "rank 1 silent for 70 s (step 41, data), rank 0 silent for 70 s (step 41, forward)" in text


def test_overdue_seconds_are_no_training_and_are_given_back_when_a_step_comes() -> None:
    state = state_of(told(20))
    trained, detecting = account(state, NOW_S), account(state, NOW_S, NOW_S - 8)
    assert detecting.total_s == trained.total_s
    assert detecting.seconds["detection"] == pytest.approx(8.0)
    assert detecting.goodput_ratio < trained.goodput_ratio
    assert run_word(state, None) == "training"


def test_the_bank_knows_when_the_last_step_was_made_by_lines_and_by_heartbeats() -> None:
    bank = make_bank()
    bank.receipt(receipt(step=10), 0.0)
    assert bank.step_times == StepTimes()  # its first step may take minutes
    for step in range(11, 40):
        bank.step(row(step, loss=2.0), float(step))
    assert bank.step_times == StepTimes(39.0, 1.0)
    bank.heartbeats([beat(0, 41, "forward")], 40.5)
    assert bank.step_times.last_step_s == 40.5
    bank.heartbeats([beat(0, 41, "backward")], 44.0)  # the same step
    assert bank.step_times.last_step_s == 40.5
    bank.end_attempt()
    assert bank.step_times == StepTimes()


def test_a_file_of_an_older_supervisor_says_nothing_of_steps(tmp_path: Path) -> None:
    (tmp_path / "senses.json").write_text('{"v": 1, "time_s": 1.0, "attempt": 1, "step": 2, "detectors": []}')
    assert read_standings(tmp_path).step_times == StepTimes()
