"""Expressions: the parser raises nothing but its own error, and what is kept row by row equals what is computed from scratch.

The reference evaluator below is as plain as possible: all rows in a list, every window cut out of it anew, numbers or None.
"""

from __future__ import annotations

import math
import statistics

from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.policy.expr import BadExpression, parse_expression
from sentinel.policy.expr_compile import compile_expression
from sentinel.policy.expr_tree import Binary, Constant, Expression, ExprWindow, Known, Measured, Metric, Node, Unary, walk
from sentinel.policy.quantities import Malformed
from sentinel.streams.metric_memory import MetricMemory

NAMES = ("loss", "grad_norm", "grad_norm/h.3")
ROWS_MIN = 3
WARMUP, TOKENS = 20.0, math.nan

Row = tuple[int, float, dict[str, float]]

# Text that looks like an expression, and text that does not.
words = st.sampled_from(
    [
        "loss", "`grad_norm/h.3`", "median", "quantile", "last", "age", "step", "steps", "tokens", "(", ")", ",", "50 steps",
        "10m", "0.1", "3", "1e3", "&&", "||", "!", "<", "<=", "==", "+", "-", "*", "/", "`", "'", "#", ".", "1e999", "**", " ",
        "é", "\n",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(words, max_size=30).map(" ".join), st.lists(words, max_size=30).map("".join)))
def test_the_parser_raises_nothing_but_its_own_error(text: str) -> None:
    refused: BadExpression | None = None
    try:
        expression = parse_expression(text)
    except BadExpression as error:
        refused = error
    if refused is None:
        assert compile_expression(expression, MetricMemory()).judge({}.get, 1.0, 1.0, 1.0, 1.0) in (True, False, None)
    else:
        assert isinstance(refused, Malformed)
        assert refused.remedy
        assert refused.at in range(len(text) + 1)


# Random trees and rows, and the plain evaluator.

numbers = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: round(value, 3)).map(abs).map(Constant)
windows = st.one_of(
    st.integers(1, 12).map(lambda n: ExprWindow(steps=n)), st.integers(1, 12).map(lambda n: ExprWindow(seconds=2.0 * n))
)


@st.composite
def measured(draw: st.DrawFn) -> Measured:
    function = draw(st.sampled_from(
        ["last", "mean", "median", "mad", "stddev", "min", "max", "quantile", "rate", "slope", "count", "nonfinite", "age"]
    ))  # fmt: skip
    window = None if function == "age" else draw(windows)
    if function == "last" and draw(st.booleans()):
        window = None
    quantile = draw(st.sampled_from([0.0, 0.1, 0.5, 0.75, 1.0])) if function == "quantile" else None
    return Measured(function, draw(st.sampled_from(NAMES)), window, quantile, 0)


leaves = st.one_of(
    numbers, st.sampled_from(NAMES).map(lambda name: Metric(name, 0)), measured(), measured(), measured(),
    st.sampled_from([Known("step"), Known("attempt"), Known("warmup_steps"), Known("tokens")]),
)  # fmt: skip
arithmetic = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from("+-*/"), inner, inner), inner.map(lambda operand: Unary("-", operand))
    ),
    max_leaves=4,
)
comparisons = st.builds(Binary, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), arithmetic, arithmetic)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["&&", "||"]), inner, inner), inner.map(lambda operand: Unary("!", operand))
    ),
    max_leaves=4,
)
values = st.one_of(
    st.none(), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e300, 1e-300]), st.floats(-100, 100), st.floats(-100, 100),
    st.integers(-3, 3).map(float),
)  # fmt: skip


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    step, time_s, found = 0, 100.0, []
    for _ in range(draw(st.integers(1, 40))):
        step += draw(st.sampled_from([1, 1, 1, 2, 5]))
        time_s += draw(st.sampled_from([0.0, 1.0, 1.0, 3.0]))
        drawn = {name: draw(values) for name in NAMES}
        found.append((step, time_s, {name: value for name, value in drawn.items() if value is not None}))
    return found


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def plain_number(node: Node, seen: list[Row]) -> float | None:
    """None is unknown."""
    step, _, metrics = seen[-1]
    match node:
        case Constant(value):
            return value
        case Known(name):
            return finite({"step": float(step), "attempt": 1.0, "warmup_steps": WARMUP, "tokens": TOKENS}[name])
        case Metric(name):
            return finite(metrics.get(name))
        case Measured():
            return finite(plain_measure(node, seen))
        case Unary(_, operand):
            value = plain_number(operand, seen)
            return None if value is None else -value
        case Binary(operator, left, right):
            a, b = plain_number(left, seen), plain_number(right, seen)
            if a is None or b is None or (operator == "/" and b == 0.0):
                return None
            return finite({"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[operator])


def plain_measure(node: Measured, seen: list[Row]) -> float | None:
    step, time_s, metrics = seen[-1]
    taken = [(s, t, m[node.metric]) for s, t, m in seen if node.metric in m]
    clean = [entry for entry in taken if math.isfinite(entry[2])]
    if node.function == "age":
        return float(step - clean[-1][0]) if clean else None
    struck = node.metric in metrics and not math.isfinite(metrics[node.metric])
    if node.window is None:
        return clean[-1][2] if clean and not struck else None

    def inside(entry: tuple[int, float, float]) -> bool:
        assert node.window is not None
        return entry[0] > step - node.window.steps if node.window.steps else entry[1] > time_s - node.window.seconds

    if node.function == "nonfinite":
        return float(sum(inside(entry) for entry in taken if not math.isfinite(entry[2])))
    kept = [entry for entry in clean if inside(entry)]
    ready = bool(clean) and (
        step - clean[0][0] + 1 >= node.window.steps / 2 if node.window.steps else time_s - clean[0][1] >= node.window.seconds / 2
    )
    if node.function == "count":
        return float(len(kept)) if ready else None
    if struck or not kept:
        return None
    if node.function == "last":
        return kept[-1][2]
    if node.function == "rate":
        passed = kept[-1][0] - kept[0][0] if node.window.steps else kept[-1][1] - kept[0][1]
        return (kept[-1][2] - kept[0][2]) / passed if len(kept) > 1 and passed > 0 else None
    if not ready or len(kept) < (min(ROWS_MIN, node.window.steps) if node.window.steps else ROWS_MIN):
        return None
    return plain_statistic(node, kept)


def plain_statistic(node: Measured, kept: list[tuple[int, float, float]]) -> float | None:
    ordered = sorted(entry[2] for entry in kept)
    match node.function:
        case "mean":
            return math.fsum(value / len(ordered) for value in ordered)
        case "median":
            return plain_quantile(ordered, 0.5)
        case "min":
            return ordered[0]
        case "max":
            return ordered[-1]
        case "quantile":
            return plain_quantile(ordered, node.quantile or 0.0)
        case "mad":
            middle = plain_quantile(ordered, 0.5)
            return plain_quantile(sorted(abs(value - middle) for value in ordered), 0.5)
        case "stddev":
            if max(map(abs, ordered)) > 1e150:
                return None
            return statistics.pstdev(ordered)
        case "slope":
            if max(map(abs, ordered)) > 1e150 or len({entry[0] for entry in kept}) < 2:
                return None
            return statistics.linear_regression([entry[0] for entry in kept], [entry[2] for entry in kept]).slope
    raise AssertionError(node.function)


def plain_quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    return ordered[below] if place == below else ordered[below] * (1 - place + below) + ordered[below + 1] * (place - below)


def plain_truth(node: Node, seen: list[Row]) -> bool | None:
    match node:
        case Unary("!", operand):
            truth = plain_truth(operand, seen)
            return None if truth is None else not truth
        case Binary("&&" | "||" as operator, left, right):
            both = (plain_truth(left, seen), plain_truth(right, seen))
            decisive = operator == "||"
            if decisive in both:
                return decisive
            return None if None in both else not decisive
        case Binary(operator, left, right):
            a, b = plain_number(left, seen), plain_number(right, seen)
            if a is None or b is None:
                return None
            return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[operator]
    raise AssertionError(node)


def is_close_call(node: Node, seen: list[Row]) -> bool:
    """Both sides of some comparison are equal but for rounding, or beyond what squares hold: the last bits decide."""
    for part in walk(node):
        if isinstance(part, Binary) and part.operator in ("<", "<=", ">", ">=", "==", "!="):
            a, b = plain_number(part.left, seen), plain_number(part.right, seen)
            scale = max((abs(v) for v in (a, b) if v is not None), default=0.0)
            if a is not None and b is not None and abs(a - b) <= 1e-6 * max(scale, 1e-9):
                return True
    return any(abs(value) > 1e140 for _, _, metrics in seen for value in metrics.values() if math.isfinite(value)) and any(
        isinstance(part, Measured) and part.function in ("mean", "stddev", "slope") for part in walk(node)
    )


@settings(max_examples=150, deadline=None)
@given(conditions, rows())
def test_every_row_is_judged_as_the_plain_evaluator_judges_it(root: Node, given_rows: list[Row]) -> None:
    memory = MetricMemory()
    compiled = compile_expression(Expression("", root), memory)
    for index, (step, time_s, metrics) in enumerate(given_rows):
        memory.feed(step, time_s, metrics)
        seen = given_rows[: index + 1]
        got = compiled.judge(metrics.get, float(step), 1.0, WARMUP, TOKENS)
        if not is_close_call(root, seen):
            assert got is plain_truth(root, seen), (step, metrics)


@settings(max_examples=100, deadline=None)
@given(measured(), rows())
def test_every_window_measures_what_its_rows_say(node: Measured, given_rows: list[Row]) -> None:
    memory = MetricMemory()
    window = node.window or ExprWindow()
    measure = memory.measure(node.function, node.metric, window.steps, window.seconds, node.quantile)
    for index, (step, time_s, metrics) in enumerate(given_rows):
        memory.feed(step, time_s, metrics)
        value = metrics.get(node.metric)
        if value is not None and not math.isfinite(value) and node.function not in ("age", "count", "nonfinite"):
            continue  # unknown in this row, which the expression sees to
        want, got = plain_measure(node, given_rows[: index + 1]), measure()
        if node.function in ("mean", "stddev", "slope") and any(abs(m.get(node.metric, 0.0)) > 1e140 for _, _, m in given_rows):
            continue
        if want is None:
            assert not math.isfinite(got)
        else:
            assert math.isclose(got, want, rel_tol=1e-6, abs_tol=1e-9)


@given(st.lists(st.floats(0.5, 5.0), min_size=30, max_size=60), st.sampled_from([1e12, 1e15, 1e100, 1e200]))
def test_a_huge_value_leaves_nothing_behind_when_it_has_left_the_window(level: list[float], huge: float) -> None:
    """Running sums keep the rounding error of what passed through them; these are built anew when it goes."""
    memory = MetricMemory()
    mean, spread = memory.measure("mean", "loss", 10), memory.measure("stddev", "loss", 10)
    for step, value in enumerate([*level, huge, *level], start=1):
        memory.feed(step, float(step), {"loss": value})
    assert math.isclose(mean(), statistics.fmean(level[-10:]), rel_tol=1e-9)
    assert math.isclose(spread(), statistics.pstdev(level[-10:]), rel_tol=1e-6, abs_tol=1e-9)
