"""What a receipt, and then the stream, prove of the settings that were asked for.

A receipt proves what it read back (`effective`). What it only repeats (`overrides`) is asserted, until the stream shows it: steps
whose samples pass over a range that was to be left out, or a learning rate that changed by the factor asked for between the last
step before the relaunch and the first behind it. A step that trains on such a sample, or a learning rate that has not moved,
shows the contrary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel.client.settings import SETTINGS
from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.proof import Grade, Proof
from sentinel.model.readings import StepReading
from sentinel.plan.skip import covers, merge

SKIP, LEARNING_RATE = "skip", "lr_scale"
STEADY = 0.2  # the schedule itself moves a learning rate by less up to the row that tells, or nothing is concluded from it
AGREES = 0.1
UNMOVED = 0.02
ROWS_TO_TELL = 2  # where a rate goes on as before: the first may show what the checkpoint held, and be set anew behind its step
AHEAD = 10  # times as far as two rows are apart; a few lines may be missing at a beginning


def grade_settings(asked: SettingsInForce, effective: Mapping[str, Any], repeated: Mapping[str, Any]) -> tuple[Proof, ...]:
    """A grade for each setting that was asked for, from what the trainer read back and what it repeats, in its receipt or in its
    answer to a live change. What differs from what was asked is no proof, whatever its source."""
    found = [Proof(key, _grade(key, getattr(asked, key), effective, repeated)) for key in _asked(asked)]
    if asked.skip:
        found.append(Proof(SKIP, "read_back" if SKIP in effective else "asserted" if SKIP in repeated else "none"))
    return tuple(found)


def _asked(asked: SettingsInForce) -> Iterable[str]:
    return (key for key, row in SETTINGS.items() if row.is_asked(getattr(asked, key)))


def _grade(key: str, want: Any, effective: Mapping[str, Any], repeated: Mapping[str, Any]) -> Grade:
    row = SETTINGS[key]
    if key in effective and row.type.agrees(effective[key], want):
        return "read_back"
    return "asserted" if key in repeated and row.type.agrees(repeated[key], want) else "none"


def first_met(skip: Sequence[SampleRange], samples: Sequence[SampleRange]) -> SampleRange | None:
    """The first samples that were trained although they were to be left out."""
    for trained in samples:
        for left_out in skip:
            start, end = max(trained.start, left_out.start), min(trained.end, left_out.end)
            if start < end:
                return SampleRange(start, end)
    return None


def why_begun_elsewhere(resumed: int, steps: Sequence[int], left_out: int | None) -> str:
    """What the first rows of an attempt show of where it went on: empty where they fit the step that its receipt names, or do
    not tell yet. `steps`: rising, of rows with a loss. `left_out`: steps that may pass without a row since samples are left out;
    None: nobody knows how many."""
    if steps and steps[0] < resumed:
        return f"its first step is {steps[0]}, and its receipt says that it went on from step {resumed}"
    if len(steps) < 2 or left_out is None or steps[0] - resumed <= AHEAD * (steps[1] - steps[0]) + left_out:
        return ""
    return f"its first steps are {steps[0]} and {steps[1]}, and its receipt says that it went on from step {resumed}"


def passed_over(
    skip: Sequence[SampleRange], behind: int, samples: Sequence[SampleRange], announced: Sequence[SampleRange] = ()
) -> bool:
    """Whether a step left out what it was to, and nothing else: its samples, from `behind` on, where the step before had ended,
    have a hole within one of the ranges (which are merged). Rows of every tenth step have holes, too, which show nothing.
    `announced`: what the trainer says that it leaves out, where that is more (whole batches); a hole may be as wide."""
    allowed = merge((*skip, *announced)) if announced else skip
    for trained in samples:
        if trained.start > behind:
            hole = SampleRange(behind, trained.start)
            if covers(allowed, hole) and first_met(skip, (hole,)) is not None:
                return True
        behind = max(behind, trained.end)
    return False


@dataclass(frozen=True, slots=True)
class Counted:
    """What a trainer counts, as of `step`: the samples that it has gone through, those among them that it has left out, and
    whether it says how many that are. Megatron-LM prints the second number from the first sample left out on."""

    step: int
    through: float
    left_out: float
    says: bool


def counts_of(row: StepReading) -> Counted | None:
    """None where it says not even how many it has gone through."""
    through, left_out = row.metrics.get("consumed_samples"), row.metrics.get("skipped_samples")
    return None if through is None else Counted(row.step, through, left_out or 0.0, left_out is not None)


def compare_counts(skip: Sequence[SampleRange], announced: Sequence[SampleRange], before: Counted, now: Counted) -> Grade | None:
    """What the counts of two rows show of the batches between them that were to be left out (a sample index is here a batch, and
    step n takes batch n - 1): as many were, or none. None: nothing was to be left out there, or the counts do not tell."""
    wanted, most = (size_within(merge(ranges), before.step, now.step) for ranges in (skip, (*skip, *announced)))
    batch = (now.through - before.through) / max(1, now.step - before.step)
    if not wanted or not now.says or not 0.0 < batch < float("inf"):
        return None
    batches = round((now.left_out - before.left_out) / batch, 6)
    if batches == 0.0 and before.says:
        return "contradicted"
    return "observed" if wanted <= batches <= most else None


def size_within(ranges: Iterable[SampleRange], start: int, end: int) -> int:
    """How many samples of merged ranges lie from `start` up to `end`, which is not counted in."""
    return sum(max(0, min(one.end, end) - max(one.start, start)) for one in ranges)


@dataclass(frozen=True, slots=True)
class ShownRate:
    """A learning rate, as the row of `step` shows it."""

    step: int
    rate: float


@dataclass(frozen=True, slots=True)
class RatesBefore:
    """The last two rates before a relaunch, and the factor under which they ran. `looked_at`: how many rows behind the relaunch
    have not decided yet."""

    older: ShownRate
    newer: ShownRate
    factor: float
    looked_at: int = 0


def compare_rates(before: RatesBefore, after: ShownRate, asked: float) -> Grade | None:
    """What the learning rate shows of a factor asked for: `after` is the rate of a row behind the relaunch. It is held against
    what the schedule would have made of the newer rate before, which is the line through both: a warm-up or a decay goes on, and
    rows may be seldom or left out. A trainer that heeds nothing goes on as before, or by its schedule alone. None: nothing,
    because the factor is too near to either, or the line leads too far to tell."""
    older, newer = before.older, before.newer
    rates = (older.rate, newer.rate, after.rate)
    if not all(0.0 < rate < float("inf") for rate in rates) or not older.step < newer.step < after.step:
        return None
    moves = (newer.rate / older.rate - 1.0) / (newer.step - older.step) * (after.step - newer.step)
    wanted = asked / before.factor
    heedless = [change for change in (1.0, 1.0 / before.factor) if abs(wanted / change - 1.0) >= 2 * AGREES]
    if not heedless or abs(moves) > STEADY:
        return None
    change = after.rate / (newer.rate * (1.0 + moves))
    if abs(change / wanted - 1.0) <= AGREES:
        return "observed" if abs(asked - 1.0) >= 2 * AGREES else None
    return "contradicted" if any(abs(change / other - 1.0) <= UNMOVED for other in heedless) else None
