"""loss_scale: fp16's loss scale collapses: halvings in quick succession, the floor, or overflow after overflow.

Sees: `halvings` halvings within `window_steps` steps of the loss scale; a scale that came down to `floor`; more overflows than
`overflows_max` within the window where the scale itself is not logged. Does not see: bf16 and fp32 runs (a scale that never moved
judges nothing), the search for the first scale (the first `search_steps` steps of a run, and of a relaunch whose scale
begins anew), a single overflow, which is fp16 at work.

Source: healthy fp16 logs (four runs, 12k steps, 155 overflows) never halve more than once within 20 steps after step 100, and
up to five times before; BigScience's 104B went from 2^20 to 2^15 in six steps (17063 to 17068), its 13B from 2^16 to 2^12 in
20. fairseq and DeepSpeed stop at the floor, and OPT-175B used it as its alarm.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Receipt, StepReading

METRIC = "loss_scale"
CALM_STEPS = 100
HOLE_ROWS = 10  # so many usual intervals without a row: nobody knows when in between the scale fell
REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class LossScaleSettings:
    """fp16's loss scale collapses."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    halvings: int = setting(3, "count", "So many halvings within the window are a collapse. Healthy fp16 halves once.")
    window_steps: int = setting(20, "steps", "The window of halvings and overflows.", alias="within")
    floor: float = setting(1.0, "positive", "A scale that came down to this is a collapse, however slowly.")
    overflows_max: int = setting(
        5, "count", "More overflows than this within the window are a collapse, where the scale itself is not logged."
    )
    search_steps: int = setting(
        100, "steps", "Silent for so long at the start: the scaler searches its first scale by halving.", alias="search"
    )


class LossScale(Detector):
    kind = Kind.LOSS_SCALE_COLLAPSE

    reads = frozenset({METRIC, "overflow"})

    def __init__(self, settings: LossScaleSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity(Kind.LOSS_SCALE_COLLAPSE)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._scale: float | None = None
        self._highest = 0.0
        self._newest = 0
        self._searching_until = self._settings.search_steps
        self._falls: deque[tuple[int, int, float]] = deque(maxlen=REMEMBERED)  # step, halvings, arrival
        self._overflows: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)
        self._fired_step: int | None = None
        self._why = ""

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """The scale the surviving past ended with. If the trainer begins with another, it searches again."""
        for reading in history:
            scale = reading.metrics.get(METRIC)
            if scale is not None and 0.0 < scale < math.inf:
                self._newest = reading.step
                self._scale, self._highest = scale, max(self._highest, scale)
        if self._scale is None and receipt.resume_step:
            self._searching_until = receipt.resume_step + self._settings.search_steps

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        metrics = reading.metrics
        scale, overflow = metrics.get(METRIC), metrics.get("overflow")
        if scale is None and not overflow:
            return []
        step, reason, newest = reading.step, "", self._newest
        self._newest = step
        if scale == self._scale and not overflow and self._fired_step is None:
            return []  # nearly every row
        if scale is None:
            reason = self._overflowed(step, now_s)
        elif 0.0 < scale < math.inf:
            is_hole = step - newest > max(HOLE_ROWS * covered, self._settings.window_steps)
            reason = self._moved(step, scale, now_s, is_hole)
        if self._fired_step is not None and step - self._fired_step >= CALM_STEPS and not reason:
            self._fired_step, self._why = None, ""
        if not reason or step <= self._searching_until:
            return []
        fresh, self._fired_step, self._why = self._fired_step is None, step, reason
        if not fresh:
            return []
        onset, visible_s = self._onset(step, now_s)
        found = Finding(
            Kind.LOSS_SCALE_COLLAPSE, self._severity, self._attempt, onset, step, visible_s, reason,
            metric=METRIC, value=scale, baseline=self._highest or None,
        )  # fmt: skip
        return [found]

    def _moved(self, step: int, scale: float, now_s: float, is_hole: bool) -> str:
        """`is_hole`: rows are missing between the last scale and this one, so that nobody knows within how many steps it fell."""
        before, self._scale = self._scale, scale
        self._highest = max(self._highest, scale)
        if before is None or scale >= before:
            return ""
        if is_hole:
            return f"the loss scale came down to its floor: {scale:g}" if scale <= self._settings.floor else ""
        self._falls.append((step, max(1, round(math.log2(before) - math.log2(scale))), now_s))
        window = self._settings.window_steps
        while self._falls[0][0] <= step - window:
            self._falls.popleft()
        halved = sum(times for _, times, _ in self._falls)
        if halved >= self._settings.halvings:
            return f"the loss scale was halved {halved} times within {window} steps, down to {scale:g}"
        if scale <= self._settings.floor:
            return f"the loss scale came down to its floor: {scale:g}"
        return ""

    def _overflowed(self, step: int, now_s: float) -> str:
        overflows, window = self._overflows, self._settings.window_steps
        overflows.append((step, now_s))
        while overflows[0][0] <= step - window:
            overflows.popleft()
        if len(overflows) > self._settings.overflows_max:
            return f"{len(overflows)} overflows within {window} steps"
        return ""

    def _onset(self, step: int, now_s: float) -> tuple[int, float]:
        seen = [(at, seen_s) for at, _, seen_s in self._falls] or list(self._overflows)
        return seen[0] if seen else (step, now_s)

    def still_true(self, alert: str) -> str:
        """Why a collapse is not over at the newest step, whatever the loss says: updates are left out, the weights stand still,
        and so does their loss. Empty when it is."""
        since, s = self._newest - self._settings.window_steps, self._settings
        halved = sum(times for at, times, _ in self._falls if at > since)
        overflows = sum(at > since for at, _ in self._overflows)
        if halved >= s.halvings:
            return f"still falling: the loss scale was halved {halved} times within {s.window_steps} steps"
        return f"still falling: {overflows} overflows within {s.window_steps} steps" if overflows > s.overflows_max else ""

    def verdict(self) -> tuple[Verdict, str]:
        if self._why:
            return Verdict.BREACHED, self._why
        if self._scale is None and not self._overflows:
            return Verdict.UNKNOWN, "no loss scale is logged, and no overflow"
        if self._newest <= self._searching_until:
            return Verdict.UNKNOWN, f"the loss scale may be searched for until step {self._searching_until}"
        if self._scale is None:
            return Verdict.HEALTHY, f"{len(self._overflows)} overflows at the last one's window"
        if self._highest <= 1.0:
            return Verdict.UNKNOWN, f"the loss scale stands at {self._scale:g}: nothing is scaled"
        return Verdict.HEALTHY, f"the loss scale is {self._scale:g}"
