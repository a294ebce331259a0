"""Which samples of a suspect window caused the failure (are `guilty`, in the policy's word)? Pure; `engine/sample_attribution.py`
runs the inspection.

In an inspection each sample is run forward and backward with the weights from before the onset, and nothing is updated. Its loss
and the norm of its own gradient are compared with those of good samples.

The good ones are the controls, which the run had trained on without harm just before the window; with too few of them, the window
itself, by its median, which up to half of it cannot move. The spread is 1.4826 MAD, of the loss in nats, and of the gradient norm
its ratio, for norms of text scatter by factors. Any of four things makes a sample guilty. Each limit comes from real text under
the bundled trainer, at two sizes and six stages of training (9984 good samples, none of them guilty), and from poison:

- a number that is not finite;
- a loss 8 spreads above: good text reached 5.4, random bytes were never below 10;
- a gradient 30 times the median: good text reached 10, with a loss that was nearly ordinary; the norm alone says little;
- a stretch of neighbours: their spreads less 1.5 each, none counted above 5, sum to 12. The data order is shuffled, so good text
  that is merely hard stands alone: in two thousand shuffles it reached 6.7. Where 30 % of the bytes are garbage, no sample
  can be told from hard text by itself (1 to 6 spreads), and 40 of them sum to 100.

The score is the largest of the four, each divided by its limit. A sample is guilty from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log
from statistics import median

from sentinel.model.attempts import SampleRange
from sentinel.model.records import Attribution, SampleSeen
from sentinel.plan.skip import bounded, merge

LOSS_SPREADS = 8.0
NORM_RATIO = 30.0
STRETCH_SUM, STRETCH_LESS, STRETCH_CAP = 12.0, 1.5, 5.0
STRETCH_DROP = 4.5  # below its highest sum, and a stretch has ended there: three ordinary samples between two are not guilty
CONTROLS = 256  # asked for before the window
CONTROLS_MIN = 64
SPREAD_MIN = 0.01  # of the median: data that is all the same must not make a rounding error guilty
LOSS_MAX = 1e9  # beyond it, as good as not finite
SAMPLES_MAX = 100_000  # of one inspection; a wider window is skipped whole
RANGES_MAX = 64  # skipped one by one; of more, those nearest to each other are joined


@dataclass(frozen=True, slots=True)
class Ranked:
    """A sample of the window and how it stands. `spreads`: of its loss above the reference's median; `score`: 1 convicts.
    `why`: what convicted it, empty where nothing did."""

    sample: SampleSeen
    spreads: float
    score: float
    why: str

    @property
    def guilty(self) -> bool:
        return bool(self.why)


def rank_samples(seen: Iterable[SampleSeen], suspect: SampleRange) -> tuple[Ranked, ...]:
    """The samples of the window, the worst first; what lies before it is only compared with."""
    found = {sample.index: sample for sample in seen}
    ordered = [found[index] for index in sorted(found)]
    window = [sample for sample in ordered if suspect.start <= sample.index < suspect.end]
    before = [sample for sample in ordered if sample.index < suspect.start]
    reference = before if len(before) >= CONTROLS_MIN else window
    middle, spread = _level([sample.loss for sample in reference])
    norms = [norm for sample in reference if (norm := sample.grad_norm) is not None and isfinite(norm) and norm > 0.0]
    usual_norm = median(norms) if norms else 0.0
    spreads = [(sample.loss - middle) / spread if _is_number(sample.loss) else inf for sample in window]
    stretches = _stretch_sums(spreads)
    ranked = [
        _judge(sample, above, usual_norm, in_stretch)
        for sample, above, in_stretch in zip(window, spreads, stretches, strict=True)
    ]
    return tuple(sorted(ranked, key=lambda one: (not one.guilty, -one.score, one.sample.index)))


def attribute_samples(seen: Iterable[SampleSeen], suspect: SampleRange, attempt: int) -> Attribution:
    """Who is guilty, as few ranges. `attempt`: whose record it is."""
    ranked = rank_samples(seen, suspect)
    if not ranked:
        return Attribution("failed", "the inspection saw none of the suspect samples", attempt, suspect)
    guilty = [one for one in ranked if one.guilty]
    if not guilty:
        worst = ranked[0]
        reason = (
            f"none of {len(ranked)} samples is guilty: the worst, {worst.sample.index}, has loss {worst.sample.loss:.4g} and "
            f"score {worst.score:.2f}, and 1 would convict"
        )
        return Attribution("nobody", reason, attempt, suspect, inspected=len(ranked))
    ranges = bounded(merge(SampleRange(one.sample.index, one.sample.index + 1) for one in guilty), RANGES_MAX)
    worst = guilty[0]
    count = f"{len(guilty)} of {len(ranked)} samples {'is' if len(guilty) == 1 else 'are'} guilty"
    reason = f"{count}; the worst, {worst.sample.index}: {worst.why}"
    return Attribution("guilty", reason, attempt, suspect, ranges, len(guilty), len(ranked))


def _is_number(loss: float) -> bool:
    return isfinite(loss) and abs(loss) < LOSS_MAX


def _level(losses: Sequence[float]) -> tuple[float, float]:
    """Median and spread of what is finite."""
    finite = [loss for loss in losses if _is_number(loss)]
    if not finite:
        return 0.0, 1.0
    middle = median(finite)
    spread = 1.4826 * median(abs(loss - middle) for loss in finite)
    return middle, max(spread, SPREAD_MIN * abs(middle), 1e-9)


def _judge(sample: SampleSeen, spreads: float, usual_norm: float, stretch: float) -> Ranked:
    norm = sample.grad_norm
    if not _is_number(sample.loss) or (norm is not None and not isfinite(norm)):
        return Ranked(sample, spreads, inf, f"its loss is {sample.loss:g} and its gradient norm {norm}: not finite")
    times = log(norm) - log(usual_norm) if norm is not None and norm > 0.0 and usual_norm > 0.0 else 0.0
    scores = {
        f"its loss {sample.loss:.4g} is {spreads:.1f} spreads above what is usual": spreads / LOSS_SPREADS,
        f"its gradient norm is {norm or 0.0:.4g}, and {usual_norm:.4g} is usual": times / log(NORM_RATIO),
        f"it lies in a stretch of bad samples (sum {stretch:.0f})": stretch / STRETCH_SUM,
    }
    why = max(scores, key=lambda word: scores[word])
    score = max(0.0, scores[why])
    return Ranked(sample, spreads, score, why if score >= 1.0 else "")


def _stretch_sums(spreads: Sequence[float]) -> list[float]:
    """For each sample the sum of the convicted stretch it lies in, else 0."""
    sums = [0.0] * len(spreads)
    began, end, running, peak = 0, 0, 0.0, 0.0

    def close() -> None:
        if peak >= STRETCH_SUM:
            inner = _trimmed(spreads, began, end)
            sums[inner.start : inner.stop] = [peak] * len(inner)

    for place, above in enumerate(spreads):
        running += min(above, STRETCH_CAP) - STRETCH_LESS
        if running > peak:
            peak, end = running, place + 1
        elif running <= 0.0 or running < peak - STRETCH_DROP:
            close()
            began, end, running, peak = place + 1, place + 1, 0.0, 0.0
    close()
    return sums


def _trimmed(spreads: Sequence[float], began: int, end: int) -> range:
    """Without what stands at its ends and is much better than the rest: neighbours that happened to be a little hard."""
    enough = median(spreads[began:end]) / 2.0
    while spreads[began] < enough:
        began += 1
    while spreads[end - 1] < enough:
        end -= 1
    return range(began, end)
