"""What Slurm's commands say of a run's steps, and what follows from it. Pure: replies in, verdicts out.

Unknown is a verdict. A look that failed, was cut or cannot be read says neither that a step lives nor that it is gone. A line
that is there is no end, whatever its state. A list without any line is a controller that does not know the job (yet).
docs/design/slurm.md has the table that this file is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from sentinel.launcher.asking import REASON_CHARS_MAX
from sentinel.launcher.asking import Reply as Reply

APART_S = 1.0  # between two looks that must agree: a controller may list a step a moment after its client was promised it
# squeue --Format: columns of so many characters.
# The number stands by itself: of an array's last task it is the array's own, and squeue then lists the other tasks, too.
STEP_COLUMNS = {"jobid": 32, "stepid": 64, "stepname": 128, "stepstate": 32, "nodes": 16384}
JOB_COLUMNS = {"jobid": 32, "state": 32, "nodelist": 65536}
FORGOTTEN = "Invalid job id specified"
CLOCKS_APART_S = 600.0  # munge refuses what is five minutes off, either way
LIVING = frozenset(
    {"RUNNING", "PENDING", "CONFIGURING", "RESIZING", "SIGNALING", "SUSPENDED", "STOPPED", "STAGE_OUT", "COMPLETING"}
)
OVER = frozenset(
    {
        "CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    }
)  # fmt: skip
_BOOT_TIME = re.compile(r"^BOOT_TIME\s*=\s*(\S+)", re.MULTILINE)
_STEP_ID = re.compile(r"[\d_+\[\]-]+\.\w+")


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """A line of squeue --steps. `id`: JOB.STEP, also in an array, where squeue writes ARRAY_TASK.STEP and scontrol on a node does
    not read it. `nodes`: as Slurm writes lists of them, `n[1-3]`."""

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


def why_no_answer(reply: Reply) -> str:
    """Empty where it is a whole one. Of one whose last line has no end a part is missing, and what that named (half of the nodes
    of a step) would be taken for gone: a full disk takes half of what a command prints, and the command may leave with 0."""
    if reply.trouble or not reply.output or reply.output.endswith("\n"):
        return reply.trouble
    return f"its answer is cut: {reply.output.rpartition(chr(10))[2].strip()[-40:]!r} has no end"


def read_steps(reply: Reply, job: str) -> tuple[SlurmStep, ...] | Unclear:
    """Every step of this job, from `squeue --steps --noheader --Format` with STEP_COLUMNS."""
    if trouble := why_no_answer(reply):
        return Unclear(f"squeue --steps: {trouble}")
    steps = []
    for line in _lines(reply.output):
        of, number, name, state, nodes = _columns(line, STEP_COLUMNS)
        if not of.isdecimal() or _STEP_ID.fullmatch(number) is None or not name or not state:
            return Unclear(f"squeue --steps printed a line that cannot be read: {line.strip()[:REASON_CHARS_MAX]!r}")
        if of == job:
            steps.append(SlurmStep(f"{job}.{number.rpartition('.')[2]}", name, state, nodes))
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


def read_job_line(reply: Reply, job: str) -> JobLine | Unclear:
    """This job's, from `squeue --states all --noheader --Format` with JOB_COLUMNS."""
    if trouble := why_no_answer(reply):
        return Unclear(f"squeue: {trouble}")
    lines = [line for line in _lines(reply.output) if _columns(line, JOB_COLUMNS)[0] == job]
    if len(lines) != 1:
        return Unclear(f"squeue lists {len(lines)} jobs of the number {job}")
    _, state, nodes = _columns(lines[0], JOB_COLUMNS)
    if len(nodes) >= JOB_COLUMNS["nodelist"]:
        return Unclear(f"job {job} has more nodes than squeue shows")
    return JobLine(state, nodes) if state else Unclear(f"squeue printed a job that cannot be read: {lines[0][:80]!r}")


def judge_other_job(look: Look, job: JobLine | Unclear) -> Look:
    """Of a job of which no step is listed: one that is over has none, and its own state says so. Ours, too: a supervisor may
    outlive its job, where Slurm lost sight of it (proctrack/linuxproc)."""
    if not isinstance(look, Unclear) or look.steps:
        return look
    if isinstance(job, JobLine) and job.state in OVER:
        return Unlisted(f"its job is over ({job.state})")
    return look


def judge_forgotten_job(look: Look, job: Reply, controller: Reply, launched_s: float) -> Look:
    """Of a job of which the controller says that there is none. It forgets a job some time after its end
    (MinJobAge), or with its state. One process that ran before the launch, and ever since, has forgotten nothing else: so the job
    is over. `controller`: of `scontrol show config`. `launched_s`: Unix seconds, by the clock of the filesystem."""
    if not isinstance(look, Unclear) or look.steps or job.status in (0, None) or FORGOTTEN not in job.errors:
        return look
    found = None if controller.trouble else _BOOT_TIME.search(controller.output)
    if found is None:
        return Unclear(f"squeue: {job.trouble}; and since when this controller runs is not known")
    try:
        booted_s = time.mktime(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return Unclear(f"squeue: {job.trouble}; and since when this controller runs cannot be read: {found[1]!r}")
    if booted_s + CLOCKS_APART_S > launched_s:
        return Unclear(f"squeue: {job.trouble}; and this controller was started after it: it may have lost its state")
    return Unlisted("its job is over, and forgotten by a controller that has run since before it began")


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


def _lines(output: str) -> list[str]:
    """Those that squeue ended. A name may hold what Python takes for the end of a line, too."""
    return [line for line in output.split("\n") if line]


def _columns(line: str, widths: Mapping[str, int]) -> list[str]:
    cells, at = [], 0
    for width in widths.values():
        cells.append(line[at : at + width].strip())
        at += width
    return cells


def format_of(columns: Mapping[str, int]) -> str:
    """For squeue --Format."""
    return ",".join(f"{name}:{width}" for name, width in columns.items())
