"""One run as a small SVG: loss above, gradient norm below, and where it broke, was noticed, and would have been treated.

    Path("run.svg").write_text(draw_run("train.csv", {"loss": [(1, 9.8, 9.9), ...]}, [Mark(1700, "onset", "spike")]))

Each curve comes as (first step, lowest, highest) of neighbouring steps and is drawn as the stripe between them, so a spike of one
step keeps its height. The y axis is logarithmic where the curve spans more than a factor of ten. No dependency, no script.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Curve = Sequence[tuple[int, float, float]]

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP, BOTTOM = 1000, 240, 70, 16, 64, 34, 40
LOG_SPAN = 10.0
TICKS = 5
MARKS_MAX = 400
COLOURS = {"onset": "#b8860b", "found": "#c1121f", "remedy": "#1d4ed8", "info": "#9aa0a6"}
LEGEND = {"onset": "onset", "found": "found", "remedy": "remedy would start", "info": "recorded only"}
DASHES = {"onset": "4 3", "info": "1 3"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line. `what`: onset, found, remedy or info. `words` stand in its tooltip."""

    step: int
    what: str
    words: str


def draw_run(title: str, curves: Mapping[str, Curve], marks: Sequence[Mark]) -> str:
    """The picture as text. Curves without a point are left out."""
    shown = {name: curve for name, curve in curves.items() if curve}
    marks = sorted(marks, key=lambda mark: (mark.what != "info", mark.step))[-MARKS_MAX:]
    steps = [point[0] for curve in shown.values() for point in curve] + [mark.step for mark in marks]
    span = (min(steps, default=0), max(steps, default=1))
    height = TOP + max(1, len(shown)) * (PANEL + GAP) - GAP + BOTTOM
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
        parts += _panel(name, curve, marks, span, top)
        top += PANEL + GAP
    for step in _round_ticks(float(span[0]), float(span[1])):
        x = _x(step, span)
        parts.append(f'<text x="{x:.1f}" y="{height - 20}" text-anchor="middle" fill="#444">{step:,.0f}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{height - 6}" text-anchor="end" fill="#444">step</text></svg>')
    return "\n".join(parts) + "\n"


def _legend(marks: Sequence[Mark]) -> list[str]:
    present = {mark.what for mark in marks}
    parts, x = [], LEFT
    for what, words in LEGEND.items():
        if what in present:
            parts.append(_line(x, 40, x, 52, what, 2.0))
            parts.append(f'<text x="{x + 8}" y="50" fill="#444">{words}</text>')
            x += 28 + 7 * len(words)
    return parts


def _panel(name: str, curve: Curve, marks: Sequence[Mark], span: tuple[int, int], top: int) -> list[str]:
    scale = _Scale(curve, top)
    parts = [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL}" fill="none" stroke="#ccc"/>',
        f'<text x="{LEFT + 8}" y="{top + 16}" font-weight="600">{escape(name)}{" (log)" if scale.is_log else ""}</text>',
    ]
    for value in scale.ticks():
        y = scale.y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{value:.4g}</text>')
    for mark in marks:
        x = _x(mark.step, span)
        parts.append(f"<g>{_line(x, top, x, top + PANEL, mark.what, 1.2)}<title>{escape(mark.words)}</title></g>")
    there = " ".join(f"{_x(step, span):.1f},{scale.y(high):.1f}" for step, _, high in curve)
    back = " ".join(f"{_x(step, span):.1f},{scale.y(low):.1f}" for step, low, _ in reversed(curve))
    style = 'fill="#33415555" stroke="#334155" stroke-width="0.8" stroke-linejoin="round"'
    parts.append(f'<polygon points="{there} {back}" {style}/>')
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, what: str, width: float) -> str:
    dash = f' stroke-dasharray="{DASHES[what]}"' if what in DASHES else ""
    colour = COLOURS.get(what, "#000")
    return f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" stroke="{colour}" stroke-width="{width}"{dash}/>'


def _x(step: float, span: tuple[int, int]) -> float:
    first, last = span
    return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / max(last - first, 1)


class _Scale:
    """Values to pixels of one panel."""

    def __init__(self, curve: Curve, top: int) -> None:
        low, high = min(point[1] for point in curve), max(point[2] for point in curve)
        self.is_log = low > 0 and high / low > LOG_SPAN
        self._low, self._high = (math.log10(low), math.log10(high)) if self.is_log else (low, high)
        pad = 0.04 * (self._high - self._low) or abs(self._low) * 0.05 or 1.0
        self._low, self._high, self._top = self._low - pad, self._high + pad, top

    def y(self, value: float) -> float:
        place = math.log10(value) if self.is_log else value
        return self._top + PANEL * (1.0 - (place - self._low) / (self._high - self._low))

    def ticks(self) -> list[float]:
        if not self.is_log:
            return _round_ticks(self._low, self._high)
        decades = range(math.ceil(self._low), math.floor(self._high) + 1)
        steps = (1.0, 3.0) if len(decades) < TICKS - 1 else (1.0,)
        every = max(1, len(decades) // TICKS)
        powers = range(math.floor(self._low), math.floor(self._high) + 1, every)
        wanted = [10.0**power * step for power in powers for step in steps]
        return [value for value in wanted if self._low <= math.log10(value) <= self._high]


def _round_ticks(low: float, high: float) -> list[float]:
    """About `TICKS` round numbers between the two."""
    if not high > low or not math.isfinite(high - low):
        return [low]
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)][: 4 * TICKS]
