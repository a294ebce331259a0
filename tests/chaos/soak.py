"""A long run that is struck again and again: what it survived, and what that cost.

    report = soak(folder, draw_plan(seed, minutes=20.0), minutes=20.0)

Faults come at drawn times, a minute apart on average, wherever the run then stands: in a save, in a repair of the fault before,
in a launch. After each the run has to reach new ground. At the end the run is stopped as a person stops it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from sentinel.report.journal_fold import JournalFold
from tests.chaos.kinds import KINDS, Kind, find
from tests.chaos.outcome import count_pages, what_is_wrong
from tests.chaos.run import ROOT, ChaosRun, Unfinished, wait_for

MEAN_S, LEAST_S = 60.0, 8.0
STEPS = 1_000_000  # never reached
EVERY = 100
RECOVERY_S = 240.0  # a hang is found after seconds, a launch takes up to half a minute on a busy machine
LEFT_OUT = ("lost-journal",)  # needs a person
MIB = 1 << 20


@dataclass(frozen=True)
class Planned:
    """A fault so many seconds after the one before; `seed`: of what is drawn in it. Written KIND@SECONDS:SEED."""

    after_s: float
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}@{self.after_s:.0f}:{self.seed}"

    @classmethod
    def parse(cls, text: str) -> Planned:
        """Raises ValueError, KeyError."""
        name, _, rest = text.partition("@")
        after, _, seed = rest.partition(":")
        (kind,) = find([name])
        return cls(float(after), kind.name, int(seed))


@dataclass
class Report:
    """`wrong`: what must not be; none: survived. `memory`: resident bytes of the supervisors, each with the seconds of its
    life."""

    done: list[Planned] = field(default_factory=list)
    grounds_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    memory: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    steps: int = 0
    lost_steps: int = 0
    pages: int = 0
    attempts: int = 0
    goodput: float = 0.0
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        yield f"{len(self.done)} faults in {self.seconds / 60:.1f} min, {'all survived' if not self.wrong else 'NOT SURVIVED'}"
        yield f"{self.steps} steps, {self.lost_steps} of them trained again, {self.attempts} attempts, goodput {self.goodput:.0%}"
        if self.grounds_s:
            median = statistics.median(self.grounds_s)
            yield f"new ground after {median:.1f} s in the median, {max(self.grounds_s):.1f} s at most"
        yield f"{self.pages} page(s)"
        yield self.memory_words()
        yield from (f"wrong: {sentence}" for sentence in self.wrong)

    def memory_words(self) -> str:
        """Of the supervisor that lived longest: between the second fifth of its life and the last."""
        longest = max(self.memory.values(), key=lambda life: life[-1][0] - life[0][0], default=[])
        if len(longest) < 10:
            return "memory of the supervisor: no life was long enough to tell"
        fifth = len(longest) // 5
        first, last = (statistics.median(size for _, size in part) for part in (longest[fifth : 2 * fifth], longest[-fifth:]))
        minutes = (longest[-1][0] - longest[0][0]) / 60
        return f"memory of the supervisor that lived longest ({minutes:.1f} min): {first / MIB:.1f} MiB, later {last / MIB:.1f}"


def draw_plan(seed: int, minutes: float) -> list[Planned]:
    """Faults of every kind that can strike a run in the middle, at exponential distances."""
    rng = Random(seed)
    kinds = [kind for kind in KINDS if kind.strike is not None and not kind.small_disk and kind.name not in LEFT_OUT]
    plan: list[Planned] = []
    bag: list[Kind] = []
    end_s = minutes * 60.0
    while (end_s := end_s - (after_s := max(LEAST_S, rng.expovariate(1 / MEAN_S)))) > 0:
        bag = bag or rng.sample(kinds, len(kinds))  # every kind before any of them comes again
        plan.append(Planned(after_s, bag.pop().name, rng.randrange(10**6)))
    return plan


def soak(folder: Path, plan: Sequence[Planned], say: Callable[[str], None] = lambda line: None) -> Report:
    """Strike a run by plan. Raises nothing for what the run does not survive: that is in the report."""
    report, began_s = Report(), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    run = ChaosRun(folder / "run", STEPS, every=EVERY)
    try:
        run.start()
        run.wait_for_step(3 * EVERY, 300.0)
        for planned in plan:
            _watch(run, report, planned.after_s)
            (kind,) = find([planned.kind])
            assert kind.strike is not None, "only what strikes in the middle is planned"
            kind.strike(run, Random(planned.seed))
            report.done.append(planned)
            report.grounds_s.append(_reach_new_ground(run, report, planned))
            ground = f"new ground after {report.grounds_s[-1]:.1f} s, step {run.newest_step()}"
            say(f"{time.monotonic() - began_s:5.0f} s  {planned}: {ground}")
        _watch(run, report, 5.0)
        _stop(run)
    except (Unfinished, OSError) as error:
        report.wrong.append(f"after {', '.join(map(str, report.done[-3:])) or 'nothing'}: {error}")
    finally:
        report.seconds = time.monotonic() - began_s
        _sum_up(run, report)
        run.end()
    return report


def _watch(run: ChaosRun, report: Report, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        _note(run, report)
        time.sleep(min(1.0, left_s))


def _note(run: ChaosRun, report: Report) -> None:
    if size := run.note_memory():
        report.memory.setdefault(run.supervisor, []).append((time.monotonic(), size))


def _reach_new_ground(run: ChaosRun, report: Report, planned: Planned) -> float:
    def reached() -> bool:
        _note(run, report)
        if run.sentinel is not None and run.sentinel.poll() is not None:
            raise Unfinished(f"sentinel run left with {run.sentinel.poll()} after {planned}: {run.log_path.read_text()[-600:]}")
        return run.newest_step() > run.furthest_step + 1

    began_s = time.monotonic()
    wait_for(f"new ground after {planned}", reached, RECOVERY_S)
    return time.monotonic() - began_s


def _stop(run: ChaosRun) -> None:
    words = [sys.executable, "-m", "sentinel", "stop", str(run.run_dir), "--timeout", "120"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=180.0)
    if done.returncode:
        raise Unfinished(f"sentinel stop: {done.stdout}{done.stderr}")
    run.wait(60.0)


def _sum_up(run: ChaosRun, report: Report) -> None:
    fold = JournalFold(run.run_dir)
    fold.catch_up()
    state = fold.state
    words = [sys.executable, "-m", "sentinel", "status", str(run.run_dir), "--json"]
    status = subprocess.run(words, cwd=ROOT, capture_output=True)
    report.goodput = json.loads(status.stdout)["goodput"] if status.returncode == 0 else 0.0
    report.lost_steps = sum(incident.steps_lost for incident in state.incidents)
    report.attempts, report.pages = len(run.attempts()), count_pages(run)
    surviving = run.surviving()
    report.steps = max(surviving, default=0)
    if not report.wrong:
        run.steps = report.steps
        report.wrong += what_is_wrong(run, "finished" if state.ended == "stopped" else state.ended)
    if report.pages:
        report.wrong.append(f"{report.pages} page(s), and policy could do without")


def shrink(plan: Sequence[Planned], fails: Callable[[Sequence[Planned]], bool], tries: int = 12) -> list[Planned]:
    """The fewest faults found that still fail, in at most so many tries: the last one alone, the last two, four …, then what is
    left without each one of them in turn."""
    found, left, length = list(plan), tries, 1
    while length < len(plan) and left:
        left -= 1
        if fails(plan[-length:]):
            found = list(plan[-length:])
            break
        length *= 2
    index = 0
    while index < len(found) > 1 and left:
        left -= 1
        without = found[:index] + found[index + 1 :]
        if fails(without):
            found = without
        else:
            index += 1
    return found
