"""expression: rules whose condition a person wrote. Every condition is judged on every row, after its windows have taken it in.

Sees: whatever stands in the policy's `expr`. Does not see: what a condition cannot tell: metrics that are missing or no number
in this row, windows that are not yet filled. Then it is *unknown*, which neither counts towards `for` nor ends what is
pending; a rule with `on_nonfinite: fire` takes a value that is no number for a breach.

A condition must hold for `for`; it goes on firing until it has been false for `keep_firing_for`, and can then fire again. In the
grace after a resume it fires only when it outlasts it, unless a value is no number. What is pending lapses after
`UNKNOWN_ROWS_MAX` unknown rows. The onset is the first row of the stretch in which it held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sentinel.detectors.contract import Detector, Start
from sentinel.detectors.hold import Hold, HoldChange, Holding, HoldState
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import Receipt, StepReading

UNKNOWN_ROWS_MAX = 100


class Condition(Protocol):
    """A compiled expression: `sentinel.policy.expr_compile.Compiled`."""

    @property
    def text(self) -> str: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...
    @property
    def judge(self) -> Callable[[Callable[[str], float | None], float, float, float, float], bool | None]: ...
    def values(self, metrics: Mapping[str, float]) -> str: ...


class MetricWindows(Protocol):
    """What the conditions' windows are read from: `sentinel.streams.metric_memory.MetricMemory`."""

    def clear(self) -> None: ...
    def feed(self, step: int, time_s: float, metrics: Mapping[str, float]) -> None: ...


@dataclass(frozen=True, slots=True)
class ExpressionRule:
    """One rule on an expression, as the detector needs it."""

    alert: str
    condition: Condition
    hold: Hold
    keep: Hold
    severity: Severity
    fire_on_nonfinite: bool = False


@dataclass(frozen=True, slots=True)
class RunQuantities:
    """What a policy says about its run; the trainer's receipt, where it speaks, is believed first."""

    warmup_steps: int | None = None
    tokens_per_step: int | None = None


class _Watch:
    """One rule's life."""

    __slots__ = ("holding", "judge", "metrics", "onset", "rule", "truth", "unknown_rows")

    def __init__(self, rule: ExpressionRule) -> None:
        self.rule = rule
        self.judge = rule.condition.judge
        self.metrics = rule.condition.metrics
        self.holding = Holding(rule.hold, calm_steps=max(1, rule.keep.steps), calm_s=rule.keep.seconds)
        self.begin()

    def begin(self) -> None:
        self.holding.reset()
        self.truth: bool | None = None
        self.onset: tuple[int, float] = (0, 0.0)
        self.unknown_rows = 0

    def is_struck(self, metrics: Mapping[str, float]) -> bool:
        """A metric it reads is there and is no number."""
        return any(metrics[name] - metrics[name] != 0.0 for name in self.metrics if name in metrics)


class Expressions(Detector):
    """All rules on expressions of a policy."""

    kind = Kind.EXPRESSION

    def __init__(self, rules: Sequence[ExpressionRule], memory: MetricWindows, facts: RunQuantities) -> None:
        self._watches = tuple(_Watch(rule) for rule in rules)
        self._by_alert = {watch.rule.alert: watch for watch in self._watches}
        self._memory = memory
        self._facts = facts
        self._warmup = self._tokens_per_step = math.nan
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._quiet_until = start.quiet_until
        self._memory.clear()
        self._row: Mapping[str, float] = {}
        self._take_facts({}, None)
        for watch in self._watches:
            watch.begin()

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """The surviving past fills the windows, without findings; the receipt says what the run is like."""
        self._take_facts(receipt.effective, receipt.tokens_per_step)
        for reading in history:
            self._memory.feed(reading.step, reading.time_s, reading.metrics)

    def _take_facts(self, effective: Mapping[str, Any], tokens_per_step: int | None) -> None:
        steps = effective.get("warmup_steps")
        is_number = isinstance(steps, (int, float)) and not isinstance(steps, bool) and 0 <= steps < 1e12
        self._warmup = _number(steps if is_number else self._facts.warmup_steps)
        self._tokens_per_step = _number(tokens_per_step or self._facts.tokens_per_step)

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        self._row = reading.metrics
        self._memory.feed(reading.step, reading.time_s, reading.metrics)
        return self._judge(self._watches, reading, covered, now_s)

    def complete(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        """The rules that read what this line adds, by all lines of the step."""
        added = reading.metrics
        self._row = {**self._row, **added}
        self._memory.feed(reading.step, reading.time_s, added)
        watches = [watch for watch in self._watches if any(name in added for name in watch.metrics)]
        return self._judge(watches, replace(reading, metrics=self._row), covered, now_s)

    def _judge(self, watches: Sequence[_Watch], reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        metrics, time_s = reading.metrics, reading.time_s
        get, at, attempt = metrics.get, float(reading.step), float(self._attempt)
        warmup, tokens = self._warmup, self._tokens_per_step * at
        found: list[Finding] = []
        for watch in watches:
            truth = watch.truth = watch.judge(get, at, attempt, warmup, tokens)
            if truth is False:
                watch.unknown_rows = 0
                if watch.holding.state is not HoldState.IDLE:
                    watch.holding.clean(covered, time_s)
            elif truth or (watch.rule.fire_on_nonfinite and watch.is_struck(metrics)):
                found += self._breach(watch, reading, covered, now_s, certain=truth is None)
            elif watch.holding.state is HoldState.PENDING:
                watch.unknown_rows += 1
                if watch.unknown_rows > UNKNOWN_ROWS_MAX:
                    watch.begin()
        return found

    def _breach(self, watch: _Watch, reading: StepReading, covered: int, now_s: float, *, certain: bool) -> list[Finding]:
        watch.unknown_rows = 0
        if watch.holding.state is HoldState.IDLE:
            watch.onset = (reading.step, now_s)
        change = watch.holding.breach(covered, reading.time_s, convincing=certain or reading.step > self._quiet_until)
        if change is not HoldChange.FIRED:
            return []
        rule, (onset, visible_s) = watch.rule, watch.onset
        state = "a value it reads is no number" if certain else "true"
        reason = f"{rule.alert}: {state} since step {onset}: {rule.condition.text} ({rule.condition.values(reading.metrics)})"
        first = next((name for name in watch.metrics if name in reading.metrics), None)
        value = reading.metrics[first] if first is not None else None
        return [
            Finding(
                Kind.EXPRESSION, rule.severity, self._attempt, onset, reading.step, visible_s, reason,
                metric=first, value=value, alert=rule.alert,
            )
        ]  # fmt: skip

    def still_true(self, alert: str) -> str:
        """Why the alert cannot have healed; empty when its condition is false now, or not known."""
        watch = self._by_alert.get(alert)
        return f"still true: {watch.rule.condition.text}" if watch is not None and watch.truth else ""

    def verdict(self) -> tuple[Verdict, str]:
        firing = [watch.rule.alert for watch in self._watches if watch.holding.state is not HoldState.IDLE]
        if firing:
            return Verdict.BREACHED, f"true now: {', '.join(firing)}"
        known = sum(watch.truth is not None for watch in self._watches)
        summary = f"{known} of {len(self._watches)} expressions can be judged now"
        return (Verdict.HEALTHY if known else Verdict.UNKNOWN), summary


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
