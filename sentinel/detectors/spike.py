"""spike: loss or gradient norm jumps above its own recent level and stays there for the hold.

Sees: jumps of one to many steps at any logging interval. Does not see: slow climbs (drift, divergence), anything in the
first `min_history_steps`, values that are no number (non_finite's business), falls (too_good).

The rule: z > `z` robust deviations above the local level *and* more than `relative` above it, for the hold. On top:
- Loss. A single row, as at 5- or 100-step logging one row can satisfy the hold, must be `SINGLE_ROW_Z` times as clear;
  two rows need not. (Hard batches of coarse healthy logs reach z 9.3, single-row real spikes begin at 10; LOG.md.)
  In logs coarser than every step a second row above `SECOND_ROW_Z` of `z` is enough: it is many steps later (no healthy log
  written every 5 to 500 steps has a row above z 5 and then one above z 2.5, both more than 3 % up; per-step logs have).
  And `SUSTAINED_ROWS` rows in a row above 3/8 of `z` (3 of 8) are as good as two above it: healthy logs never have three.
- Norms (any metric whose name contains `norm`), in log space. Alone they cry wolf: healthy runs show isolated rows up to
  39 times the level with no trace in the loss. So: at least twice the level, `NORM_ROWS` rows in a row.
Both at once. A row in which the loss is `SINGLE_ROW_Z` times as clear and the gradient norm is twice its level and above `z`
needs no hold: healthy logs have no such row (the nearest: loss z 6.6, norm z 29.9).
A young baseline (fewer than 100 samples: a log that begins in mid-run, or whose interval changed) has no spread to trust. Then
a loss is judged by ratio: 40 % and one nat above the highest of the last five rows. The first 64 rows of a run are exempt: an
optimizer may stumble once in the descent.
In the grace after a resume, where a bump is usual, only a rise of a fifth (a norm: four times the level) fires; a lower one
fires when it outlasts the grace.
A breach that ends before the hold is a hard batch: one finding of severity info. The onset is dated back to the first
sample of the contiguous stretch that was above `SOFT_Z`.
"""

from __future__ import annotations

from sentinel.detectors.contract import SpikeSettings
from sentinel.detectors.hold import Hold, State
from sentinel.detectors.spike_watch import SOFT_Z, Watch
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import StepReading


class Spike:
    """All watched metrics. `is_firing`: one of them stands above its band for its hold or longer."""

    kind = Kind.SPIKE

    def __init__(self, settings: SpikeSettings, hold: Hold, severity: Severity) -> None:
        names = tuple(settings.metrics) if settings.enabled else ()
        self.watches = {name: Watch(name, settings, hold, severity) for name in names}
        self._all = tuple(self.watches.values())
        self._loss = self.watches.get("loss")
        self._enabled = settings.enabled
        self.is_firing = False

    def begin(self, attempt: int, *, quiet_until: int = 0) -> None:
        self.is_firing = False
        for watch in self._all:
            watch.begin(attempt, quiet_until)

    def seed(self, history: tuple[StepReading, ...], *, settings_changed: bool) -> None:
        """Learn the surviving past. Under changed settings its level counts less: only its newest samples."""
        for watch in self._all:
            watch.seed(history)
        if settings_changed:
            self.cut_level()

    def cut_level(self) -> None:
        for watch in self._all:
            watch.baseline.cut_level()

    def be_quiet(self, until: int) -> None:
        """A bump is usual up to this step: a grace."""
        for watch in self._all:
            watch.quiet_until = max(watch.quiet_until, until)

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        found: list[Finding] = []
        firing = False
        for watch in self._all:
            finding = watch.step(reading, covered, now_s)
            if finding is not None:
                found.append(finding)
            if watch.holding.state is State.FIRING:
                firing = True
        loss = self._loss
        is_out = loss is not None and loss.score is not None and loss.score[0] > SOFT_Z
        if is_out and loss is not None and not found and self._agreed(loss, reading.step):
            confirmed = loss.confirm(reading.step)
            if confirmed is not None:
                found.append(confirmed)
                firing = True
        self.is_firing = firing
        return found

    def _agreed(self, loss: Watch, step: int) -> bool:
        """Loss and gradient norm both far outside in this row, and no grace."""
        norm = self.watches.get("grad_norm")
        return norm is not None and step > loss.quiet_until and loss.is_clear and norm.is_far(1.0)

    def verdict(self) -> tuple[Verdict, str]:
        if not self._enabled:
            return Verdict.UNKNOWN, "switched off by policy"
        for watch in self._all:
            if watch.holding.state is not State.IDLE:
                return Verdict.BREACHED, f"{watch.metric} above its band ({watch.holding.state})"
        judged = [watch for watch in self._all if watch.score is not None]
        unjudged = [f"{watch.metric} unknown: {watch.unknown}" for watch in self._all if watch.score is None]
        if not judged:
            return Verdict.UNKNOWN, "; ".join(unjudged)
        stands = unjudged + [f"{watch.metric} at z {watch.score.z:.1f}" for watch in judged if watch.score is not None]
        stands += [f"{watch.metric} was {watch.baseline.rebase_reason}" for watch in self._all if watch.baseline.rebase_reason]
        return Verdict.HEALTHY, "; ".join(stands)
