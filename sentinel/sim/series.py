"""Input series: rows of metrics written out by hand, through the engine in observe only, as promtool tests rules.

    series:
      every: 1 step                     # distance of rows; default 1 step
      step_time: 1s
      checkpoint_every: 100 steps
      noise: 0.01                       # relative and gaussian, drawn from the case's `seed`; not on settings and counts
      run: {warmup_steps: 100}          # what the trainer's receipt would say
      metrics:
        loss: 3x1000 3+0.1x50 _x3 NaN 9x100

The notation of promtool: `3+0.1x50` is 3, 3.1 … 8 (51 values), `9x100` is 101 nines, `_` is a missing value, `_x3` three of them.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sentinel.engine import Engine
from sentinel.model.attempts import SampleRange
from sentinel.model.events import ActionDone, Event, SupervisorStarted
from sentinel.model.facts import ActionDecided, Fact, FindingRecorded
from sentinel.model.metrics import METRICS
from sentinel.model.readings import CheckpointReading, Receipt, StepReading
from sentinel.model.state import RunState
from sentinel.policy.match import Match, match_rule
from sentinel.policy.quantities import Malformed
from sentinel.policy.schema import Policy

ROWS_MAX = 100_000
BATCH = 16
NOISELESS = frozenset(metric.name for metric in METRICS if metric.is_exact)
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WORD = re.compile(rf"(?P<first>{_NUMBER}|NaN|[+-]?Inf|_)(?P<each>[+-][0-9.]+(?:[eE][+-]?[0-9]+)?)?(?:x(?P<times>[0-9]{{1,6}}))?")


@dataclass(frozen=True)
class MetricSeries:
    """Rows as a case gives them; a metric's None is a value that is missing."""

    metrics: Mapping[str, tuple[float | None, ...]]
    every: int = 1
    step_s: float = 1.0
    checkpoint_every: int = 100
    noise: float = 0.0
    run: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return max((len(values) for values in self.metrics.values()), default=0)


@dataclass(frozen=True)
class SeriesOutcome:
    """`alerts`: names of the alerts that fired, in order, those that only tell included. `untaken`: kinds of findings that no
    rule of the policy takes, so that nobody is told of them."""

    state: RunState
    alerts: tuple[str, ...]
    findings: tuple[FindingRecorded, ...]
    untaken: tuple[str, ...] = ()


def parse_values(text: object) -> tuple[float | None, ...]:
    """The expanded values. Raises Malformed."""
    remedy = "write '3x100' (101 values), '3+0.1x50', '_x3' (3 missing), NaN or Inf, with blanks between them"
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return (float(text),)
    if not isinstance(text, str) or not text.strip():
        raise Malformed(f"{text!r} is no series", remedy)
    found: list[float | None] = []
    for word in text.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise Malformed(f"'{word}' is no part of a series", remedy)
        times = int(match["times"] or 0)
        if match["first"] == "_":
            found += [None] * max(times, 1)
        else:
            first, each = float(match["first"]), float(match["each"] or 0.0)
            found += [first + each * index if each else first for index in range(times + 1)]
        if len(found) > ROWS_MAX:
            raise Malformed(f"more than {ROWS_MAX} values", "write a shorter series")
    return tuple(found)


def run_series(series: MetricSeries, policy: Policy, seed: int) -> SeriesOutcome:
    """Every row through the engine. Nothing is carried out: what would have been is on the incidents' tries."""
    engine, dice = Engine(policy), random.Random(seed)
    facts: list[Fact] = []
    now_s = 0.0

    def tell(event: Event) -> None:
        found = engine.handle(now_s, event)
        facts.extend(found)
        for fact in found:
            if isinstance(fact, ActionDecided):
                tell(ActionDone(fact.action.key, "series"))

    tell(SupervisorStarted(1, "test", 0, "test", ("series",), "/", policy.metadata.name, "0" * 64, True))
    effective = {key: value for key, value in series.run.items() if key != "tokens_per_step"}
    tell(Receipt(1, 0.0, 0, None, 1, {}, effective, tokens_per_step=series.run.get("tokens_per_step")))
    for index in range(series.rows):
        step = (index + 1) * series.every
        now_s = step * series.step_s
        given = ((name, values[index]) for name, values in series.metrics.items() if index < len(values))
        metrics = {name: value if name in NOISELESS else _noisy(value, series.noise, dice) for name, value in given}
        samples = (SampleRange((step - series.every) * BATCH, step * BATCH),)
        tell(StepReading(1, step, now_s, samples, {name: value for name, value in metrics.items() if value is not None}))
        if step // series.checkpoint_every > (step - series.every) // series.checkpoint_every:
            tell(CheckpointReading(step, f"checkpoints/step-{step:08d}", 1, step * BATCH, f"{step}"))
    findings = tuple(fact for fact in facts if isinstance(fact, FindingRecorded))
    named = [(fact, _alert(policy, fact)) for fact in findings]
    untaken = dict.fromkeys(str(fact.finding.kind) for fact, alert in named if alert is None)
    return SeriesOutcome(engine.state, tuple(alert for _, alert in named if alert is not None), findings, tuple(untaken))


def _noisy(value: float | None, noise: float, dice: random.Random) -> float | None:
    if value is None or not noise or not math.isfinite(value):
        return value
    return value * (1.0 + dice.gauss(0.0, noise))


def _alert(policy: Policy, fact: FindingRecorded) -> str | None:
    """The alert of the rule it falls under; None where no rule takes it. A hard batch that healed is told as info."""
    match = match_rule(policy, fact.finding.kind, fact.finding.alert)
    if not isinstance(match, Match):
        return None
    is_less = fact.finding.severity == "info" and match.rule.labels.severity != "info"
    return f"{match.rule.alert} (info)" if is_less else match.rule.alert
