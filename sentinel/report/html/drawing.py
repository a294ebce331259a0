"""Curves as an SVG that stretches to any width: no text in it, so that its labels, which are HTML beside it, stay readable.

Coordinates are thousandths of the width and hundredths of the height. Colours come from the page's style sheet by class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT, PAD = 1000.0, 100.0, 4.0
LOG_SPAN = 10.0
POINTS_MAX = 300  # of one line: neighbours are put together beyond, lowest and highest kept
COLOURS = 6
MARKS_MAX = 64  # the newest
NON_FINITE_MAX = 32

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """One attempt's points. `keep`: the last step that survives, None: none does; what lies behind is drawn as abandoned.
    `place`: among the attempts told of, which decides its colour in every panel, also in one where another attempt is silent."""

    attempt: int
    points: Points
    keep: int | None
    place: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line. `what`: onset, seen, remedy or struck."""

    step: int
    what: str
    words: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawn metric. `marks` with their place from the left in percent; `attempts` with the class of their colour."""

    metric: str
    svg: str
    low: str
    middle: str
    high: str
    is_log: bool
    first: int
    last: int
    marks: tuple[tuple[float, Mark], ...] = ()
    attempts: tuple[tuple[int, str], ...] = ()
    has_cut: bool = False
    has_non_finite: bool = False
    has_band: bool = False


@dataclass(slots=True)
class Scale:
    low: float
    high: float
    first: int
    last: int
    is_log: bool = field(init=False)

    def __post_init__(self) -> None:
        if self.low == self.high:  # a level line stands in the middle
            self.low, self.high = self.low - (abs(self.low) or 1.0), self.high + (abs(self.high) or 1.0)
        self.is_log = self.low > 0 and self.high / self.low > LOG_SPAN

    @property
    def middle(self) -> float:
        return math.sqrt(self.low) * math.sqrt(self.high) if self.is_log else self.low + (self.high - self.low) / 2

    def x(self, step: float) -> float:
        return WIDTH * (step - self.first) / max(1, self.last - self.first)

    def y(self, value: float) -> float:
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return PAD + (HEIGHT - 2 * PAD) * (1.0 - share)


def draw(
    metric: str, lines: Sequence[Line], marks: Sequence[Mark], first: int, last: int, band: tuple[float, float] | None = None
) -> Panel | None:
    """None where there is no finite value to draw."""
    finite = [value for line in lines for _, value in line.points if math.isfinite(value)]
    if not finite:
        return None
    scale = Scale(min(finite), max(finite), first, last)
    parts = [f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none" aria-hidden="true" focusable="false">']
    parts.append(f'<line class="grid" x1="0" x2="{WIDTH:g}" y1="{HEIGHT / 2:g}" y2="{HEIGHT / 2:g}"/>')
    if band is not None:
        top, bottom = scale.y(band[1]), scale.y(band[0])
        parts.append(f'<rect class="band" x="0" y="{top:.1f}" width="{WIDTH:g}" height="{max(0.8, bottom - top):.1f}"/>')
    shown = sorted(marks, key=lambda mark: mark.step)[-MARKS_MAX:]
    parts += [_upright(scale.x(mark.step), 0.0, HEIGHT, mark.what) for mark in shown]
    attempts, has_cut, has_non_finite = [], False, False
    for line in lines:
        colour = f"c{line.place % COLOURS}"
        kept = [p for p in line.points if line.keep is not None and p[0] <= line.keep]
        cut = line.points[max(0, len(kept) - 1) :] if len(kept) < len(line.points) else []
        parts += [*_curve(scale, cut, "cut"), *_curve(scale, kept, colour)]
        bad = [step for step, value in line.points if not math.isfinite(value)]
        parts += [_upright(scale.x(step), 0.0, 14.0, "nan") for step in bad[:NON_FINITE_MAX]]
        has_cut, has_non_finite = has_cut or bool(cut), has_non_finite or bool(bad)
        attempts.append((line.attempt, colour if kept else "cut"))
    parts.append("</svg>")
    placed = tuple((round(scale.x(mark.step) / WIDTH * 100, 2), mark) for mark in shown)
    return Panel(
        metric, "".join(parts), _said(scale.low), _said(scale.middle), _said(scale.high), scale.is_log,
        first, last, placed, tuple(attempts),
        has_cut, has_non_finite, band is not None,
    )  # fmt: skip


def _curve(scale: Scale, points: Points, colour: str) -> list[str]:
    """A line through what is finite, broken where it is not."""
    found: list[str] = []
    piece: list[str] = []
    for step, value in [*thinned(points), (0, math.nan)]:
        if math.isfinite(value):
            piece.append(f"{scale.x(step):.1f},{scale.y(value):.1f}")
        elif piece:
            piece = [*piece, piece[0]] if len(piece) == 1 else piece  # one point alone is a dot
            found.append(f'<polyline class="line {colour}" points="{" ".join(piece)}"/>')
            piece = []
    return found


def _said(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"


def _upright(x: float, top: float, bottom: float, what: str) -> str:
    return f'<line class="{what}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:g}" y2="{bottom:g}"/>'


def thinned(points: Points) -> list[tuple[int, float]]:
    """At most POINTS_MAX: of neighbours the lowest and the highest, in their order; a value that is no number stays one."""
    if len(points) <= POINTS_MAX:
        return list(points)
    per = math.ceil(len(points) / (POINTS_MAX / 2))
    out: list[tuple[int, float]] = []
    for start in range(0, len(points), per):
        block = points[start : start + per]
        bad = next((p for p in block if not math.isfinite(p[1])), None)
        if bad is not None:
            out.append(bad)
            continue
        ends = {min(block, key=lambda p: p[1]), max(block, key=lambda p: p[1])}
        out += sorted(ends)
    return out
