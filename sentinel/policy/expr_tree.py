"""The tree an expression is parsed into, and the whitelist of what may stand in it.

A node is one of seven shapes. There is no attribute, no power, no text, no call of anything but `FUNCTIONS`: what is not here
cannot be written. Numbers and truth values do not mix; `type_of` says which one a node is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

LENGTH_MAX = 1000  # characters
DEPTH_MAX = 24
NODES_MAX = 200
WINDOW_STEPS_MAX = 10_000
WINDOW_SECONDS_MAX = 86_400.0

Type = Literal["number", "truth"]
Variable = Literal["step", "attempt", "warmup_steps", "tokens"]
VARIABLES: tuple[Variable, ...] = ("step", "attempt", "warmup_steps", "tokens")

# Window functions: how many numbers stand between the metric and the window, and whether a window is needed.
FUNCTIONS: dict[str, tuple[int, Literal["needed", "optional", "none"]]] = {
    "last": (0, "optional"), "mean": (0, "needed"), "median": (0, "needed"), "mad": (0, "needed"), "stddev": (0, "needed"),
    "min": (0, "needed"), "max": (0, "needed"), "quantile": (1, "needed"), "rate": (0, "needed"), "slope": (0, "needed"),
    "count": (0, "needed"), "nonfinite": (0, "needed"), "age": (0, "none"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExprWindow:
    """The newest `steps` optimizer steps, or `seconds` of the trainer's clock; exactly one is above zero."""

    steps: int = 0
    seconds: float = 0.0

    @property
    def text(self) -> str:
        return f"{self.steps} steps" if self.steps else f"{self.seconds:g}s"


@dataclass(frozen=True, slots=True)
class Constant:
    value: float


@dataclass(frozen=True, slots=True)
class Known:
    """A quantity of the run itself."""

    name: Variable


@dataclass(frozen=True, slots=True)
class Metric:
    """What the present row says; unknown where it does not."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A window function. `quantile` is None for all functions but that one; `window` is None for the whole attempt."""

    function: str
    metric: str
    window: ExprWindow | None
    quantile: float | None
    at: int


@dataclass(frozen=True, slots=True)
class Unary:
    operator: Literal["-", "!"]
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Node
    right: Node


Node = Constant | Known | Metric | Measured | Unary | Binary

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGIC = ("&&", "||")
ARITHMETIC = ("+", "-", "*", "/")


def type_of(node: Node) -> Type:
    """Whether the node is a number or a truth value."""
    if isinstance(node, Unary):
        return "truth" if node.operator == "!" else "number"
    if isinstance(node, Binary):
        return "number" if node.operator in ARITHMETIC else "truth"
    return "number"


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    if isinstance(node, Unary):
        yield from walk(node.operand)
    elif isinstance(node, Binary):
        yield from walk(node.left)
        yield from walk(node.right)


def placed(node: Node, at: int) -> Node:
    """The same tree, all of it at one place of another text."""
    match node:
        case Metric() | Measured():
            return replace(node, at=at)
        case Unary(operand=operand):
            return replace(node, operand=placed(operand, at))
        case Binary(left=left, right=right):
            return replace(node, left=placed(left, at), right=placed(right, at))
        case _:
            return node


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: `text` as it was written, `root` of type truth. `recorded`: the recorded expressions that it names,
    with their texts; in `root` their trees stand in the place of their names."""

    text: str
    root: Node
    recorded: tuple[tuple[str, str], ...] = ()

    @property
    def metrics(self) -> dict[str, int]:
        """Names of the metrics it reads, each with its first place in the text."""
        found: dict[str, int] = {}
        for node in walk(self.root):
            if isinstance(node, Metric):
                found.setdefault(node.name, node.at)
            elif isinstance(node, Measured):
                found.setdefault(node.metric, node.at)
        return found

    @property
    def windows(self) -> tuple[Measured, ...]:
        """The window functions in it, in the order of the text."""
        return tuple(node for node in walk(self.root) if isinstance(node, Measured))

    def reads(self, name: Variable) -> bool:
        return Known(name) in tuple(walk(self.root))
