"""too_good: a loss that is implausibly low, or falls as no learning does. A broken batch, leaked labels, or a run that has
learned the escape character.

Sees: a level (median of 20 samples) below `below` in a run that once stood above `STARTED_ABOVE`; a level that lost more than
`fall` of the level 100 samples before it, late in the run (after `min_history_steps` and 200 samples). Does not see: losses that
are small from the start (reward models, fine-tuning), a few low batches, a slow descent that stays plausible, losses that
become negative: those are no cross-entropy (a log-likelihood of densities, a reward), and no share of their level means anything.
On the way down such a loss passes every bound, so a low level must last, and a fall must be faster than the one before it.

Source: one Megatron run of the labelled logs went from 10.9 to 0.009 in 2,000 steps of pretraining; healthy ones end between
0.8 (bytes) and 4.6, and none halves its level within 100 samples after its first 200 (LOG.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.streams.blocks import Block
from sentinel.streams.rounding import rounding_half

METRIC = "loss"
STARTED_ABOVE = 1.0
LEVEL_BLOCKS = 4
PAST_BLOCKS = 20
WAKE_BLOCKS = 40
LASTING_BLOCKS = 9  # so long the level is too low before it is told
HALF_WAY = 10  # blocks: the fall since then must be more than the one before
FASTER = 2.0  # times as much
NOISE = 3.0


@dataclass(frozen=True, slots=True)
class TooGoodSettings:
    """A loss that is implausibly low, or falls as no learning does."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    below: float = setting(0.1, "positive", "A loss that began above 1 and stands below this is not believed.")
    fall: float = setting(
        0.5, "fraction", "Share of its level that a loss loses within 100 samples, late in a run, and is not believed."
    )
    min_history_steps: int = setting(
        1000, "steps", "Steps seen before a fall is judged: the descent at the start is one.", alias="min_history"
    )


class TooGood(Detector):
    kind = Kind.TOO_GOOD

    needs = frozenset({METRIC})
    blocks_of = (METRIC,)

    def __init__(self, settings: TooGoodSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity(Kind.TOO_GOOD)
        self._blocks = run.loss_blocks
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._start = start
        self._highest = 0.0
        self._first: int | None = None
        self._plausible: tuple[int, float] = (0, 0.0)
        self._why = ""
        self._low_blocks = 0
        self._rounding = 0.0  # of the log, as its rows told it when the level came to be too low
        self._is_negative = False

    def block(self, metric: str, block: Block, now_s: float) -> list[Finding]:
        known, step = self._why, block.last_step
        if not self._judge(step, now_s) or known or step <= self._start.quiet_until:
            return []
        onset, visible_s = self._plausible
        found = Finding(
            Kind.TOO_GOOD, self._severity, self._start.attempt, onset, step, visible_s, self._why,
            metric=METRIC, value=self._blocks.middle(LEVEL_BLOCKS), baseline=self._highest,
        )  # fmt: skip
        return [found]

    def _judge(self, step: int, now_s: float) -> bool:
        """True when the level is too good."""
        if self._first is None:
            self._first = step
        blocks = self._blocks
        if blocks.count < LEVEL_BLOCKS:
            return False
        level = blocks.middle(LEVEL_BLOCKS)
        self._highest = max(self._highest, level)
        self._is_negative = self._is_negative or level < -blocks.sigma  # about zero is not below it
        why = "" if self._is_negative else self._too_low(level) or self._fell(level, step)
        if not why and not self._low_blocks:
            self._plausible = (step, now_s)
        self._why = why
        return bool(why)

    def _too_low(self, level: float) -> str:
        """Where every row says 0, nothing in them tells how the log rounds; the rows before did."""
        below = self._settings.below
        is_low = self._highest >= STARTED_ABOVE and level < below
        if is_low and not self._low_blocks:
            self._rounding = rounding_half(self._blocks.medians)
        self._low_blocks = self._low_blocks + 1 if is_low and level + self._rounding < below else 0
        may_fall_on = not self._why and self._low_blocks < 2 * PAST_BLOCKS
        if self._low_blocks < LASTING_BLOCKS or (may_fall_on and self._falls_below_zero(level)):
            return ""
        return f"{METRIC} {level:.4g} is below the plausible {below:g}; it once stood at {self._highest:.4g}"

    def _falls_below_zero(self, level: float) -> bool:
        """Within another hundred samples, at its present pace: then it is another kind of loss."""
        blocks = self._blocks
        if blocks.count < HALF_WAY + LEVEL_BLOCKS:
            return False
        return 3.0 * level < 2.0 * blocks.middle(LEVEL_BLOCKS, skip=HALF_WAY) + 0.5 * blocks.sigma

    def _fell(self, level: float, step: int) -> str:
        assert self._first is not None
        blocks = self._blocks
        if blocks.count < WAKE_BLOCKS or step - self._first < self._settings.min_history_steps:
            return ""
        past = blocks.middle(PAST_BLOCKS, skip=LEVEL_BLOCKS)
        if past < STARTED_ABOVE or level >= past * (1.0 - self._settings.fall) or past - level < NOISE * blocks.largest_sigma():
            return ""
        oldest, half_way = blocks.middle(LEVEL_BLOCKS, skip=PAST_BLOCKS), blocks.middle(LEVEL_BLOCKS, skip=HALF_WAY)
        if half_way - level <= FASTER * (oldest - half_way) + blocks.sigma:
            return ""
        return f"{METRIC} fell from {past:.4g} to {level:.4g} within 100 samples"

    def verdict(self) -> tuple[Verdict, str]:
        if not self._highest:
            return Verdict.UNKNOWN, "too little history to judge by"
        if self._is_negative:
            return Verdict.UNKNOWN, f"{METRIC} was negative, so nothing is known of how low it may be"
        return (Verdict.BREACHED, self._why) if self._why else (Verdict.HEALTHY, f"{METRIC} is plausible")
