"""Whether a rule on an expression can ever say something, as far as the policy tells of its run."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel.errors import Problem
from sentinel.model.metrics import METRICS, is_known
from sentinel.policy.expr_tree import FUNCTIONS, VARIABLES, Expression, Measured, Variable
from sentinel.policy.problems import nearest
from sentinel.policy.schema import PolicySpec, Rule, RunFacts

RESERVED = ("and", "or", "not", "steps")
# What an expression may read that neither a row nor the clock tells, and where it comes from.
_RECEIPT_VARIABLES: dict[Variable, tuple[str, str]] = {
    "warmup_steps": ("the trainer's receipt has no warmup_steps", "warmup_steps: 2000 steps"),
    "tokens": ("the trainer's receipt has no tokens_per_step", "tokens_per_step: 524288"),
}


def check_record(spec: PolicySpec) -> Iterator[Problem]:
    """Problems of names under which expressions are recorded."""
    used = {name for rule in spec.rules if rule.expr is not None for name, _ in rule.expr.recorded}
    used |= {name for recorded in spec.record.values() for name in spec.record if name in recorded}
    for name in spec.record:
        path = f"spec.record.{name}"
        if name in (*VARIABLES, *FUNCTIONS, *RESERVED):
            yield Problem(path, f"'{name}' is a word of expressions already", "give it a name of its own")
        elif is_known(name):
            yield Problem(path, f"'{name}' is a metric already: rules would no longer read it", "give it a name of its own")
        elif name not in used:
            yield Problem(path, "no rule names this expression", "remove it, or name it in a rule's expr", "warning")


def check_expression(path: str, rule: Rule, run: RunFacts) -> Iterator[Problem]:
    """Problems of one rule's `expr` and of what goes with it."""
    if rule.expr is None:
        if rule.on_nonfinite == "fire":
            message = "on_nonfinite belongs to expr; detectors judge values that are no number by themselves"
            yield Problem(f"{path}.on_nonfinite", message, "remove it; non_finite is a detector of its own")
        return
    expression = rule.expr
    if not expression.metrics:
        message = "the expression reads no metric: once true, it is true whatever the run does"
        yield Problem(f"{path}.expr", message, "compare a metric, such as 'loss > 3'", "warning", at=0)
    for name, at in expression.metrics.items():
        if not is_known(name):
            message = f"'{name}' is no metric that trainers are known to write: without it the rule is unknown for ever"
            yield Problem(f"{path}.expr", message, _meant(expression, name), "warning", at=at)
    yield from _check_known(path, expression, run)
    for measured in expression.windows:
        yield from _check_window(path, measured, rule)


def _meant(expression: Expression, name: str) -> str:
    """A trainer may write other metrics: an expression on one of those is warned about, not refused."""
    for metric in METRICS:
        if metric.is_family and f"{metric.name}{name}" in "".join(expression.text.split()):
            return f"one metric of that name is written in backquotes: `{metric.name}{name}`; '/' alone divides"
    single = tuple(metric.name for metric in METRICS if not metric.is_family)
    near = nearest(name, single)
    listed = f"known: {', '.join(single)}; fine, if your trainer writes it"
    return f"did you mean '{near}'? {listed}" if near else listed


def _check_known(path: str, expression: Expression, run: RunFacts) -> Iterator[Problem]:
    known: dict[Variable, int | None] = {"warmup_steps": run.warmup_steps, "tokens": run.tokens_per_step}
    for name, (absent, example) in _RECEIPT_VARIABLES.items():
        if expression.reads(name) and known[name] is None:
            message = f"'{name}' is unknown where {absent}, and the rule with it"
            at = max(expression.text.find(name), 0)  # or it stands in what is recorded
            yield Problem(f"{path}.expr", message, f"write spec.run: {{{example}}}", "warning", at=at)


def _check_window(path: str, measured: Measured, rule: Rule) -> Iterator[Problem]:
    """A pulse that the window forgets cannot outlast a longer `for`."""
    window, hold = measured.window, rule.for_
    if window is None or measured.function not in ("max", "min", "nonfinite", "count"):
        return
    if (window.steps and hold.steps > window.steps) or (window.seconds and hold.seconds > window.seconds):
        message = f"'{measured.function}' forgets after {window.text}, and the alert waits longer than that"
        remedy = "shorten 'for', or lengthen the window"
        yield Problem(f"{path}.for", message, remedy, "warning")
