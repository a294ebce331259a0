"""How a struck run ended, judged from its files: whether it is whole, and whether it ends bit for bit as the run that was never
hurt.

Bitwise equality is not a property that a kind declares. It is asked of every run whose journal shows no changed setting and no
skipped sample; only what the fault itself does to the numbers may excuse it, with the reason in the table.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sentinel.client.file_digest import FileDigest, listed_digest
from sentinel.model.actions import SendPage, StartAttempt, WriteOverrides
from sentinel.model.facts import ActionConfirmed, ActionDecided
from sentinel.model.incidents import Incident, IncidentState
from sentinel.report.journal_fold import JournalFold
from tests.chaos.kinds import Kind
from tests.chaos.run import ROOT, ChaosRun, wait_for

NOT_SETTINGS = ("id", "attempt", "incident", "request", "until")
COMPARED = ("loss", "grad_norm", "val_loss")
HELD_ROWS, HELD_SHARE = 20, 0.05


@dataclass(frozen=True)
class Ending:
    """What is left of a run: the digests of its last checkpoint, and the numbers of its surviving steps."""

    digests: dict[str, FileDigest | None]
    numbers: dict[int, tuple[Any, ...]]

    @classmethod
    def of(cls, run: ChaosRun) -> Ending:
        path = run.run_dir / "checkpoints" / f"step-{run.steps:08d}" / "manifest.json"
        files = json.loads(path.read_text())["files"] if path.exists() else {}
        digests = {name: listed_digest(entry) for name, entry in files.items() if name != ".metadata"}  # which names its folder
        return cls(digests, {step: tuple(line.get(name) for name in COMPARED) for step, line in run.surviving().items()})


@dataclass(frozen=True)
class Outcome:
    """A row of the table. `wrong`: what must not be, as sentences; none: the run survived as it should."""

    kind: str
    seed: int
    step: int
    happened: str
    bitwise: str
    lost_steps: int
    new_ground_s: float | None
    seconds: float
    pages: int
    wrong: tuple[str, ...]

    @property
    def line(self) -> str:
        verdict = "WRONG: " + "; ".join(self.wrong) if self.wrong else "survived"
        ground = "never" if self.new_ground_s is None else f"{self.new_ground_s:.1f} s"
        what = f"{self.kind} at step {self.step}: {verdict}; {self.happened}; bitwise {self.bitwise}"
        return f"{what}; new ground after {ground}; {self.seconds:.0f} s"


def judge(run: ChaosRun, kind: Kind, drawn: tuple[int, int], unhurt: Ending, seconds: float) -> Outcome:
    """`drawn`: seed and step. `unhurt`: how a run of the same length ended that nothing was done to."""
    fold = JournalFold(run.run_dir)
    fold.catch_up()
    state = fold.state
    ours = Ending.of(run)
    changed, is_equal = changes(run), bool(ours.digests) and ours.digests == unhurt.digests
    pages = count_pages(run)
    is_structural = kind.structural and bool(state.incidents) and not has_held(run, state.incidents)
    wrong = [*what_is_wrong(run, state.ended, kind.loses_lines, is_structural=is_structural)]
    if is_structural and not (pages and state.end_reason.startswith("structural")):
        wrong.append(f"a structural fault ends in {pages} page(s) and the words: {state.end_reason}")
    if pages and not kind.pages and not is_structural:
        wrong.append(f"{pages} page(s), and policy could do without")
    if kind.noticed and not state.incidents:
        wrong.append("nobody noticed it")
    if not is_equal and not changed and not kind.differs:
        wrong.append(f"nothing was changed, and the end differs: {first_difference(ours, unhurt)}")
    incidents = "; ".join(f"{one.kind} {one.state}" for one in state.incidents) or "no incident"
    bitwise = "yes" if is_equal else "no: " + (changed or kind.differs or "nobody knows why")
    lost = sum(one.steps_lost for one in state.incidents)
    return Outcome(kind.name, drawn[0], drawn[1], incidents, bitwise, lost, new_ground_s(run), seconds, pages, tuple(wrong))


def has_held(run: ChaosRun, incidents: Sequence[Incident]) -> bool:
    """Whether every incident was called healed, and its metric stands in the newest rows where it stood before: some draws of a
    fault that comes again are survived by the attempt that skipped other samples."""
    rows = [run.surviving()[step] for step in sorted(run.surviving())][-HELD_ROWS:]
    for incident in incidents:
        band = incident.band
        if incident.state is not IncidentState.RECOVERED or band is None or len(rows) < HELD_ROWS:
            return False
        if statistics.median(float(row[band.metric]) for row in rows) > band.median * (1.0 + HELD_SHARE):
            return False
    return True


def what_is_wrong(run: ChaosRun, ended: str | None, loses_lines: bool = False, *, is_structural: bool = False) -> Iterator[str]:
    if ended != ("failed" if is_structural else "finished"):
        yield f"it {ended or 'did not end'}"
    missing = sorted(set(range(1, run.steps + 1)) - set(run.surviving()))
    if missing and not loses_lines and not is_structural and not _tells_lost_lines(run):
        yield f"{len(missing)} steps have no line, the first is {missing[0]}"
    words = [sys.executable, "-m", "sentinel", "journal", "verify", str(run.run_dir)]
    verified = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if verified.returncode:
        yield f"sentinel journal verify: {verified.stdout}{verified.stderr}".strip()
    try:
        wait_for("end of every process", lambda: not run.living(), 10.0)
    except AssertionError:
        yield f"processes live on: {run.living()}"


def _tells_lost_lines(run: ChaosRun) -> bool:
    """The trainer said itself that lines are missing, or somebody cut the stream."""
    return any(line.get("event") == "lines_lost" for attempt in run.attempts() for line in run.lines(attempt))


def changes(run: ChaosRun) -> str:
    """What Sentinel changed in the run, for the table; empty when nothing."""
    found: set[str] = set()
    for entry in run.facts():
        action = entry.fact.action if isinstance(entry.fact, ActionDecided) else None
        if isinstance(action, (StartAttempt, WriteOverrides)) and (overrides := action.overrides) is not None:
            names = (one.name for one in fields(overrides) if one.name not in NOT_SETTINGS)
            found |= {name for name in names if getattr(overrides, name) not in (None, (), False)}
    return f"changed {', '.join(sorted(found))}" if found else ""


def count_pages(run: ChaosRun) -> int:
    """Pages that were delivered."""
    entries = run.facts()
    actions = {e.fact.action.key: e.fact.action for e in entries if isinstance(e.fact, ActionDecided)}
    confirmed = [actions.get(e.fact.key) for e in entries if isinstance(e.fact, ActionConfirmed)]
    return sum(isinstance(action, SendPage) and action.stage == "trigger" for action in confirmed)


def new_ground_s(run: ChaosRun) -> float | None:
    """From the fault to the first step that no attempt had reported before it."""
    if run.struck_s is None:
        return None
    times = [line["time_s"] for step, line in run.surviving().items() if step > run.furthest_step and line.get("time_s")]
    return max(0.0, min(times) - run.struck_s) if times else None


def first_difference(ours: Ending, theirs: Ending) -> str:
    for step in sorted(set(ours.numbers) & set(theirs.numbers)):
        if ours.numbers[step] != theirs.numbers[step]:
            pairs = zip(COMPARED, ours.numbers[step], theirs.numbers[step], strict=True)
            return f"from step {step}: " + ", ".join(f"{name} {a} and not {b}" for name, a, b in pairs if a != b)
    return "no last checkpoint" if not ours.digests else "in the last checkpoint alone"


def table(outcomes: list[Outcome], kinds: dict[str, Kind]) -> str:
    """In Markdown."""
    rows = [
        "| kind | what is done | seed, step | what happened | bitwise equal | steps lost | s to new ground | s in all |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        ground = "" if one.new_ground_s is None else f"{one.new_ground_s:.1f}"
        parts = (one.happened, f"{one.pages} page(s)" if one.pages else "", *(f"WRONG: {sentence}" for sentence in one.wrong))
        what, drawn = "; ".join(part for part in parts if part), f"{one.seed}, {one.step}"
        cells = (one.kind, kinds[one.kind].does, drawn, what, one.bitwise, one.lost_steps, ground, f"{one.seconds:.0f}")
        rows.append("| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(rows)


def write_table(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
