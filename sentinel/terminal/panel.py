"""One frame of the live view: a picture of the run in, a panel as high as the terminal leaves room for out, at home on 80 x 24.
Draws, remembers nothing. The same rows without a frame are for logs, and for terminals that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from sentinel.curves.blocks import ASCII_BLOCKS, BLOCKS, Point, columns, find_column, sparkline
from sentinel.curves.registry import CURVES
from sentinel.engine.forecast import FAR_S
from sentinel.engine.goodput import account
from sentinel.model.amounts import time_words
from sentinel.model.metrics import SHORT_CHARS_MAX
from sentinel.model.state import UNOBSERVED, UNSEEN
from sentinel.run_files.stall import LAST_SEEN, STALLED, run_word
from sentinel.terminal.clean import clean
from sentinel.terminal.incident_rows import command_rows, incident_rows
from sentinel.terminal.picture import METRICS, Picture, newest_step, shown_incident, survival_in
from sentinel.terminal.side_rows import checkpoint_row, gpu_rows, page_row, rank_rows
from sentinel.terminal.words import Tone, clock_words, utc_words

__all__ = ["Picture", "draw", "draw_plain"]

STYLES: dict[Tone, str] = {"plain": "", "quiet": "dim", "good": "green", "warn": "yellow", "bad": "bold red"}
STATE_STYLES = {
    "training": "green", "probation": "yellow", "recovering": "bold yellow", "finished": "bold green", "observing": "cyan",
    STALLED: "bold yellow", "failed": "bold red", "held": "bold red", "stopped": "yellow", "suspended": "yellow",
    UNOBSERVED: "yellow", UNSEEN: "bold yellow",
}  # fmt: skip
LABELS = {curve.name: curve.short for curve in CURVES if curve.short}
LABEL_WIDTH = SHORT_CHARS_MAX
VALUE_WIDTH = 10
FRAME_ROWS = 2
SPARE_ROWS = 2  # of the terminal, for the cursor and what is printed above
ROWS_MIN = 20  # inside the frame; a lower terminal shows their beginning
EVENTS_MIN, EVENTS_MAX = 4, 24
EACH_MAX = 8  # so many ranks or GPUs have a row each, where there is room
PLAIN_SPARK_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows each part may have."""

    metrics: int
    ranks: int
    gpus: int
    events: int


def draw(picture: Picture, spare_rows: int = SPARE_ROWS) -> RenderableType:
    return _Frame(picture, spare_rows)


def draw_plain(picture: Picture) -> RenderableType:
    """Everything, a line each, without a frame and unbroken."""
    rows = Rows(len(METRICS), EACH_MAX, EACH_MAX, EVENTS_MAX)
    return Group(Text(_title(picture)), *_parts(picture, PLAIN_SPARK_WIDTH, rows, lambda title: Text(f"-- {title}")))


class _Frame:
    """A renderable that measures the terminal when it is drawn."""

    def __init__(self, picture: Picture, spare_rows: int) -> None:
        self._picture = picture
        self._spare_rows = spare_rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        picture, inner = self._picture, max(20, options.max_width - 4)
        room = max(ROWS_MIN, console.size.height - FRAME_ROWS - self._spare_rows)
        parts = _parts(picture, inner, share_rows(picture, room), partial(_rule, picture))
        title = Text(f" {_title(picture)} ")
        yield Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED if picture.blocks else box.ASCII)


def share_rows(picture: Picture, room: int) -> Rows:
    """Events first up to a few; then more curves, each rank, each GPU; and what is left to events again."""
    fixed = 13  # headline, progress, two curves, their mark, ranks, GPUs, checkpoints, two rules, three of the incident
    fixed += len(picture.warnings) + bool(page_row(picture)) + len(command_rows(picture))
    left = max(0, room - fixed)
    events = min(left, EVENTS_MIN)
    left -= events
    metrics = min(left, len(_metrics(picture)) - 2) if len(_metrics(picture)) > 2 else 0
    left -= metrics
    more = {}
    for part, count in (("ranks", len(picture.ranks)), ("gpus", len(picture.gpus))):
        more[part] = count - 1 if 1 < count <= EACH_MAX and count - 1 <= left else 0
        left -= more[part]
    return Rows(2 + metrics, 1 + more["ranks"], 1 + more["gpus"], min(EVENTS_MAX, events + left))


def _parts(picture: Picture, width: int, rows: Rows, rule: Callable[[str], RenderableType]) -> list[RenderableType]:
    parts: list[RenderableType] = [_headline(picture), *_warnings(picture), _progress(picture, width)]
    parts += _sparks(picture, width, rows.metrics)
    parts += [*rank_rows(picture, rows.ranks), *gpu_rows(picture, rows.gpus), checkpoint_row(picture)]
    parts += [rule("incident"), *incident_rows(picture), *page_row(picture)]
    return [*parts, rule("what happened"), *_events(picture, rows.events)]


def _title(picture: Picture) -> str:
    state, began = picture.state, utc_words(picture.state.created_s)
    when = f"{began} to {utc_words(picture.now_s)}" if state.ended else f"since {began}"
    return clean(f"sentinel: {state.run_id}, policy {state.policy_name}, {when}")


def _headline(picture: Picture) -> RenderableType:
    state = picture.state
    attempt = state.attempt
    line = Text(no_wrap=True, overflow="ellipsis")
    word = run_word(state, picture.stall)
    if picture.is_watched or state.ended:
        line.append(word.upper(), STATE_STYLES.get(word, "bold"))
    else:
        line.append(LAST_SEEN.format(word).upper(), "bold yellow")
    if picture.stall is not None:
        line.append(f": {picture.stall.words(picture.now_s)}", "yellow")
    if state.stop_by and not state.ended:
        line.append(f" (stopping: {state.stop_by})", "yellow")
    line.append(f"   {clock_words(picture.now_s - state.created_s)}")
    line.append(f"   attempt {attempt.attempt if attempt else '-'}")
    line.append(f"   goodput {account(state, picture.now_s, picture.still_since_s).goodput_ratio:.0%}")
    line.append(f"   incidents {len(state.incidents)}")
    if picture.standbys:
        line.append(f"   standby {', '.join(map(clean, picture.standbys))}")
    for source in list(state.blind)[:1]:
        line.append(f"   {source} blind", "bold red")
    return line


def _warnings(picture: Picture) -> list[RenderableType]:
    return [Text(clean(warning), "bold red", no_wrap=True, overflow="ellipsis") for warning in picture.warnings]


def _progress(picture: Picture, width: int) -> RenderableType:
    step = newest_step(picture)
    if not picture.total:
        return Text(f"step {step}")
    left = max(0, picture.total - step)
    words = f" step {step} of {picture.total}"
    left_s = left * (picture.step_time_s or 0.0)
    if 0.0 < left_s <= FAR_S and not picture.state.ended and picture.stall is None and picture.is_watched:
        words += f", {time_words(left_s)} left"
    bar_width, done = max(10, width - len(words) - 1), min(step, picture.total)
    grid = Table.grid()
    bar: RenderableType = ProgressBar(picture.total, done, bar_width, complete_style="cyan", finished_style="green")
    if not picture.blocks:
        full = round(bar_width * done / picture.total)
        bar = Text("#" * full + "." * (bar_width - full))
    grid.add_row(bar, Text(words, no_wrap=True))
    return grid


def _metrics(picture: Picture) -> list[str]:
    """Loss and gradient norm always, the others where the trainer tells them."""
    reported = {name for point in picture.points for name in point.values}
    return [name for name in METRICS if name in reported or name in METRICS[:2]]


def _sparks(picture: Picture, width: int, rows: int) -> list[RenderableType]:
    """A curve each, and below them where the newest incident began."""
    cells = columns(picture.points, width - LABEL_WIDTH - VALUE_WIDTH - 1)
    blocks = BLOCKS if picture.blocks else ASCII_BLOCKS
    lines: list[RenderableType] = []
    for metric in _metrics(picture)[:rows]:
        newest = next((p.values[metric] for p in reversed(picture.points) if metric in p.values), None)
        line = Text(no_wrap=True, overflow="crop")
        line.append(f"{LABELS.get(metric, metric):<{LABEL_WIDTH}}")
        line.append(f"{newest:<{VALUE_WIDTH}.4g} " if newest is not None else " " * (VALUE_WIDTH + 1), "bold")
        line.append(sparkline(cells, metric, blocks, survival_in(picture)), "cyan")
        lines.append(line)
    return [*lines, _onset_mark(picture, cells, width)]


def _onset_mark(picture: Picture, cells: Sequence[Sequence[Point]], width: int) -> Text:
    incident = shown_incident(picture.state)
    line = Text(no_wrap=True, overflow="crop")
    if incident is None:
        return line
    step = incident.onset_step if incident.onset_step is not None else incident.detected_step
    column = find_column(cells, incident.attempt, step)
    if column is None:
        return line
    mark = f"^ onset {step}" if incident.onset_step is not None else f"^ {incident.kind}"
    at = LABEL_WIDTH + VALUE_WIDTH + 1 + column
    if at + len(mark) > width:
        mark = mark[2:] + " ^"
        at = max(0, at + 1 - len(mark))
    line.append(" " * at + mark, "red")
    return line


def _events(picture: Picture, rows: int) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for when, event in picture.lines[-rows:] if rows else ():
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{when:>7}  ", "dim")
        line.append(clean(event.text.strip()), STYLES[event.tone])
        lines.append(line)
    return lines


def _rule(picture: Picture, title: str) -> Rule:
    return Rule(Text(title, "dim"), align="left", style="dim", characters="─" if picture.blocks else "-")
