"""A tree of an expression to one Python function, built once from the whitelisted nodes and called once a row.

Each node becomes one line of straight code, `v3 = v1 + v2`, in which nothing of the policy's text appears: names are ours,
numbers are `repr` of finite floats, metrics and windows are reached through constants. So depth costs nothing, and a row costs
a few hundred nanoseconds.

Three values. An unknown number is NaN: a metric that is missing or not finite in this row, a window with too few rows, a
division by zero. A comparison with a side that is not finite is None, unknown; `&& || !` follow Kleene: false && unknown is
false, true || unknown is true, the rest is unknown. The whole is True, False or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sentinel.policy.expr_tree import (
    ARITHMETIC,
    COMPARISONS,
    Binary,
    Constant,
    Expression,
    Known,
    Measured,
    Metric,
    Node,
    Unary,
)
from sentinel.streams.measures import Measure
from sentinel.streams.metric_memory import MetricMemory

Truth = bool | None
Get = Callable[[str], float | None]
Judge = Callable[[Get, float, float, float, float], Truth]
_ARGUMENTS = ("step", "attempt", "warmup_steps", "tokens")
# These say how often and how long ago, and so are known even in a row where the metric is no number.
_COUNTING = frozenset({"nonfinite", "count", "age"})
SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class Compiled:
    """`judge(metrics.get, step, attempt, warmup_steps, tokens)`: True, False, or None for unknown. An unknown number is NaN.

    Attributes:
        metrics: the metrics it reads, in the order of the text.
        shown: parts of the text with what they measure now, for the reason of a finding.
    """

    text: str
    judge: Judge
    metrics: tuple[str, ...]
    shown: tuple[tuple[str, Measure], ...]

    def values(self, metrics: Mapping[str, float]) -> str:
        """`loss 3.2, median(loss, 50 steps) 2.9`: what the expression saw."""
        plain = [f"{name} {metrics[name]:.4g}" for name in self.metrics if name in metrics]
        measured = [f"{text} {measure():.4g}" for text, measure in self.shown]
        return ", ".join([*plain, *measured][:SHOWN_MAX])


def compile_expression(expression: Expression, memory: MetricMemory) -> Compiled:
    """The expression as a function, its windows asked of `memory`, which must be fed every row before it is called."""
    writer = _Writer(memory)
    result = writer.node(expression.root)
    lines = "\n    ".join([*writer.reads, *writer.lines, f"return {result}"])
    space: dict[str, Any] = {"nan": math.nan, "__builtins__": {}, **writer.constants}
    exec(compile(f"def judge(get, {', '.join(_ARGUMENTS)}):\n    {lines}\n", "<expression>", "exec"), space)
    metrics = tuple(expression.metrics)
    return Compiled(expression.text, space["judge"], metrics, tuple(writer.shown))


class _Writer:
    """Lines of code for the nodes, each value in a name of its own."""

    def __init__(self, memory: MetricMemory) -> None:
        self._memory = memory
        self._metrics: dict[str, str] = {}
        self._count = 0
        self.reads: list[str] = []
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.shown: list[tuple[str, Measure]] = []

    def node(self, node: Node) -> str:
        """Code for the node; returns the name that holds its value."""
        match node:
            case Constant(value):
                return repr(float(value))
            case Known(name):
                return name
            case Metric(name):
                row = self._row(name)
                return self._value(f"{row} if {row} is not None and {row} - {row} == 0.0 else nan")
            case Measured():
                return self._measured(node)
            case Unary("-", operand):
                return self._value(f"-{self.node(operand)}")
            case Unary(_, operand):
                inside = self.node(operand)
                return self._value(f"None if {inside} is None else not {inside}")
            case Binary(operator, left, right):
                return self._joined(operator, self.node(left), self.node(right), (left, right))

    def _joined(self, operator: str, left: str, right: str, nodes: tuple[Node, Node]) -> str:
        if operator == "/":
            bounded = "" if _is_finite(nodes[1]) else f" and {right} - {right} == 0.0"  # 1 / inf would be known again
            return self._value(f"{left} / {right} if {right} != 0.0{bounded} else nan")
        if operator in ARITHMETIC:
            return self._value(f"{left} {operator} {right}")
        if operator in COMPARISONS:
            doubtful = [name for name, node in zip((left, right), nodes, strict=True) if not _is_finite(node)]
            checks = " and ".join(f"{name} - {name} == 0.0" for name in doubtful)
            return self._value(f"{left} {operator} {right}" + (f" if {checks} else None" if checks else ""))
        known, unknown = ("False", "True") if operator == "&&" else ("True", "False")
        decided = f"{known} if {left} is {known} or {right} is {known}"
        return self._value(f"{decided} else None if {left} is None or {right} is None else {unknown}")

    def _measured(self, node: Measured) -> str:
        window = node.window
        steps, seconds = (window.steps, window.seconds) if window else (0, 0.0)
        measure = self._memory.measure(node.function, node.metric, steps, seconds, node.quantile)
        name = f"f{len(self.constants)}"
        self.constants[name] = measure
        self.shown.append((_text(node), measure))
        if node.function in _COUNTING:
            return self._value(f"{name}()")
        row = self._row(node.metric)
        return self._value(f"{name}() if {row} is None or {row} - {row} == 0.0 else nan")

    def _row(self, metric: str) -> str:
        """The present row's value of the metric: None where it is missing."""
        name = self._metrics.get(metric)
        if name is None:
            name = self._metrics[metric] = f"m{len(self._metrics)}"
            self.constants[f"n{name}"] = metric
            self.reads.append(f"{name} = get(n{name})")
        return name

    def _value(self, code: str) -> str:
        name = f"v{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {code}")
        return name


def _is_finite(node: Node) -> bool:
    return isinstance(node, Constant) or (isinstance(node, Known) and node.name in ("step", "attempt"))


def _text(node: Measured) -> str:
    share = None if node.quantile is None else f"{node.quantile:g}"
    parts = (node.metric, share, node.window.text if node.window else None)
    return f"{node.function}({', '.join(part for part in parts if part)})"
