"""A run that became slow, and everything that takes long and is no slowdown."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.slowdown import REFERENCE_BLOCKS
from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading, TrainerNote
from tests.unit.detectors.bank_kit import make_bank, receipt, row

Pace = Callable[[int], float]


def steps(seconds: Pace, last: int, *, first: int = 1, every: int = 1, start_s: float = 1000.0, attempt: int = 1, **more: float):
    """Rows at the trainer's times: step `n` takes `seconds(n)`."""
    time_s = start_s
    for step in range(first, last + 1):
        time_s += seconds(step)
        if step % every == 0:
            yield row(step, attempt=attempt, time_s=time_s, loss=2.0, **more)


def slow_of(bank: DetectorBank, rows: Iterable[StepReading]) -> list[Finding]:
    found = [finding for reading in rows for finding in bank.step(reading, reading.time_s)]
    return [finding for finding in found if finding.kind is Kind.SLOWDOWN]


def becomes(factor: float, onset: int, seed: int = 1, noise: float = 0.1) -> Pace:
    dice = random.Random(seed)
    return lambda step: (factor if step >= onset else 1.0) * dice.lognormvariate(0.0, noise)


def test_twice_the_step_time_for_fifty_steps_is_a_warning() -> None:
    bank = make_bank()
    (found,) = slow_of(bank, steps(becomes(2.0, 301), 500))
    assert (found.severity, found.metric) == ("warning", "time_s")
    assert 301 <= found.onset_step <= 305
    assert 350 <= found.detected_step <= 362
    assert 1.7 < found.value / found.baseline < 2.4
    assert f"their best pace since step {found.onset_step}" in found.reason
    assert bank.verdicts()[Kind.SLOWDOWN][0] is Verdict.BREACHED


@pytest.mark.parametrize("seed", range(10))
def test_a_noisy_pace_is_no_slowdown(seed: int) -> None:
    assert slow_of(make_bank(), steps(becomes(1.0, 0, seed, noise=0.3), 3000)) == []


def test_a_tenth_slower_is_no_slowdown() -> None:
    bank = make_bank()
    assert slow_of(bank, steps(becomes(1.2, 301), 900)) == []
    assert bank.verdicts()[Kind.SLOWDOWN][0] is Verdict.HEALTHY


def test_slow_for_a_while_is_no_slowdown() -> None:
    assert slow_of(make_bank(), steps(lambda n: 3.0 if 300 < n <= 340 else 1.0, 900)) == []


def test_few_seconds_are_no_slowdown_however_many_steps_they_are() -> None:
    assert slow_of(make_bank(), steps(lambda n: 0.02 if 300 < n <= 400 else 0.01, 900)) == []


def test_it_ends_and_may_come_again() -> None:
    bank = make_bank()
    found = slow_of(bank, steps(lambda n: 2.0 if 300 < n <= 400 or n > 600 else 1.0, 550))
    assert len(found) == 1
    assert bank.verdicts()[Kind.SLOWDOWN][0] is Verdict.HEALTHY
    found = slow_of(make_bank(), steps(lambda n: 2.0 if 300 < n <= 400 or n > 600 else 1.0, 900))
    assert [finding.onset_step for finding in found] == [301, 601]


def test_what_was_told_is_told_again_only_when_it_got_worse() -> None:
    assert len(slow_of(make_bank(), steps(lambda n: 2.0 if n > 300 else 1.0, 3000))) == 1
    found = slow_of(make_bank(), steps(lambda n: 4.0 if n > 900 else 2.0 if n > 300 else 1.0, 1500))
    assert [finding.onset_step for finding in found] == [301, 901]


def test_a_slow_creep_is_found_against_the_best_pace() -> None:
    (found,) = slow_of(make_bank(), steps(lambda n: 1.0 + 0.0005 * n, 2000))
    assert 1000 < found.onset_step < 1300


@pytest.mark.parametrize("every", [10, 100])
def test_coarse_rows_are_judged_too(every: int) -> None:
    (found,) = slow_of(make_bank(), steps(becomes(2.0, 90 * every), 150 * every, every=every))
    assert found.detected_step <= 90 * every + 21 * every


def test_evaluations_and_checkpoints_are_no_slowdown() -> None:
    """Every third step saves or evaluates for a minute; it was not so before."""
    bank = make_bank()
    found: list[Finding] = []
    pauses = {0: "checkpoint_committed", 3: "val_loss"}
    for reading in steps(lambda n: 60.0 if n > 300 and n % 6 in (1, 3) else 1.0, 900):
        if reading.step > 300 and pauses.get(reading.step % 6) == "val_loss":
            reading = StepReading(1, reading.step, reading.time_s, reading.samples, {"loss": 2.0, "val_loss": 2.0})
        found += bank.step(reading, reading.time_s)
        if reading.step > 300 and reading.step % 6 == 0:
            bank.note(TrainerNote(1, "checkpoint_committed", reading.step, reading.time_s), reading.time_s)
    assert [finding for finding in found if finding.kind is Kind.SLOWDOWN] == []
    assert bank.verdicts()[Kind.SLOWDOWN][0] is Verdict.HEALTHY


def test_another_logging_interval_is_no_slowdown() -> None:
    """Rows of a hundred steps hold an evaluation that rows of one step showed apart."""
    pace = lambda n: 200.0 if n % 100 == 50 else 1.0  # noqa: E731
    rows = list(steps(pace, 9000))
    found = slow_of(make_bank(), [r for r in rows if r.step <= 1000 or r.step % 100 == 0])
    assert found == []


def test_tokens_per_second_tell_of_a_batch_that_grows() -> None:
    rows = []
    for reading in steps(lambda n: 4.0 if n > 300 else 1.0, 900):
        rows.append(StepReading(1, reading.step, reading.time_s, (), {"loss": 2.0, "tokens_per_s": 1e5, "step_time_s": 9.0}))
    bank = make_bank()
    assert slow_of(bank, rows) == []
    assert "by tokens_per_s" in bank.verdicts()[Kind.SLOWDOWN][1]


def test_samples_tell_of_a_batch_that_grows() -> None:
    rows = []
    for reading in steps(lambda n: 4.0 if n > 300 else 1.0, 900):
        batch = 64 if reading.step > 300 else 16
        rows.append(StepReading(1, reading.step, reading.time_s, (SampleRange(0, batch),), {"loss": 2.0}))
    assert slow_of(make_bank(), rows) == []


def test_a_fall_of_tokens_per_second_is_told_in_its_own_unit() -> None:
    rows = list(steps(lambda n: 1.0, 500))
    rates = [StepReading(1, r.step, r.time_s, (), {"tokens_per_s": 4e4 if r.step > 300 else 1e5}) for r in rows]
    (found,) = slow_of(make_bank(), rates)
    assert (found.metric, found.value, found.baseline) == ("tokens_per_s", pytest.approx(4e4), pytest.approx(1e5))
    assert "2.50 times" in found.reason


def test_a_better_source_that_appears_is_learned_anew() -> None:
    rows = [
        r if r.step <= 300 else StepReading(1, r.step, r.time_s, r.samples, {"step_time_s": 10.0})
        for r in steps(lambda n: 1.0, 900)
    ]
    assert slow_of(make_bank(), rows) == []


@pytest.mark.parametrize("every", [2, 10, 100])
def test_a_metric_that_is_logged_now_and_then_does_not_confuse(every: int) -> None:
    """Its own slowdown is found by it, or, where it is too rare, by the times of the rows."""
    rows = []
    for reading in steps(lambda n: 2.0 if n > 3000 else 1.0, 4500):
        rate = {"tokens_per_s": 5e4 if reading.step > 3000 else 1e5} if reading.step % every == 0 else {}
        rows.append(StepReading(1, reading.step, reading.time_s, reading.samples, {"loss": 2.0, **rate}))
    (found,) = slow_of(make_bank(), rows)
    assert found.metric == ("tokens_per_s" if every < 100 else "time_s")
    assert 2990 < found.onset_step <= 3000 + every


def relaunched(bank: DetectorBank, rows: list[StepReading], world_size: int, before: int | None) -> DetectorBank:
    bank.begin_attempt(2, 5000.0)
    told = receipt(2, resume_step=300, world_size=world_size, history=tuple(rows))
    object.__setattr__(told, "history_world_size", before)
    bank.receipt(told, 5000.0)
    return bank


@pytest.mark.parametrize("knows", [True, False])
def test_a_relaunch_is_judged_by_its_history_whoever_watches(knows: bool) -> None:
    past = list(steps(lambda n: 1.0, 300))
    bank = make_bank()
    if knows:
        slow_of(bank, past)
    after = list(steps(lambda n: 2.0, 500, first=301, start_s=6000.0, attempt=2))
    (found,) = slow_of(relaunched(bank, past, 8, 8), after)
    assert (found.attempt, found.onset_step, found.detected_step) == (2, 302, 356)


@pytest.mark.parametrize("before", [16, None])
def test_another_world_size_is_another_pace(before: int | None) -> None:
    past = list(steps(lambda n: 1.0, 300))
    bank = relaunched(make_bank(), past, 8, before)
    assert bank.verdicts()[Kind.SLOWDOWN][0] is Verdict.UNKNOWN
    assert slow_of(bank, steps(lambda n: 2.0, 900, first=301, start_s=6000.0, attempt=2)) == []


def test_rows_that_tell_no_time_are_not_judged() -> None:
    bank = make_bank()
    assert slow_of(bank, (row(step, time_s=0.0, loss=2.0) for step in range(1, 900))) == []
    assert bank.verdicts()[Kind.SLOWDOWN][0] is Verdict.UNKNOWN


@pytest.mark.parametrize("seed", range(5))
def test_the_best_pace_is_the_lowest_median_of_the_levels(seed: int) -> None:
    """A block that is no better than the best is not looked at: here every block is, and nothing differs."""
    banks, dice = (make_bank(), make_bank()), random.Random(seed)
    looks_always = banks[1]._by_kind[Kind.SLOWDOWN]

    def learn(middle: float) -> None:
        if len(looks_always._levels) == REFERENCE_BLOCKS:
            level = sorted(looks_always._levels)[REFERENCE_BLOCKS // 2]
            looks_always._best = level if looks_always._best is None else min(looks_always._best, level)

    looks_always._learn = learn
    shapes = [(dice.uniform(0.5, 2.5), dice.uniform(0.02, 0.6)) for _ in range(12)]
    rows = steps(lambda step: shapes[step % 6000 // 500][0] * dice.lognormvariate(0.0, shapes[step % 6000 // 500][1]), 6000)
    for reading in rows:
        found = [bank.step(reading, reading.time_s) for bank in banks]
        assert found[0] == found[1]
    assert banks[0].verdicts()[Kind.SLOWDOWN] == banks[1].verdicts()[Kind.SLOWDOWN]
    assert banks[0]._by_kind[Kind.SLOWDOWN]._best == looks_always._best
