"""Expressions of rules: text to a whitelisted tree, by a small Pratt parser. Never raises anything but `BadExpression`.

    parse_expression("median(loss, 50 steps) > 1.3 * quantile(loss, 0.1, 2000 steps) && step > 2 * warmup_steps")

From weakest to strongest: `||`  `&&`  comparisons  `+ -`  `* /`  unary `- !`. Comparisons do not chain. The method: V. Pratt,
Top down operator precedence, POPL 1973.
"""

from __future__ import annotations

from functools import lru_cache
from typing import get_args

from sentinel.policy.expr_lexer import BadExpression, Token, tokenise
from sentinel.policy.expr_tree import (
    ARITHMETIC,
    COMPARISONS,
    DEPTH_MAX,
    FUNCTIONS,
    LOGIC,
    NODES_MAX,
    VARIABLES,
    WINDOW_SECONDS_MAX,
    WINDOW_STEPS_MAX,
    Binary,
    Constant,
    Expression,
    ExprWindow,
    Known,
    Measured,
    Metric,
    Node,
    Type,
    Unary,
    Variable,
    placed,
    type_of,
    walk,
)
from sentinel.policy.problems import nearest
from sentinel.policy.quantities import SECONDS_IN

__all__ = ["BadExpression", "parse_expression", "parse_recorded"]

_POWER = {"||": 1, "&&": 2, **dict.fromkeys(COMPARISONS, 3), "+": 4, "-": 4, "*": 5, "/": 5}
_UNARY_POWER = 6
RECORDS_DEPTH_MAX = 8
_NOUN: dict[Type, str] = {"number": "numbers", "truth": "conditions"}
_WORDS = {"and": "&&", "or": "||", "not": "!"}
assert set(VARIABLES) == set(get_args(Variable))


Records = tuple[tuple[str, str], ...]
"""The policy's recorded expressions: name and text."""


@lru_cache(maxsize=1024)
def parse_expression(text: str, records: Records = ()) -> Expression:
    """The expression, a condition as a whole. Raises BadExpression, whose `at` is the place in `text`."""
    parser = _Parser(tokenise(text), records)
    root = parser.whole()
    if type_of(root) != "truth":
        raise BadExpression("this is a number, and a rule needs a condition", "compare it: 'loss > 3'", 0)
    return Expression(text, root, tuple((name, recorded) for name, recorded in records if name in parser.named))


def parse_recorded(text: str, records: Records, around: tuple[str, ...] = ()) -> Node:
    """A recorded expression, a number or a condition, which may name others. `around`: those inside which it is read. Raises
    BadExpression."""
    return _Parser(tokenise(text), records, around).whole()


class _Parser:
    def __init__(self, tokens: list[Token], records: Records = (), around: tuple[str, ...] = ()) -> None:
        self._tokens = tokens
        self._next = 0
        self._nodes = 0
        self._records = dict(records)
        self._around = around
        self.named: set[str] = set()

    def whole(self) -> Node:
        root = self.expression(0, 0)
        self.expect_end()
        return root

    def expression(self, power: int, depth: int) -> Node:
        """One operand and every operator that binds more strongly than `power`."""
        if depth > DEPTH_MAX:
            raise BadExpression(f"nested deeper than {DEPTH_MAX} levels", "write two rules", self._peek().at)
        left = self._operand(depth)
        while (operator := self._peek()).kind == "operator" and _POWER.get(operator.text, 0) > power:
            self._take()
            right = self.expression(_POWER[operator.text], depth + 1)
            left = self._joined(operator, left, right)
            after = self._peek()
            if operator.text in COMPARISONS and after.text in COMPARISONS:
                raise BadExpression("comparisons do not chain", "write 'a < b && b < c'", after.at)
        return left

    def expect_end(self) -> None:
        token = self._peek()
        if token.kind == "end":
            return
        if token.text == ")":
            raise BadExpression("this ')' closes nothing", "remove it, or open one before", token.at)
        if token.text in _WORDS:
            raise BadExpression(f"'{token.text}' is no word here", f"write '{_WORDS[token.text]}'", token.at)
        if token.text in ("step", "steps"):
            raise BadExpression(f"'{token.text}' stands where an operator belongs", "units stand only in windows", token.at)
        if token.text.startswith("."):
            remedy = "write names with dots or slashes in backquotes: `grad_norm/h.3`"
            raise BadExpression(f"'{token.text}' continues no name", remedy, token.at)
        raise BadExpression(f"{_shown(token)} stands where an operator belongs", "join both sides: + - * / < > && ||", token.at)

    def _operand(self, depth: int) -> Node:
        token = self._take()
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise BadExpression(f"more than {NODES_MAX} operands", "write two rules", token.at)
        if token.kind == "number":
            return Constant(self._finite(token))
        if token.kind == "metric":
            return Metric(token.text, token.at)
        if token.kind == "name":
            return self._named(token)
        if token.text in ("-", "!"):
            operand = self.expression(_UNARY_POWER, depth + 1)
            self._want(operand, "number" if token.text == "-" else "truth", token)
            return Unary("-" if token.text == "-" else "!", operand)
        if token.text == "(":
            inside = self.expression(0, depth + 1)
            self._close(token)
            return inside
        if token.kind == "duration":
            raise BadExpression(f"'{token.text}' is a duration, and stands only in windows", "write a plain number", token.at)
        if token.kind == "end":
            raise BadExpression("the expression ends where a value belongs", "write a number, a metric or a function", token.at)
        if token.text == "*":
            raise BadExpression("there is no power", "multiply: 'loss * loss'", token.at)
        raise BadExpression(f"'{token.text}' stands where a value belongs", "write a number, a metric or a function", token.at)

    def _named(self, token: Token) -> Node:
        name = token.text
        if self._peek().text == "(":
            return self._call(token)
        if name in _WORDS:
            raise BadExpression(f"'{name}' is no word here", f"write '{_WORDS[name]}'", token.at)
        if name in FUNCTIONS and name not in VARIABLES:
            raise BadExpression(f"'{name}' is a function", f"write '{_usage(name)}'", token.at)
        if name in self._records:
            return self._recorded(token)
        return next((Known(known) for known in VARIABLES if known == name), None) or Metric(name, token.at)

    def _recorded(self, token: Token) -> Node:
        """What is recorded under that name, in its place."""
        name = token.text
        if name in self._around:
            circle = " names ".join((*self._around[self._around.index(name) :], name))
            raise BadExpression(f"a circle: {circle}", "let one of them say it without the others", token.at)
        if len(self._around) >= RECORDS_DEPTH_MAX:
            message = f"more than {RECORDS_DEPTH_MAX} recorded expressions inside one another"
            raise BadExpression(message, "write one out", token.at)
        records = tuple(self._records.items())
        inner = _Parser([], records, (*self._around, name))
        try:
            inner._tokens = tokenise(self._records[name])
            root = inner.whole()
        except BadExpression as error:
            raise BadExpression(f"what is recorded as '{name}' cannot be read: {error}", error.remedy, token.at) from None
        self.named |= {name, *inner.named}
        self._nodes += sum(1 for _ in walk(root))
        if self._nodes > NODES_MAX:
            raise BadExpression(f"more than {NODES_MAX} operands with what '{name}' means", "write two rules", token.at)
        return placed(root, token.at)

    def _call(self, token: Token) -> Node:
        name = token.text
        if name not in FUNCTIONS:
            near = nearest(name, tuple(FUNCTIONS))
            hint = f"did you mean '{near}'? " if near else ""
            raise BadExpression(f"there is no function '{name}'", f"{hint}functions: {', '.join(FUNCTIONS)}", token.at)
        opened = self._take()
        numbers, wants_window = FUNCTIONS[name]
        metric = self._take()
        if metric.kind not in ("name", "metric") or self._peek().text not in (",", ")"):
            remedy = f"write '{_usage(name)}'; functions look at one metric, not at an expression"
            raise BadExpression(f"'{name}' needs a metric's name first", remedy, metric.at)
        if metric.text in self._records:
            message = f"'{metric.text}' is a recorded expression, and functions look at one metric"
            raise BadExpression(message, "use it outside, or write the function into what is recorded", metric.at)
        if metric.text in VARIABLES:
            raise BadExpression(f"'{metric.text}' is no metric: nothing is recorded of it", "use it outside", metric.at)
        quantile = self._quantile(name) if numbers else None
        window = self._window(name) if wants_window == "needed" or self._peek().text == "," else None
        if wants_window == "none" and window is not None:
            raise BadExpression(f"'{name}' takes no window", f"write '{_usage(name)}'", metric.at)
        self._close(opened)
        return Measured(name, metric.text, window, quantile, metric.at)

    def _quantile(self, name: str) -> float:
        self._comma(name)
        token = self._take()
        value = float(token.text) if token.kind == "number" else -1.0
        if not 0.0 <= value <= 1.0:
            raise BadExpression(f"{_shown(token)} is not a share from 0 to 1", f"write '{_usage(name)}'", token.at)
        return value

    def _window(self, name: str) -> ExprWindow:
        self._comma(name)
        token = self._take()
        if token.kind == "duration":
            seconds = float(token.text[:-1]) * SECONDS_IN[token.text[-1]]
            if not 0.0 < seconds <= WINDOW_SECONDS_MAX:
                raise BadExpression(f"'{token.text}' is no window", "write from 1s to 1d", token.at)
            return ExprWindow(seconds=seconds)
        if token.kind != "number":
            raise BadExpression(f"{_shown(token)} is no window", f"write '{_usage(name)}'", token.at)
        value, unit = float(token.text), self._peek()
        if unit.text not in ("step", "steps"):
            message = f"'{token.text}' has no unit; a window was expected"
            raise BadExpression(message, f"write '{token.text} steps', or a duration such as '10m'", token.at)
        self._take()
        if value != int(value) or value < 1:
            raise BadExpression(f"'{token.text} steps' is no window", "write a whole number of steps from 1 on", token.at)
        if value > WINDOW_STEPS_MAX:
            message = f"a window of {token.text} steps is longer than is kept"
            raise BadExpression(message, f"write at most '{WINDOW_STEPS_MAX} steps'", token.at)
        return ExprWindow(steps=int(value))

    def _joined(self, operator: Token, left: Node, right: Node) -> Node:
        self._nodes += 1
        sort: Type = "truth" if operator.text in LOGIC else "number"
        self._want(left, sort, operator)
        self._want(right, sort, operator)
        assert operator.text in (*LOGIC, *COMPARISONS, *ARITHMETIC)
        return Binary(operator.text, left, right)

    def _want(self, node: Node, sort: Type, operator: Token) -> None:
        if type_of(node) != sort:
            other = "a number" if sort == "truth" else "a condition"
            message = f"'{operator.text}' works on {_NOUN[sort]}, and this is {other}"
            remedy = "join conditions with && and ||" if sort == "number" else "compare numbers first: 'loss > 3 && step > 100'"
            raise BadExpression(message, remedy, operator.at)

    def _finite(self, token: Token) -> float:
        value = float(token.text)
        if value - value != 0.0:
            raise BadExpression(f"'{token.text}' is too large", "write a smaller number", token.at)
        return value

    def _comma(self, name: str) -> None:
        token = self._take()
        if token.text != ",":
            raise BadExpression(f"'{name}' needs more than that", f"write '{_usage(name)}'", token.at)

    def _close(self, opened: Token) -> None:
        token = self._take()
        if token.text == ")":
            return
        if token.kind == "end":
            raise BadExpression("this '(' is never closed", "write ')' where it ends", opened.at)
        raise BadExpression(f"{_shown(token)} stands where ')' belongs", "close the bracket first", token.at)

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token


def _shown(token: Token) -> str:
    return "the end" if token.kind == "end" else f"'{token.text}'"


def _usage(name: str) -> str:
    numbers, window = FUNCTIONS[name]
    return f"{name}(loss{', 0.1' if numbers else ''}{'' if window == 'none' else ', 50 steps'})"
