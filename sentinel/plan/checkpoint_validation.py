"""Do the numbers of a checkpoint hold, whose every byte is as its manifest says? Judged from what the manifest says of the saved
state and from what the stream recorded around its step.

*Counted*: no value in the tensors of its files is NaN, and none is infinite in a tensor that also holds ordinary numbers. Two
kinds of tensors are no weights: one of zeros and infinities alone is a mask; one of a single value is a loss, or the best score
before there was one.

*Finite*: every norm of the state (`param_norm`, `adam_…`) is a number, and `nonfinite`, the count of elements that are none, is
0. `loss` and `grad_norm` only say where the save stood: the gradient of an update that was left out may be infinite over a
sound state.

*Continuous*: `param_norm` lies where the stream had it. The norm of all parameters has no noise of the data in it; it moves by
what the updates add. From the nearest row on it may differ by CHANGES times the largest change a step of the rows around, for
every step between, and by RATIO. RATIO is 0.5 %: rounding to bf16 moves a norm by at most 0.4 % even where every element is cut
the same way, so a trainer that saves in another precision than it trains in passes, and one shard lost of up to a hundred does
not. The largest change and not a median one: a band too wide only misses damage, one too narrow throws a checkpoint away.
A trainer may mean something else by the norm of its manifest than by that of its stream, so a norm that is off counts only where
the next older checkpoint's is not: then both mean the same, and there is something to go back to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from sentinel.model.attempts import Evidence
from sentinel.model.saved import BadTensor, SavedNorm, SavedNumbers, SavedValues

RATIO = 0.005
CHANGES = 4.0
ROWS_MIN = 3
NORM = "param_norm"
STATE_PREFIXES = (NORM, "adam_")
COUNT = "nonfinite"


@dataclass(frozen=True, slots=True)
class NumbersVerdict:
    """`evidence` empty: it may be resumed from, and `reason` says what was compared. Else `numbers` (not finite) or `norm`.
    `is_known`: there were numbers to judge; else its bytes are all that is known, and NaN may lie in them."""

    evidence: Evidence
    reason: str
    is_known: bool = True


def judge_numbers(saved: SavedNumbers) -> NumbersVerdict:
    """By its values where they were counted, then by what its manifest tells. Without either its bytes are all there is."""
    values = saved.values
    if values is not None and (damaged := [bad for bad in values.bad if is_damaged(bad)]):
        return NumbersVerdict("numbers", _bad_words(damaged, values))
    by_manifest = _judge_manifest(saved)
    if values is None or by_manifest.evidence:
        return by_manifest
    is_counted = values.values > 0 and not values.unread
    return NumbersVerdict("", "; ".join([by_manifest.reason, *_values_words(values)]), by_manifest.is_known or is_counted)


def is_damaged(bad: BadTensor) -> bool:
    """Whether it is a tensor of the model or its optimizer, as far as that can be told from its values."""
    return bad.values > 1 and (bad.nan > 0 or bad.has_number)


def _bad_words(damaged: list[BadTensor], values: SavedValues) -> str:
    worst = max(damaged, key=lambda bad: bad.nan + bad.infinite)
    named = f"{worst.file} ({worst.name})" if worst.name else worst.file
    more = len(damaged) - 1 + values.more_bad
    others = f", and some of {more:,} more tensor{'s' if more > 1 else ''}" if more else ""
    return f"{worst.nan + worst.infinite:,} of {worst.values:,} values of {named} are not finite{others}"


def _values_words(values: SavedValues) -> list[str]:
    """Empty where its files hold no tensors of floating-point numbers."""
    parts = [f"all {values.values:,} values of its tensors are finite"] if values.values else []
    if values.bad:
        count = sum(bad.nan + bad.infinite for bad in values.bad)
        parts = [f"{count:,} of {values.values:,} values of its tensors are not finite, in masks and single values alone"]
    if values.unread:
        more = f" (and {len(values.unread) - 1} more)" if len(values.unread) > 1 else ""
        parts.append(f"not counted: {values.unread[0]}{more}")
    return parts


def _judge_manifest(saved: SavedNumbers) -> NumbersVerdict:
    """By the manifest, and by the rows that were recorded around its step."""
    numbers = dict(saved.numbers)
    if not numbers:
        return NumbersVerdict("", f"{saved.checked}; its manifest tells no numbers", is_known=False)
    count = numbers.get(COUNT, 0.0)
    if count != 0.0:  # NaN as well
        shown = f"{count:.0f}" if isfinite(count) else f"{count:g}"
        return NumbersVerdict("numbers", f"elements of its state that are not finite: {shown}, and none was expected")
    for name in sorted(name for name in numbers if name.startswith(STATE_PREFIXES)):
        if not isfinite(numbers[name]):
            return NumbersVerdict("numbers", f"{name} of its state is {numbers[name]:g}, and a finite one was expected")
    compared = _compare(saved.norm) if saved.norm is not None else None
    if compared is None:
        return NumbersVerdict("", f"{saved.checked}; its numbers are finite, and nothing was recorded to compare them with")
    if compared.is_off:
        older = _compare(saved.older) if saved.older is not None else None
        if older is None:
            return NumbersVerdict("", f"{saved.checked}; {compared.sentence}, and no older one shows that both mean the same")
        if older.is_off:
            return NumbersVerdict(
                "", f"{saved.checked}; {compared.sentence}, as with the one before it: both mean something else"
            )
        return NumbersVerdict("norm", compared.sentence)
    return NumbersVerdict("", f"{saved.checked}; {compared.sentence}")


@dataclass(frozen=True, slots=True)
class _Compared:
    is_off: bool
    sentence: str


def _compare(saved: SavedNorm) -> _Compared | None:
    """The saved norm beside the recorded ones; None where they are too few to say anything."""
    rows = [row for row in saved.recorded if isfinite(row[1])]
    if len(rows) < ROWS_MIN or not isfinite(saved.norm):
        return None
    change = max(abs(b - a) / max(1, after - before) for (before, a), (after, b) in pairwise(rows))
    at, value = min(rows, key=lambda row: (abs(row[0] - saved.step - 1), row[0]))  # row s+1 tells of what update s left
    far = abs(at - saved.step - 1) + 1  # one more: some trainers write the norm after the update
    tolerance = RATIO * abs(value) + CHANGES * change * far
    sentence = f"{NORM} {saved.norm:.6g}, recorded {value:.6g} at step {at} (at most {tolerance:.3g} apart was expected)"
    return _Compared(abs(saved.norm - value) > tolerance, sentence)
