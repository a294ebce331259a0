"""Expressions: what they mean, where they are unknown, what is refused and where the caret stands."""

from __future__ import annotations

from math import inf, nan

import pytest

from sentinel.model.metrics import METRICS
from sentinel.policy.expr import BadExpression, parse_expression
from sentinel.policy.expr_compile import compile_expression
from sentinel.policy.expr_tree import DEPTH_MAX, LENGTH_MAX, Binary, Constant, Known, Metric, Unary
from sentinel.streams.metric_memory import MetricMemory
from tests.unit.policy.policies_in_words import GOOD, located


def judge(text: str, *, step: float = 100.0, attempt: float = 1.0, warmup: float = 50.0, tokens: float = nan, **row: float):
    """One row, of which nothing is remembered."""
    return compile_expression(parse_expression(text), MetricMemory()).judge(row.get, step, attempt, warmup, tokens)


def after(text: str, values: list[float | None], metric: str = "loss", every: int = 1):
    """The verdict after these rows."""
    memory = MetricMemory()
    compiled = compile_expression(parse_expression(text), memory)
    verdict, row = None, {}
    for index, value in enumerate(values):
        row = {} if value is None else {metric: value}
        step = (index + 1) * every
        memory.feed(step, float(step), row)
        verdict = compiled.judge(row.get, float(step), 1.0, nan, nan)
    return verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 9", True),
        ("10 - 4 - 3 == 3", True),
        ("12 / 3 / 2 == 2", True),
        ("-2 * -3 == 6", True),
        ("1 < 2 || 1 < 0 && 1 < 0", True),
        ("(1 < 2 || 1 < 0) && 1 < 0", False),
        ("!(1 > 2) && 2 != 3", True),
        ("loss > 2 && step >= 2 * warmup_steps", True),
        ("attempt == 1 && 1e-3 < .5", True),
        ("loss / grad_norm > 5", True),
    ],
)
def test_operators_bind_as_people_expect(text, verdict):
    assert judge(text, loss=3.0, grad_norm=0.5) is verdict


@pytest.mark.parametrize("row", [{}, {"loss": nan}, {"loss": inf}, {"loss": -inf}])
def test_what_is_missing_or_no_number_is_unknown_and_never_healthy(row):
    for text in ("loss > 3", "loss < 3", "loss == loss", "!(loss > 3)", "loss * 0 == 0", "1 / loss < 1", "loss - loss == 0"):
        assert judge(text, **row) is None, text


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("loss > 3 && 1 > 2", False),
        ("1 > 2 && loss > 3", False),
        ("loss > 3 || 2 > 1", True),
        ("loss > 3 && 2 > 1", None),
        ("loss > 3 || 1 > 2", None),
        ("1 / 0 > 3", None),
        ("tokens > 3", None),
        ("1e300 * 1e300 > 3", None),
    ],
)
def test_the_unknown_goes_by_kleene(text, verdict):
    assert judge(text, loss=nan) is verdict


def test_nan_in_a_window_blinds_one_row_and_not_the_window():
    rows: list[float | None] = [2.0] * 20
    assert after("median(loss, 10 steps) > 1", rows) is True
    assert after("median(loss, 10 steps) > 1", [*rows, nan]) is None
    assert after("median(loss, 10 steps) > 1", [*rows, nan, 2.0]) is True
    assert after("nonfinite(loss, 10 steps) >= 2", [*rows, nan, inf]) is True
    assert after("median(loss, 10 steps) > 1", [*rows, None]) is True  # not logged in this row: the window still holds
    assert after("loss > 1", [*rows, None]) is None


def test_a_window_says_nothing_until_half_of_it_has_gone_by():
    assert after("median(loss, 20 steps) > 1", [2.0] * 9) is None
    assert after("median(loss, 20 steps) > 1", [2.0] * 10) is True
    assert after("median(loss, 4 steps) > 1", [2.0] * 2) is None, "and never on fewer than three rows"
    assert after("count(loss, 20 steps) < 5", [2.0] * 3) is None
    assert after("age(loss) > 3", [2.0, None, None, None, None]) is True
    assert after("last(loss) > 1", [2.0, None, None]) is True
    assert after("median(loss, 50 steps) > 1", [2.0] * 10, every=100) is None, "too coarse a log for the window"


def test_windows_of_seconds_follow_the_trainers_clock():
    assert after("max(loss, 5s) > 8", [9.0] + [2.0] * 4) is True
    assert after("max(loss, 5s) > 8", [9.0] + [2.0] * 5) is False


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, "the expression ends"),
        ("loss >", 6, "the expression ends"),
        ("loss > 3 &&", 11, "the expression ends"),
        ("loss", 0, "this is a number"),
        ("loss = 3", 5, "'=' is no sign"),
        ("loss.real > 3", 4, "'.' is no sign"),
        ("loss ** 2 > 3", 6, "there is no power"),
        ("loss > 'a'", 7, '"\'" is no sign'),
        ("grad_norm/h.3 > 1", 11, "'.3' continues no name"),
        ("`grad_norm/h.3 > 1", 0, "'`' is no sign"),
        ("exec(loss) > 1", 0, "there is no function 'exec'"),
        ("median(loss + 1, 5 steps) > 1", 7, "'median' needs a metric's name first"),
        ("median(3, 5 steps) > 1", 7, "'median' needs a metric's name first"),
        ("median(step, 5 steps) > 1", 7, "'step' is no metric"),
        ("median(loss, 50) > 1", 13, "'50' has no unit"),
        ("median(loss, 0 steps) > 1", 13, "'0 steps' is no window"),
        ("median(loss, 1.5 steps) > 1", 13, "'1.5 steps' is no window"),
        ("median(loss, 10001 steps) > 1", 13, "a window of 10001 steps is longer"),
        ("median(loss, 2d) > 1", 13, "'2d' is no window"),
        ("quantile(loss, 2, 5 steps) > 1", 15, "'2' is not a share"),
        ("age(loss, 5 steps) > 1", 4, "'age' takes no window"),
        ("median > 1", 0, "'median' is a function"),
        ("loss > 10m", 7, "'10m' is a duration"),
        ("loss > 3 and step > 1", 9, "'and' is no word here"),
        ("1 < loss < 3", 9, "comparisons do not chain"),
        ("(loss > 3", 0, "this '(' is never closed"),
        ("loss > 3)", 8, "this ')' closes nothing"),
        ("loss && step > 3", 5, "'&&' works on conditions"),
        ("(loss > 3) + 1 > 2", 11, "'+' works on numbers"),
        ("loss > 1e999", 7, "'1e999' is too large"),
        ("(" * (DEPTH_MAX + 2) + "1 > 0", DEPTH_MAX + 1, "nested deeper"),
        ("1 > 0" + " && 1 > 0" * 80, 0, "more than 200 operands"),
        ("1 > 0" + " " * LENGTH_MAX, LENGTH_MAX, f"{LENGTH_MAX + 5} characters"),
    ],
)
def test_a_mistake_is_shown_at_its_character_with_a_remedy(text, at, message):
    with pytest.raises(BadExpression) as error:
        parse_expression(text)
    assert str(error.value).startswith(message)
    assert error.value.remedy
    if "operands" not in message:
        assert error.value.at == at


def test_the_tree_is_what_was_written():
    root = parse_expression("!(`grad_norm/h.3` > 1) && step > 2").root
    inner = Unary("!", Binary(">", Metric("grad_norm/h.3", 3), Constant(1.0)))
    assert root == Binary("&&", inner, Binary(">", Known("step"), Constant(2.0)))


def test_every_known_metric_can_be_written_bare():
    for name in (metric.name for metric in METRICS if not metric.is_family):
        assert list(parse_expression(f"{name} > 0").metrics) == [name]


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("expr: loss > 3 && los = 2", (9, 27)),
        ('expr: "loss > 3 && los = 2"', (9, 28)),
        ("expr: |\n      loss > 3\n      && los = 2", (11, 14)),
        ("expr: >-  # loss, folded\n      loss > 3\n\n      && los = 2", (12, 14)),
        ("expr: loss > 3\n      && los = 2", (10, 14)),
    ],
)
def test_the_caret_stands_under_the_character_however_yaml_writes_the_text(written, place):
    (problem,) = located(GOOD.replace("on: spike", written))
    assert (problem.line, problem.column) == place
