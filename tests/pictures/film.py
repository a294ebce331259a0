"""A run's terminal view as one SVG: a still, or a film of many frames that a browser shows without any script.

The frames stand side by side on a strip that jumps from one to the next, and rows that occur again are drawn once. Who asks for
less motion, and what shows no animations, sees the last frame.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.model.state import RunState
from sentinel.run_files.stall import run_word
from sentinel.terminal.panel import draw
from sentinel.terminal.picture import Picture, newest_step
from tests.pictures.drawing import BACKGROUND, CELL, COLUMNS, FONT, FOREGROUND, LINE, ROWS, render_rows

STEPS_EACH = 12  # a frame, while nothing happens
QUIET_S, EVENT_S, LAST_S = 0.12, 0.8, 5.0  # how long one is shown
EDGE, HEAD = 14, 34  # around the characters, and the window's title above them
WIDTH, HEIGHT = COLUMNS * CELL + 2 * EDGE, ROWS * LINE + HEAD + EDGE
SHOWN_WIDTH = 880  # pixels, as wide as a README


@dataclass(frozen=True)
class Moment:
    """A frame of the terminal, and what decides whether it is in the film. `news`: the word for the run, and its newest event."""

    rows: tuple[str, ...]
    news: tuple[str, str]
    attempt: int
    step: int
    is_stalled: bool

    def as_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Moment:
        known = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
        return cls(**known)  # type: ignore[arg-type]


def moment_of(picture: Picture) -> Moment:
    newest = picture.lines[-1][1].text if picture.lines else ""
    news = (run_word(picture.state, picture.stall), newest)
    attempt = _attempt(picture.state)
    return Moment(render_rows(draw(picture, 0)), news, attempt, newest_step(picture), picture.stall is not None)


def _attempt(state: RunState) -> int:
    return state.attempt.attempt if state.attempt is not None else 0


def choose_frames(moments: Sequence[Moment]) -> list[tuple[Moment, float]]:
    """Each moment of the film and the seconds for which it is shown: whatever is news for long, and between them the steps."""
    frames: list[tuple[Moment, float]] = []
    for moment in moments:
        before = frames[-1][0] if frames else None
        if before is None or moment.news != before.news:
            frames.append((moment, EVENT_S))
        elif moment.attempt != before.attempt or moment.step - before.step >= STEPS_EACH:
            frames.append((moment, QUIET_S))
    if moments and frames[-1][0] is not moments[-1]:
        frames.append((moments[-1], LAST_S))
    return [*frames[:-1], (frames[-1][0], LAST_S)] if frames else []


def choose_still(moments: Sequence[Moment]) -> Moment:
    """The last moment of the first suspected hang. Raises ValueError where there was none."""
    stalled = [at for at, moment in enumerate(moments) if moment.is_stalled]
    if not stalled:
        raise ValueError("no moment of the run shows a suspected hang, although the demonstration hangs a rank: record it anew")
    last = next(at for at in stalled if at + 1 == len(moments) or not moments[at + 1].is_stalled)
    return moments[last]


def draw_film(frames: Sequence[tuple[Moment, float]], title: str) -> str:
    """The SVG of a film, or of a still where there is one frame."""
    numbers: dict[str, int] = {}
    strip: list[str] = []
    for at, (moment, _) in enumerate(frames):
        numbered = [(line * LINE, numbers.setdefault(row, len(numbers))) for line, row in enumerate(moment.rows)]
        uses = "".join(f'<use href="#r{number}" y="{y}"/>' for y, number in numbered)
        strip.append(f'<g transform="translate({at * WIDTH})">{uses}</g>')
    rows = "".join(f'<g id="r{number}">{row}</g>' for row, number in numbers.items())
    window = "".join(f'<circle cx="{x}" cy="17" r="5"/>' for x in (20, 37, 54))
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SHOWN_WIDTH}" height="{round(SHOWN_WIDTH * HEIGHT / WIDTH)}" ',
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><style>{_style([s for _, s in frames])}</style>',
        f'<defs>{rows}</defs><rect width="{WIDTH}" height="{HEIGHT}" rx="9" fill="{BACKGROUND}"/>',
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8.5" fill="none" stroke="#444c56"/>',
        f'<g fill="#444c56">{window}</g>',
        f'<text x="{WIDTH // 2}" y="22" text-anchor="middle" style="fill:#8b949e">{title}</text>',
        f'<svg x="{EDGE}" y="{HEAD}" width="{COLUMNS * CELL}" height="{ROWS * LINE}"><g class="film">{"".join(strip)}</g></svg>',
    )
    return "".join((*parts, "</svg>\n"))


def _style(shown_s: Sequence[float]) -> str:
    """The letters, and the strip's jumps."""
    families = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    letters = f"svg{{fill:{FOREGROUND}}}text{{font:{FONT}px {families};font-weight:inherit}}"
    last = (len(shown_s) - 1) * WIDTH
    if len(shown_s) < 2:
        return letters
    whole, passed, jumps = sum(shown_s), 0.0, []
    for at, seconds in enumerate(shown_s):
        jumps.append(f"{100 * passed / whole:.3f}%{{transform:translateX({-at * WIDTH}px)}}")
        passed += seconds
    moving = f".film{{animation:film {whole:.2f}s step-end infinite}}@keyframes film{{{''.join(jumps)}}}"
    return f"{letters}.film{{transform:translateX({-last}px)}}@media(prefers-reduced-motion:no-preference){{{moving}}}"
