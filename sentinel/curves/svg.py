"""Curves as SVG, on one kind of scale: as a bare panel for a page that has its own labels, and as a picture that stands alone.

`draw_panel` stretches to any width and has no text in it, so that its labels, which are HTML beside it, stay readable; colours
come from the page's style sheet by class. `draw_picture` is a file for any viewer: axes, legend, tooltips. No script.

    Path("run.svg").write_text(draw_picture("train.csv", {"loss": [(1, 9.8, 9.9), ...]}, [PlotMark(1700, "onset", "spike")]))

A scale reaches as far as `reach` says; what lies outside is a triangle at the edge. It is logarithmic where it spans more than a
factor of LOG_SPAN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from sentinel.curves.reach import Reach, reach_of

LOG_SPAN = 10.0
PAD = 0.04  # of the height, above the highest and below the lowest value
TICKS = 5

PANEL_WIDTH, PANEL_HEIGHT = 1000.0, 100.0
POINTS_MAX = 300  # of one line: neighbours are put together beyond, lowest and highest kept
PANEL_COLOURS = 6
PANEL_MARKS_MAX = 64  # the newest
NON_FINITE_MAX = 32
OUTSIDE_SIZE = 5.0  # of a triangle at the edge, half its width
OUTSIDE_APART = 8.0  # of several that would lie on each other the farthest is drawn
OUTSIDE_MAX = 128  # of one curve

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP, BOTTOM = 1000, 240, 70, 16, 64, 34, 40
MARKS_MAX = 400
COLOURS = {"onset": "#b8860b", "found": "#c1121f", "remedy": "#1d4ed8", "info": "#9aa0a6"}
LEGEND = {"onset": "onset", "found": "found", "remedy": "remedy would start", "info": "recorded only"}
DASHES = {"onset": "4 3", "info": "1 3"}

Points = Sequence[tuple[int, float]]
Stripe = Sequence[tuple[int, float, float]]
"""First step, lowest and highest value of neighbouring steps: a spike of one step keeps its height."""


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A vertical line. `what`: onset, seen, remedy, struck, found or info. `words` are its label."""

    step: int
    what: str
    words: str


@dataclass(frozen=True, slots=True)
class Box:
    """Where a curve is drawn."""

    left: float
    top: float
    width: float
    height: float


@dataclass(slots=True)
class Scale:
    """Steps and values to places in a box."""

    low: float
    high: float
    first: int
    last: int
    box: Box
    is_log: bool = field(init=False)

    def __post_init__(self) -> None:
        if self.low == self.high:  # a level line stands in the middle
            self.low, self.high = self.low - (abs(self.low) or 1.0), self.high + (abs(self.high) or 1.0)
        self.is_log = self.low > 0 and self.high / self.low > LOG_SPAN

    @property
    def middle(self) -> float:
        return math.sqrt(self.low) * math.sqrt(self.high) if self.is_log else self.low + (self.high - self.low) / 2

    def x(self, step: float) -> float:
        return self.box.left + self.box.width * (step - self.first) / max(1, self.last - self.first)

    def y(self, value: float) -> float:
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low) if high > low else 0.5
        pad = PAD * self.box.height
        return self.box.top + pad + (self.box.height - 2 * pad) * (1.0 - share)

    def ticks(self) -> list[float]:
        """Round values on it, a few."""
        if not self.is_log:
            return round_ticks(self.low, self.high)
        low, high = math.log10(self.low), math.log10(self.high)
        decades = range(math.ceil(low), math.floor(high) + 1)
        units = (1.0, 3.0) if len(decades) < TICKS - 1 else (1.0,)
        powers = range(math.floor(low), math.floor(high) + 1, max(1, len(decades) // TICKS))
        wanted = [10.0**power * unit for power in powers for unit in units]
        return [value for value in wanted if self.low <= value <= self.high]


def round_ticks(low: float, high: float) -> list[float]:
    """About `TICKS` round numbers between the two."""
    if not high > low or not math.isfinite(high - low):
        return [low]
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)][: 4 * TICKS]


# -- a panel of a page --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """One attempt's points. `keep`: the last step that survives, None: none does; what lies behind is drawn as abandoned.
    `place`: among the attempts shown, which decides its colour in every panel, also in one where another attempt is silent."""

    attempt: int
    points: Points
    keep: int | None
    place: int


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawn metric. `marks` with their place from the left in percent; `attempts` with the class of their colour. `outside`:
    the farthest values that lie outside the scale, in words."""

    metric: str
    svg: str
    low: str
    middle: str
    high: str
    is_log: bool
    first: int
    last: int
    marks: tuple[tuple[float, PlotMark], ...] = ()
    attempts: tuple[tuple[int, str], ...] = ()
    has_cut: bool = False
    has_non_finite: bool = False
    has_band: bool = False
    outside: tuple[str, ...] = ()


def draw_panel(
    metric: str,
    lines: Sequence[AttemptLine],
    marks: Sequence[PlotMark],
    first: int,
    last: int,
    band: tuple[float, float] | None = None,
) -> Panel | None:
    """None where there is no finite value to draw."""
    survived = (value for line in lines for step, value in line.points if line.keep is not None and step <= line.keep)
    reach = reach_of(survived, (value for line in lines for _, value in line.points))
    if reach is None:
        return None
    scale = Scale(reach.low, reach.high, first, last, Box(0.0, 0.0, PANEL_WIDTH, PANEL_HEIGHT))
    view = f'viewBox="0 0 {PANEL_WIDTH:g} {PANEL_HEIGHT:g}"'
    parts = [f'<svg {view} preserveAspectRatio="none" aria-hidden="true" focusable="false">']
    parts.append(f'<line class="grid" x1="0" x2="{PANEL_WIDTH:g}" y1="{PANEL_HEIGHT / 2:g}" y2="{PANEL_HEIGHT / 2:g}"/>')
    if band is not None:
        top, bottom = scale.y(band[1]), scale.y(band[0])
        parts.append(f'<rect class="band" x="0" y="{top:.1f}" width="{PANEL_WIDTH:g}" height="{max(0.8, bottom - top):.1f}"/>')
    shown = sorted(marks, key=lambda mark: mark.step)[-PANEL_MARKS_MAX:]
    parts += [_upright(scale.x(mark.step), 0.0, PANEL_HEIGHT, mark.what) for mark in shown]
    attempts, has_cut, has_non_finite = [], False, False
    for line in lines:
        colour = f"c{line.place % PANEL_COLOURS}"
        kept = [p for p in line.points if line.keep is not None and p[0] <= line.keep]
        cut = line.points[max(0, len(kept) - 1) :] if len(kept) < len(line.points) else []
        parts += [*_curve(scale, cut, "cut"), *_curve(scale, kept, colour)]
        bad = [step for step, value in line.points if not math.isfinite(value)]
        parts += [_upright(scale.x(step), 0.0, 14.0, "nan") for step in bad[:NON_FINITE_MAX]]
        has_cut, has_non_finite = has_cut or bool(cut), has_non_finite or bool(bad)
        attempts.append((line.attempt, colour if kept else "cut"))
    outside = [point for line in lines for point in line.points if reach.side(point[1])]
    parts += [*_outside_marks(scale, outside, 'class="outside"'), "</svg>"]
    placed = tuple((round(scale.x(mark.step) / PANEL_WIDTH * 100, 2), mark) for mark in shown)
    return Panel(
        metric, "".join(parts), _number_words(scale.low), _number_words(scale.middle), _number_words(scale.high), scale.is_log,
        first, last, placed, tuple(attempts),
        has_cut, has_non_finite, band is not None, _outside_words(reach, outside),
    )  # fmt: skip


def _outside_words(reach: Reach, outside: Points) -> tuple[str, ...]:
    """The farthest on either side, with its step."""
    ends = [max(outside, key=lambda p: p[1]), min(outside, key=lambda p: p[1])] if outside else []
    extremes = [(reach.side(value), step, value) for step, value in ends]
    return tuple(
        f"{'▲' if side > 0 else '▼'} {_number_words(value)} at step {step:,}"
        for (side, step, value), wanted in zip(extremes, (1, -1), strict=False)
        if side == wanted
    )


def _outside_marks(scale: Scale, outside: Points, style: str) -> list[str]:
    """Triangles at the edges, each with its value for the pointer."""
    far: dict[tuple[bool, int], tuple[int, float]] = {}
    for point in outside:
        step, value = point
        is_above = value > scale.high
        place = (is_above, int(scale.x(step) / OUTSIDE_APART))
        known = far.setdefault(place, point)
        far[place] = (max if is_above else min)(known, point, key=lambda p: p[1])
    parts = []
    for (is_above, _), (step, value) in sorted(far.items(), key=lambda item: item[1])[-OUTSIDE_MAX:]:
        x, size = scale.x(step), OUTSIDE_SIZE
        edge = scale.box.top if is_above else scale.box.top + scale.box.height
        foot = edge + (2 * size if is_above else -2 * size)
        corners = f"{x - size:.1f},{foot:.1f} {x + size:.1f},{foot:.1f} {x:.1f},{edge:.1f}"
        title = f"{_number_words(value)} at step {step:,}, outside the scale"
        parts.append(f"<polygon {style} points=\"{corners}\"><title>{title}</title></polygon>")
    return parts


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


def _number_words(value: float) -> str:
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


# -- a picture that stands alone ----------------------------------------------------------------------------------------


def draw_picture(title: str, curves: Mapping[str, Stripe], marks: Sequence[PlotMark]) -> str:
    """The picture as text. Curves without a point are left out."""
    shown = {name: curve for name, curve in curves.items() if curve}
    marks = sorted(marks, key=lambda mark: (mark.what != "info", mark.step))[-MARKS_MAX:]
    steps = [point[0] for curve in shown.values() for point in curve] + [mark.step for mark in marks]
    span = (min(steps, default=0), max(steps, default=1))
    height = TOP + max(1, len(shown)) * (HEIGHT + GAP) - GAP + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{escape(title[-110:])}</text>',
        *_legend(marks),
    ]
    if not shown:
        parts.append(f'<text x="{LEFT}" y="{TOP + 40}" fill="#666">neither loss nor grad_norm was logged</text>')
    top = TOP
    for name, curve in shown.items():
        parts += _stripe(name, curve, marks, span, top)
        top += HEIGHT + GAP
    for step in round_ticks(float(span[0]), float(span[1])):
        x = LEFT + (WIDTH - LEFT - RIGHT) * (step - span[0]) / max(span[1] - span[0], 1)
        parts.append(f'<text x="{x:.1f}" y="{height - 20}" text-anchor="middle" fill="#444">{step:,.0f}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{height - 6}" text-anchor="end" fill="#444">step</text></svg>')
    return "\n".join(parts) + "\n"


def _legend(marks: Sequence[PlotMark]) -> list[str]:
    present = {mark.what for mark in marks}
    parts, x = [], LEFT
    for what, words in LEGEND.items():
        if what in present:
            parts.append(_line(x, 40, x, 52, what, 2.0))
            parts.append(f'<text x="{x + 8}" y="50" fill="#444">{words}</text>')
            x += 28 + 7 * len(words)
    return parts


def _stripe(name: str, curve: Stripe, marks: Sequence[PlotMark], span: tuple[int, int], top: int) -> list[str]:
    reach = reach_of(value for _, low, high in curve for value in (low, high))
    assert reach is not None, "a recorded log's points are finite"
    first, last = span
    scale = Scale(reach.low, reach.high, first, last, Box(LEFT, top, WIDTH - LEFT - RIGHT, HEIGHT))
    parts = [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT}" fill="none" stroke="#ccc"/>',
        f'<text x="{LEFT + 8}" y="{top + 16}" font-weight="600">{escape(name)}{" (log)" if scale.is_log else ""}</text>',
    ]
    for value in scale.ticks():
        y = scale.y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{value:.4g}</text>')
    for mark in marks:
        x = scale.x(mark.step)
        parts.append(f"<g>{_line(x, top, x, top + HEIGHT, mark.what, 1.2)}<title>{escape(mark.words)}</title></g>")
    there = " ".join(f"{scale.x(step):.1f},{scale.y(high):.1f}" for step, _, high in curve)
    back = " ".join(f"{scale.x(step):.1f},{scale.y(low):.1f}" for step, low, _ in reversed(curve))
    style = 'fill="#33415555" stroke="#334155" stroke-width="0.8" stroke-linejoin="round"'
    outside = [(step, value) for step, low, high in curve for value in {low, high} if reach.side(value)]
    return [*parts, f'<polygon points="{there} {back}" {style}/>', *_outside_marks(scale, outside, 'fill="#c1121f"')]


def _line(x1: float, y1: float, x2: float, y2: float, what: str, width: float) -> str:
    dash = f' stroke-dasharray="{DASHES[what]}"' if what in DASHES else ""
    colour = COLOURS.get(what, "#000")
    return f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" stroke="{colour}" stroke-width="{width}"{dash}/>'
