"""`sentinel top`: a run watched from outside, four times a second, by any process on a machine that sees the run directory.

It reads what the run writes and nothing else, so it can be started and left at any time. Of the streams it reads what it shows,
the newest steps: a run of a million steps is shown as soon as one of a hundred. GPUs are those of its own machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from sentinel.cli.hardware import wait_for_gpus
from sentinel.clock import Clock, SystemClock
from sentinel.curves.blocks import Point
from sentinel.model.facts import RunEnded
from sentinel.policy.schema import Policy
from sentinel.report.drawn import DrawnAttempt
from sentinel.report.following import FollowedRun, RunSnapshot
from sentinel.report.machine_warnings import threats_beside
from sentinel.report.needs import needs_document, unwatched_words
from sentinel.report.run_policy import read_policy
from sentinel.report.snapshot import still_since_s
from sentinel.run_files.heartbeats import RANKS_MAX, RANKS_READ_MAX, RankBeats
from sentinel.run_files.stall import stall_of
from sentinel.telemetry.nvml import DRIVER_SIGNS, HELPER, NO_DRIVER, NvmlSource
from sentinel.terminal.document import picture_document
from sentinel.terminal.live import FRAMES_PER_S, LINES_KEPT, POINTS_KEPT, step_time
from sentinel.terminal.picture import METRICS, Picture, shown_incident
from sentinel.terminal.screen import Screen, open_console, print_plain, shows_blocks
from sentinel.terminal.words import Line, clock_words, describe, utc_words

POLICY_S = 10.0
REFRESH_S = 1.0  # a refresh opens the journal and asks for the attempt's processes; curves are read on at every frame
GPU_ROUND_MS = "200"  # of the helper: every tenth round it tells what it sees
BACKLOG_PIECES_MAX = 200_000  # of streams, drawn before the first picture of --once: a bound, not a limit anybody meets


class TopOfRun:
    """A run and its machine, looked at again and again. `with_utc`: events have the time of day with them, for which a terminal
    of 80 characters has no room."""

    def __init__(self, run_dir: Path, clock: Clock, blocks: bool, with_utc: bool = False) -> None:
        self._run = FollowedRun(run_dir, newest_steps=POINTS_KEPT)
        self._clock = clock
        self._blocks = blocks
        self._with_utc = with_utc
        self._beats = RankBeats(run_dir)
        self._nvml = NvmlSource(run_dir, argv=(*HELPER, GPU_ROUND_MS), signs=DRIVER_SIGNS)
        self._snapshot = self._run.refresh()
        self._refreshed_s = clock.now_s()
        self._seq = 0
        self._lines: deque[tuple[str, Line]] = deque(maxlen=LINES_KEPT)
        self._times: deque[tuple[int, float]] = deque(maxlen=50)
        self._timed = -1  # the attempt they are of: another one's clock may have begun anew
        self._changes = -1
        self._over_s: float | None = None  # when the run ended
        self._policy_read: tuple[float, Policy | None] = (float("-inf"), None)

    def catch_up(self) -> None:
        """Draw every curve to its end, read every rank, and wait for the first word of the GPUs."""
        for _ in range(BACKLOG_PIECES_MAX):
            if not self._run.draw():
                break
        attempt = self._snapshot.state.attempt
        for _ in range(RANKS_MAX // RANKS_READ_MAX):
            if attempt is not None:
                self._beats.refresh(attempt.attempt, self._clock.wall_s())
        wait_for_gpus(self._nvml, self._clock)

    def refresh(self) -> Picture | None:
        """How everything stands; None where nothing can have changed since the last picture."""
        now_s = self._clock.now_s()
        is_due = now_s - self._refreshed_s >= REFRESH_S or self._changes < 0
        if is_due:
            self._snapshot, self._refreshed_s = self._run.refresh(), now_s
            self._nvml.poll(now_s)
        self._run.draw()
        changes = sum(drawn.changes for drawn in self._run.attempts.values())
        if not is_due and changes == self._changes:
            return None
        self._changes = changes
        return self._picture(self._snapshot)

    def close(self) -> None:
        self._nvml.close()

    def _picture(self, snapshot: RunSnapshot) -> Picture:
        state = snapshot.state
        for entry in self._run.entries(self._seq):
            line = describe(entry.fact, entry.at_s, state)
            if line is not None:
                when = f"{clock_words(entry.at_s - state.created_s):>7}"
                self._lines.append((f"{when}  {utc_words(entry.at_s)}" if self._with_utc else when, line))
            if isinstance(entry.fact, RunEnded):
                self._over_s = entry.at_s
        self._seq = snapshot.seq
        attempt, stall = state.attempt, stall_of(state, snapshot.now_s, snapshot.senses)
        return Picture(
            state=state,
            now_s=snapshot.now_s if not state.ended else self._ended_s(snapshot),
            total=snapshot.total_steps,
            points=points_of(self._run.attempts),
            lines=tuple(self._lines),
            step_time_s=self._step_time(),
            blocks=self._blocks,
            ranks=self._beats.refresh(attempt.attempt, self._clock.wall_s()) if attempt is not None else (),
            gpus=self._nvml.gpus,
            gpus_why_not="none: no NVIDIA driver on this machine" if self._nvml.why_not == NO_DRIVER else self._nvml.why_not,
            warnings=warnings_of(snapshot),
            stall=stall,
            needs=needs_document(snapshot, self._policy(snapshot.now_s)),
            standbys=tuple(one.host for one in snapshot.standbys if one.silent_s is None),
            is_watched=snapshot.supervisor == "alive",
            idle_since_s=still_since_s(snapshot, stall),
        )

    def _policy(self, now_s: float) -> Policy | None:
        """Read again after POLICY_S: it is small, and seldom another one."""
        if now_s - self._policy_read[0] > POLICY_S:
            self._policy_read = (now_s, read_policy(self._run.run_dir)[0])
        return self._policy_read[1]

    def _ended_s(self, snapshot: RunSnapshot) -> float:
        """Time stands still when a run has ended, whoever looks and whenever."""
        last = snapshot.state.attempt
        if last is not None and last.ended_s is not None:
            return last.ended_s
        return self._over_s if self._over_s is not None else snapshot.now_s

    def _step_time(self) -> float | None:
        attempt = self._snapshot.state.attempt
        drawn = self._run.attempts.get(attempt.attempt) if attempt is not None else None
        if drawn is None or drawn.newest_step is None:
            return None
        if drawn.attempt != self._timed or (self._times and drawn.newest_step < self._times[-1][0]):
            self._times.clear()
            self._timed = drawn.attempt
        if not self._times or drawn.newest_step > self._times[-1][0]:
            self._times.append((drawn.newest_step, drawn.newest_s))
        return step_time(self._times) or drawn.newest.get("step_time_s")


def show_top(run_dir: Path, once: bool) -> None:
    """Until `q`, or Ctrl-C; a run that ended stays on the screen. Where there is no terminal, and with `once`: lines, once.

    Raises UsageError for what is not the directory of a run.
    """
    console, clock = open_console(), SystemClock()
    as_lines = once or console is None
    with closing(TopOfRun(run_dir, clock, console is None or shows_blocks(console), as_lines)) as watched:
        if as_lines or console is None:
            print_plain(_caught_up(watched))
            return
        with Screen(console) as screen:
            key = ""
            while key not in ("q", "Q"):
                picture = watched.refresh()
                if picture is not None:
                    screen.show(picture)
                key = screen.wait(1.0 / FRAMES_PER_S)


def read_top(run_dir: Path) -> dict[str, Any]:
    """The document of `sentinel top --json`. Raises UsageError for what is not the directory of a run."""
    with closing(TopOfRun(run_dir, SystemClock(), blocks=False, with_utc=True)) as watched:
        return picture_document(_caught_up(watched))


def _caught_up(watched: TopOfRun) -> Picture:
    watched.catch_up()
    picture = watched.refresh()
    assert picture is not None, "the first refresh always finds something"
    return picture


def points_of(attempts: Mapping[int, DrawnAttempt], count: int = POINTS_KEPT) -> tuple[Point, ...]:
    """The newest points of the curves. Watched for long, each stands for several steps: of these the highest value, under the
    last step, and what was no number as NaN."""
    found: list[Point] = []
    for number in sorted(attempts, reverse=True):
        found = _points_of_one(attempts[number], count - len(found)) + found
        if len(found) >= count:
            break
    return tuple(found)


def _points_of_one(drawn: DrawnAttempt, count: int) -> list[Point]:
    values: dict[int, dict[str, float]] = {}
    firsts: list[int] = []
    for metric in METRICS:
        curve = drawn.curves.get(metric)
        if curve is None:
            continue
        buckets = curve.buckets[-count:]
        if len(buckets) > len(firsts):
            firsts = [first for first, _, _ in buckets]
        for first, _, high in buckets:
            values.setdefault(first, {})[metric] = high
        for step in curve.non_finite:
            values.setdefault(step, {})[metric] = float("nan")
    steps = sorted(values)[-count:]
    newest = drawn.newest_step if drawn.newest_step is not None else 0
    ends = [after - 1 for _, after in pairwise(steps)] + [max([newest, *steps[-1:]])]
    return [Point(drawn.attempt, end, values[first]) for first, end in zip(steps, ends, strict=True)] if steps else []


def warnings_of(snapshot: RunSnapshot) -> tuple[str, ...]:
    """What a person must know before they believe the rest, and what the machine threatens the run with."""
    found = [f"an older snapshot: {snapshot.trouble}" if snapshot.trouble else "", unwatched_words(snapshot)]
    shown = shown_incident(snapshot.state)
    found += threats_beside(shown.id if shown is not None else None, snapshot.state, snapshot.now_s, snapshot.senses)
    return tuple(words for words in found if words)
