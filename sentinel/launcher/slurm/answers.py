"""What Slurm's commands say of a run's steps, and what follows from it. Pure: replies in, verdicts out.

Unknown is a verdict. A look that failed, was cut or cannot be read says neither that a step lives nor that it is gone. A line
that is there is no end, whatever its state. A list without any line is a controller that does not know the job (yet).
docs/design/slurm.md has the table that this file is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sentinel.launcher.asking import REASON_CHARS_MAX
from sentinel.launcher.asking import Reply as Reply

APART_S = 1.0  # between two looks that must agree: a controller may list a step a moment after its client was promised it
# squeue --Format: columns of so many characters.
STEP_COLUMNS = {"stepid": 64, "stepname": 128, "stepstate": 32, "nodes": 4096}
JOB_COLUMNS = {"state": 32, "nodelist": 4096}
LIVING = frozenset(
    {"RUNNING", "PENDING", "CONFIGURING", "RESIZING", "SIGNALING", "SUSPENDED", "STOPPED", "STAGE_OUT", "COMPLETING"}
)
OVER = frozenset(
    {
        "CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    }
)  # fmt: skip
_STEP_ID = re.compile(r"[\d_+\[\]-]+\.\w+")


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """A line of squeue --steps. `nodes`: as Slurm writes lists of them, `n[1-3]`."""

    id: str
    name: str
    state: str
    nodes: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """Steps of the attempt's name are there: it lives. `doubt`: what its nodes said, where they were asked."""

    steps: tuple[SlurmStep, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """None is, of a job of which others are. Twice in a row, with silence, it is an end (`Absence`). `why`: what else says so."""

    why: str = "squeue lists the job's other steps, and none of its name"


@dataclass(frozen=True, slots=True)
class Unclear:
    """Nobody knows. `steps`: lines of the attempt's name that are there all the same."""

    reason: str
    steps: tuple[SlurmStep, ...] = ()


Look = Listed | Unlisted | Unclear


def read_steps(reply: Reply) -> tuple[SlurmStep, ...] | Unclear:
    """Every step of a job, from `squeue --steps --noheader --Format` with STEP_COLUMNS."""
    if reply.trouble:
        return Unclear(f"squeue --steps: {reply.trouble}")
    steps = []
    for line in reply.output.splitlines():
        number, name, state, nodes = _columns(line, STEP_COLUMNS)
        if _STEP_ID.fullmatch(number) is None or not name or not state:
            return Unclear(f"squeue --steps printed a line that cannot be read: {line.strip()[:REASON_CHARS_MAX]!r}")
        steps.append(SlurmStep(number, name, state, nodes))
    return tuple(steps)


def judge_steps(steps: tuple[SlurmStep, ...] | Unclear, name: str) -> Look:
    """What the list says of the attempt whose steps have this name."""
    if isinstance(steps, Unclear):
        return steps
    own = tuple(step for step in steps if step.name == name)
    odd = next((step for step in own if step.state not in LIVING), None)
    if odd is not None:
        what = "over, and its line is still there" if odd.state in OVER else "in a state that is not known here"
        return Unclear(f"squeue lists step {odd.id} as {odd.state}: {what}", own)
    if own:
        return Listed(own)
    if not steps:
        return Unclear("squeue lists no step at all of the job, not even that of its batch script")
    return Unlisted()


def find_others(steps: tuple[SlurmStep, ...], prefix: str, attempt: int) -> dict[int, tuple[SlurmStep, ...]]:
    """The steps of the run's other attempts, by their number. `prefix`: of the run's names."""
    found: dict[int, tuple[SlurmStep, ...]] = {}
    for step in steps:
        number = step.name.removeprefix(prefix)
        if step.name.startswith(prefix) and number.isascii() and number.isdigit() and int(number) != attempt:
            found[int(number)] = (*found.get(int(number), ()), step)
    return found


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job as squeue lists it. `nodes`: those that it has now; one that has failed is no longer among them."""

    state: str
    nodes: str


def read_job_line(reply: Reply) -> JobLine | Unclear:
    """From `squeue --states all --noheader --Format` with JOB_COLUMNS."""
    if reply.trouble:
        return Unclear(f"squeue: {reply.trouble}")
    lines = reply.output.splitlines()
    if len(lines) != 1:
        return Unclear(f"squeue lists {len(lines)} jobs of that number")
    state, nodes = _columns(lines[0], JOB_COLUMNS)
    return JobLine(state, nodes) if state else Unclear(f"squeue printed a job that cannot be read: {lines[0][:80]!r}")


def judge_other_job(look: Look, job: JobLine | Unclear) -> Look:
    """Of a job that is not ours: one that is over lists no step any more, and its own state says so."""
    if not isinstance(look, Unclear) or look.steps:
        return look
    if isinstance(job, JobLine) and job.state in OVER:
        return Unlisted(f"its job is over ({job.state})")
    return look


class Absence:
    """Whether it is gone: two looks in a row, APART_S apart, do not list it, and no heartbeat changed since the first."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._beats: Mapping[int, bytes] = {}
        self.why_not = ""
        self.is_contradicted = False  # by a heartbeat

    @property
    def is_pending(self) -> bool:
        return self._since_s is not None

    def add(self, look: Look, beats: Mapping[int, bytes], now_s: float) -> bool:
        """True where it is proven; else `why_not` says what is missing."""
        if not isinstance(look, Unlisted):
            self._since_s, self.is_contradicted = None, False
            listed = f"squeue lists step {look.steps[0].id}" if look.steps else ""
            self.why_not = look.reason if isinstance(look, Unclear) else f"{listed}: {look.doubt}" if look.doubt else listed
            return False
        changed = [rank for rank, beat in beats.items() if beat != self._beats.get(rank)]
        if self._since_s is None or changed:
            self.is_contradicted = self._since_s is not None
            self._since_s, self._beats = now_s, dict(beats)
            self.why_not = (
                f"{look.why}, {'by one look' if not self.is_contradicted else f'but the heartbeat of rank {changed[0]} changes'}"
            )
            return False
        return now_s - self._since_s >= APART_S


def _columns(line: str, widths: Mapping[str, int]) -> list[str]:
    cells, at = [], 0
    for width in widths.values():
        cells.append(line[at : at + width].strip())
        at += width
    return cells


def format_of(columns: Mapping[str, int]) -> str:
    """For squeue --Format."""
    return ",".join(f"{name}:{width}" for name, width in columns.items())
