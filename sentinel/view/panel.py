"""One frame of the live view: a picture of the run in, a panel of at most 22 rows out. Draws, remembers nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from sentinel.goodput import account
from sentinel.model.actions import StartAttempt
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.view.spark import ASCII_BLOCKS, BLOCKS, Point, columns, find_column, sparkline
from sentinel.view.words import Line, Tone, action_words, clock_words

STYLES: dict[Tone, str] = {"plain": "", "quiet": "dim", "good": "green", "warn": "yellow", "bad": "bold red"}
STATE_STYLES = {
    "training": "green", "probation": "yellow", "recovering": "bold yellow", "finished": "bold green", "observing": "cyan",
    "failed": "bold red", "held": "bold red", "stopped": "yellow",
}  # fmt: skip
LABEL_WIDTH = 10
VALUE_WIDTH = 10


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything a frame shows. `lines` are elapsed time and words, oldest first."""

    state: RunState
    now_s: float
    total: int | None  # steps of the whole run, None while unknown
    points: tuple[Point, ...]
    lines: tuple[tuple[str, Line], ...]
    step_time_s: float | None
    blocks: bool  # the terminal can show block characters


def draw(picture: Picture) -> RenderableType:
    return _Frame(picture)


class _Frame:
    """A renderable that measures the terminal when it is drawn."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        picture, inner = self._picture, max(20, options.max_width - 4)
        parts: list[RenderableType] = [_headline(picture), _progress(picture, inner), *_sparks(picture, inner)]
        parts += [_rule(picture, "incident"), *_incident(picture)]
        parts += [_rule(picture, "what happened"), *_events(picture)]
        state = picture.state
        title = Text(f" sentinel: {state.run_id}, policy {state.policy_name} ")
        yield Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED if picture.blocks else box.ASCII)


def _headline(picture: Picture) -> RenderableType:
    state = picture.state
    attempt = state.attempt
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(state.label.upper(), STATE_STYLES.get(state.label, "bold"))
    if state.stop_by and not state.ended:
        line.append(f" (stopping: {state.stop_by})", "yellow")
    line.append(f"   {clock_words(picture.now_s - state.created_s)}")
    line.append(f"   attempt {attempt.attempt if attempt else '-'}")
    line.append(f"   goodput {account(state, picture.now_s).goodput_ratio:.0%}")
    line.append(f"   incidents {len(state.incidents)}")
    if state.checkpoints:
        line.append(f"   checkpoint {state.checkpoints[-1].step}")
    for source in list(state.blind)[:1]:
        line.append(f"   {source} blind", "bold red")
    return line


def _progress(picture: Picture, width: int) -> RenderableType:
    step = newest_step(picture)
    if not picture.total:
        return Text(f"step {step}")
    left = max(0, picture.total - step)
    words = f" step {step} of {picture.total}"
    if picture.step_time_s and left and not picture.state.ended:
        words += f", {clock_words(left * picture.step_time_s)} left"
    bar_width = max(10, width - len(words) - 1)
    grid = Table.grid()
    bar: RenderableType = ProgressBar(total=picture.total, completed=min(step, picture.total), width=bar_width)
    if not picture.blocks:
        done = round(bar_width * min(1.0, step / picture.total))
        bar = Text("#" * done + "." * (bar_width - done))
    grid.add_row(bar, Text(words, no_wrap=True))
    return grid


def newest_step(picture: Picture) -> int:
    attempt = picture.state.attempt
    if attempt is None:
        return 0
    if picture.points and picture.points[-1].attempt == attempt.attempt:
        return picture.points[-1].step
    return max(attempt.last_step, attempt.resumed_step)


def _sparks(picture: Picture, width: int) -> list[RenderableType]:
    """Loss and gradient norm, and below them where the newest incident began."""
    room = width - LABEL_WIDTH - VALUE_WIDTH - 1
    cells = columns(picture.points, room)
    blocks = BLOCKS if picture.blocks else ASCII_BLOCKS
    rows: list[RenderableType] = []
    for metric in ("loss", "grad_norm"):
        newest = picture.points[-1].values.get(metric) if picture.points else None
        line = Text(no_wrap=True, overflow="crop")
        line.append(f"{metric.replace('_', ' '):<{LABEL_WIDTH}}")
        line.append(f"{newest:<{VALUE_WIDTH}.4g} " if newest is not None else " " * (VALUE_WIDTH + 1), "bold")
        line.append(sparkline(cells, metric, blocks), "cyan")
        rows.append(line)
    return [*rows, _onset_mark(picture, cells, width)]


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


def shown_incident(state: RunState) -> Incident | None:
    """The newest open incident, else the newest of all."""
    return (state.open_incidents or state.incidents or (None,))[-1]


def _incident(picture: Picture) -> list[RenderableType]:
    """Three lines: what, what was chosen, what is being done now."""
    state = picture.state
    incident = shown_incident(state)
    if incident is None:
        return [Text("none", "dim"), Text(""), _now(picture)]
    what = Text(no_wrap=True, overflow="ellipsis")
    style = "green" if str(incident.state) == "recovered" else "bold red" if not incident.is_closed else "red"
    what.append(f"{incident.id} {incident.kind} {incident.state}", style)
    what.append(f", onset step {incident.onset_step}" if incident.onset_step is not None else f", step {incident.detected_step}")
    what.append(f": {incident.reason}")
    last = incident.last_try
    chosen = Text(no_wrap=True, overflow="ellipsis")
    if last is not None:
        chosen.append(f"rung {last.remedy.rung + 1} ", "bold")
        chosen.append(f"({last.outcome}) {last.remedy.reason}")
    return [what, chosen, _now(picture)]


def _now(picture: Picture) -> Text:
    """What sentinel is doing at this moment."""
    state = picture.state
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("now: ", "bold")
    plan = state.plan
    if plan is not None:
        action = plan.actions[plan.next]
        wait_s = action.not_before_s - picture.now_s if isinstance(action, StartAttempt) else 0.0
        soon = f" in {wait_s:.0f} s" if wait_s > 0 else ""
        line.append(f"{action_words(action)}{soon} ({plan.next + 1} of {len(plan.actions)})", "yellow")
    elif state.pending:
        line.append(action_words(next(iter(state.pending.values()))), "yellow")
    elif state.ended:
        line.append(state.end_reason)
    elif state.held:
        line.append(f"waiting for a person: {state.held}", "bold red")
    elif any(str(i.state) == "probation" for i in state.incidents):
        line.append("watching whether the remedy works")
    elif state.open_incidents:
        line.append("watching whether it heals")
    else:
        line.append("watching")
    return line


def _events(picture: Picture) -> list[RenderableType]:
    rows: list[RenderableType] = []
    for when, told in picture.lines:
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{when:>7}  ", "dim")
        line.append(told.text.strip(), STYLES[told.tone])
        rows.append(line)
    return rows


def _rule(picture: Picture, title: str) -> Rule:
    return Rule(Text(title, "dim"), align="left", style="dim", characters="─" if picture.blocks else "-")
