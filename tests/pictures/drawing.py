"""One row of a terminal as SVG. Letters are text; blocks and frames are shapes, so that no font decides how a curve looks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

COLUMNS, ROWS = 80, 24
CELL, LINE, FONT = 8, 17, 13.333  # pixels: a character's width, a row's height, the letters' size
BASELINE = 13
BACKGROUND, FOREGROUND = "#0d1117", "#e6edf3"
# Each of the sixteen has a contrast of at least 4.5 to the background, faint text included.
THEME = TerminalTheme(
    (13, 17, 23), (230, 237, 243),
    [
        (110, 118, 129), (255, 123, 114), (86, 211, 100), (227, 179, 65),
        (121, 192, 255), (210, 168, 255), (86, 212, 221), (201, 209, 217),
    ],
    [
        (139, 148, 158), (255, 161, 152), (126, 231, 135), (242, 204, 96),
        (165, 214, 255), (226, 197, 255), (118, 227, 234), (240, 246, 252),
    ],
)  # fmt: skip
DIM_SHARE = 0.62  # of a faint letter's own colour; the rest is background
BLOCKS = {block: eighths for eighths, block in enumerate("▁▂▃▄▅▆▇█", start=1)}
FRAMES = {
    "─": "h8", "│": "m4-8v17", "╭": "m4 9v-5q0-4 4-4", "╮": "q4 0 4 4v5", "╰": "m4-8v4q0 4 4 4", "╯": "q4 0 4-4v-4",
}  # fmt: skip
BARS = {"━": (0.0, 1.0), "╸": (0.0, 0.5), "╺": (0.5, 0.5)}  # where it begins and how far it reaches, in characters


def render_rows(drawn: RenderableType, columns: int = COLUMNS, rows: int = ROWS) -> tuple[str, ...]:
    """What a terminal of that size would show, each row an SVG fragment whose upper left corner is (0, 0)."""
    console = Console(
        width=columns, height=rows, force_terminal=True, color_system="truecolor", legacy_windows=False, _environ={},
        file=open("/dev/null", "w"),  # noqa: SIM115 - never written
    )  # fmt: skip
    with console.file:
        lines = console.render_lines(drawn, console.options.update(width=columns), pad=True)
    return tuple(draw_row(line) for line in lines[:rows])


def draw_row(segments: Iterable[Segment]) -> str:
    parts: list[str] = []
    column = 0
    for segment in segments:
        if segment.control:
            continue
        colour, is_bold = colour_of(segment.style)
        for piece in re.findall(r"[▁-█]+|[─│╭╮╰╯]+|[━╸╺]+|[^▁-█─│╭╮╰╯━╸╺]+", segment.text):
            parts += _piece(piece, column, colour, is_bold)
            column += len(piece)
    return "".join(parts)


def colour_of(style: Style | None) -> tuple[str, bool]:
    """The colour of the letters as #rrggbb, and whether they are bold."""
    style = style or Style.null()
    red, green, blue = style.color.get_truecolor(THEME) if style.color is not None else THEME.foreground_color
    if style.dim:
        pairs = zip((red, green, blue), THEME.background_color, strict=True)
        red, green, blue = (round(DIM_SHARE * own + (1 - DIM_SHARE) * back) for own, back in pairs)
    return f"#{red:02x}{green:02x}{blue:02x}", bool(style.bold)


def _piece(piece: str, column: int, colour: str, is_bold: bool) -> list[str]:
    x = column * CELL
    if piece[0] in BLOCKS:
        return [f'<path fill="{colour}" d="M{x} {LINE}{_outline(piece)}z"/>']
    if piece[0] in FRAMES:
        runs = re.findall(r"─+|.", piece)
        strokes, at = "", x
        for run in runs:
            strokes += f"M{at} 8" + (f"h{CELL * len(run)}" if run[0] == "─" else FRAMES[run])
            at += CELL * len(run)
        return [f'<path fill="none" stroke="{colour}" d="{strokes}"/>']
    if piece[0] in BARS:
        begin, _ = BARS[piece[0]]
        reach = sum(BARS[one][1] for one in piece)
        return [f'<path fill="{colour}" d="M{x + begin * CELL:g} 7h{reach * CELL:g}v4h-{reach * CELL:g}z"/>']
    weight = ' font-weight="700"' if is_bold else ""
    own = "" if colour == FOREGROUND else f' fill="{colour}"'
    found: list[str] = []
    for words in re.finditer(r"\S+(?: \S+)*", piece):
        text, length = escape(words.group()), len(words.group()) * CELL
        found.append(f'<text x="{x + words.start() * CELL}" y="{BASELINE}" textLength="{length}"{own}{weight}>{text}</text>')
    return found


def _outline(blocks: str) -> str:
    """Up, along and down again: the shape that blocks in a row make, with a pixel left between it and the row above."""
    path = "".join(f"V{LINE - round((LINE - 1) * BLOCKS[one[0]] / 8)}h{CELL * len(one)}" for one in _alike(blocks))
    return f"{path}V{LINE}"


def _alike(text: str) -> list[str]:
    return [found.group() for found in re.finditer(r"(.)\1*", text)]
