"""What the policy language costs: an expression per row, beside the naive way; 200 rules loaded. `make bench-policy`.

Best of many short stretches, because a shared machine can only make things slower. Times are printed; that a policy of 200 rules
loads, and that both ways agree, is asserted.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from math import inf, isclose, nan
from pathlib import Path

import pytest

from sentinel.detectors.expression import ExpressionRule, Expressions, RunQuantities
from sentinel.detectors.hold import Hold
from sentinel.engine.detector_bank import build_detector_bank
from sentinel.model.readings import StepReading
from sentinel.policy.expr import parse_expression
from sentinel.policy.expr_compile import compile_expression
from sentinel.policy_files.loading import read_policy_file, shipped_policy_path
from sentinel.streams.metric_memory import MetricMemory

pytestmark = pytest.mark.bench
ROWS, STRETCH = 6000, 100
DESIGN = "median(activation_norm, 50 steps) > 1.3 * quantile(activation_norm, 0.1, 2000 steps) && step > 2 * warmup_steps"
EXPRESSIONS = (
    "loss > 3",
    "loss > 1.05 * last(val_loss) && step > 2000",
    "median(loss, 50 steps) > 3",
    "quantile(loss, 0.9, 2000 steps) > 3",
    "mad(loss, 200 steps) > 0.1",
    "mean(loss, 200 steps) > 3",
    "stddev(loss, 200 steps) > 0.1",
    "slope(loss, 200 steps) > 0",
    DESIGN,
)


def rows() -> list[dict[str, float]]:
    dice = random.Random(7)
    return [
        {"loss": dice.gauss(2.5, 0.05), "activation_norm": dice.lognormvariate(0.0, 0.1), "grad_norm": 0.3, "lr": 1e-4}
        for _ in range(ROWS)
    ]


def best_ns(work: Callable[[int], object], first: int = 2500) -> float:
    """Nanoseconds of one call, in the best stretch."""
    best = inf
    for start in range(0, ROWS, STRETCH):
        began = time.perf_counter()
        for index in range(start, start + STRETCH):
            work(index)
        if start >= first:
            best = min(best, time.perf_counter() - began)
    return best / STRETCH * 1e9


def test_an_expression_per_row() -> None:
    given = rows()
    print("\n  judge    windows   expression (nanoseconds a row)")
    for text in EXPRESSIONS:
        memory = MetricMemory()
        judge = compile_expression(parse_expression(text), memory).judge
        keep = best_ns(lambda index, memory=memory: memory.feed(index, float(index), given[index]))
        cost = best_ns(lambda index, judge=judge: judge(given[index].get, float(index), 1.0, 100.0, nan))
        print(f"  {cost:6.0f}   {keep:6.0f}    {text}")


def test_kept_windows_beside_windows_computed_anew() -> None:
    """The same numbers, by sorting the last rows each time."""
    given = [row["loss"] for row in rows()]
    print("\n  kept     anew      (nanoseconds a row, window kept and read)")
    for name, steps, plain in (
        ("median", 50, statistics.median),
        ("median", 2000, statistics.median),
        ("stddev", 200, statistics.pstdev),
        ("mean", 200, statistics.fmean),
    ):
        memory = MetricMemory()
        measure = memory.measure(name, "loss", steps)

        def kept(index: int, memory: MetricMemory = memory, measure: Callable[[], float] = measure) -> float:
            memory.feed(index, float(index), {"loss": given[index]})
            return measure()

        def anew(index: int, steps: int = steps, plain: Callable[[list[float]], float] = plain) -> float:
            return plain(given[max(0, index - steps + 1) : index + 1])

        fast, slow = best_ns(kept), best_ns(anew, first=5500)
        assert isclose(measure(), anew(ROWS - 1), rel_tol=1e-9)
        print(f"  {fast:6.0f}   {slow:8.0f}   {name} over {steps} steps, {slow / fast:.0f} times")


def test_the_whole_detector_with_twenty_rules() -> None:
    """As the bank call it: windows, conditions, holds. The rules share their two windows."""
    given = rows()
    text = "median(loss, 50 steps) > {} && median(activation_norm, 200 steps) > 2"
    memory = MetricMemory()
    written = [compile_expression(parse_expression(text.format(3 + n / 100)), memory) for n in range(20)]
    rules = [ExpressionRule(f"R{n}", condition, Hold(2), Hold(), "warning") for n, condition in enumerate(written)]
    detector = Expressions(rules, memory, RunQuantities())
    readings = [StepReading(0, index, float(index), (), metrics) for index, metrics in enumerate(given)]
    cost = best_ns(lambda index: detector.step(readings[index], 1, 0.0))
    print(f"\n  20 rules on two shared windows: {cost:.0f} ns a row, {cost / 20:.0f} ns a rule")


def policy_of(count: int, written: Callable[[int], str]) -> str:
    text = shipped_policy_path("default").read_text(encoding="utf-8")
    rules = "".join(
        f"    - alert: Rule{index}\n      {written(index)}\n      for: 20 steps\n      keep_firing_for: 50 steps\n"
        f"      labels: {{severity: warning, team: pretraining}}\n"
        f'      annotations: {{summary: "{{{{ value }}}} at step {{{{ step }}}}", runbook_url: RUNBOOK.md#expression}}\n'
        f"      playbook: numeric\n"
        for index in range(count)
    )
    return text.replace("  rules:\n", "  rules:\n" + rules, 1)


def test_two_hundred_rules_load(tmp_path: Path) -> None:
    def text(run: int) -> str:
        """Other thresholds every time: parsed expressions are remembered by their text."""
        windows = DESIGN.removesuffix(" && step > 2 * warmup_steps")
        return policy_of(200, lambda index: f"expr: {windows.replace('1.3', f'1.{run:02}{index:03}')}")

    took, spent, built = [], [], []
    for run in range(10):
        path = tmp_path / f"{run}.yaml"
        path.write_text(text(run), encoding="utf-8")
        began, began_cpu = time.perf_counter(), time.process_time()
        read = read_policy_file(path)
        took.append(time.perf_counter() - began)
        spent.append(time.process_time() - began_cpu)
        assert sum(rule.expr is not None for rule in read.policy.spec.rules) == 200
        began_cpu = time.process_time()
        build_detector_bank(read.policy)
        built.append(time.process_time() - began_cpu)
    print(f"\n  200 rules on expressions: loaded in {min(spent) * 1e3:.0f} ms of processor, {min(took) * 1e3:.0f} ms of wall")
    print(f"  compiled into detectors in {min(built) * 1e3:.0f} ms of processor")
