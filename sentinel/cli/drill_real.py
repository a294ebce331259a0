"""`sentinel drill FILE --real`: a drill done to the bundled trainer, two ranks on the CPU, under a real supervisor.

    report = drill_real(Path("policies/drills/kill.yaml"))
    print(report.text); raise SystemExit(0 if report.ok else 1)

The journal of the run is read when it is over, and compared with what the file expects by the same code as a simulated one. Two
more things are asked, of the directory: every log stayed below its cap, and no process was left behind.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentinel.cli.bundled_trainer import (
    check_trainer,
    fault_words,
    launch_words,
    precision_words,
    size_words,
    slowed_words,
    source_paths,
)
from sentinel.errors import UsageError
from sentinel.journal.run_folder import ensure_run_dir
from sentinel.launcher.log_cap import CAP_BYTES, read_log_sizes
from sentinel.launcher.process_tree import find_living
from sentinel.model.actions import SendPage
from sentinel.model.amounts import time_words
from sentinel.model.facts import ActionConfirmed, ActionDecided, Entry
from sentinel.model.state import RunState
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.documents import incident_document
from sentinel.report.journal_fold import JournalFold
from sentinel.run_files.attempt_files import RUN_DIR_VARIABLE, AttemptFiles
from sentinel.run_files.warm_standing import read_warm
from sentinel.sim.drill import NotShown, entry_lines, find_drill, policy_beside
from sentinel.sim.drill_file import RealDrill, read_drill
from sentinel.sim.expected import differences, rungs_of
from sentinel.sim.scenarios import Scenario
from sentinel.supervisor.app import supervise
from sentinel.supervisor.run_request import RunRequest

EDITED = "edited.txt"  # of the fault `edit`: the file of a run that its drill watches as its source
PRESET = "micro"  # 50 thousand parameters: 40 ms a step on two cores
LEAVING_LOOKS, LEAVING_LOOK_S = 60, 0.05
LOG_SLACK = 2  # a flood is cut once a second, and may write as much again until then


@dataclass(frozen=True)
class RealRun:
    """How it went, in the words of `sim.expected.Happened`. `seconds` from the first entry of the journal to the last."""

    scenario: Scenario
    outcome: str
    state: RunState
    entries: tuple[Entry, ...]
    pages: tuple[str, ...]

    @property
    def began_s(self) -> float:
        return self.entries[0].at_s if self.entries else 0.0

    @property
    def seconds(self) -> float:
        return self.entries[-1].at_s - self.began_s if self.entries else 0.0


@dataclass(frozen=True)
class RealReport:
    """`differing`: where it was not as expected, as sentences. `run_dir` is "" once it was removed."""

    title: str
    policy: str
    run: RealRun
    differing: tuple[str, ...]
    reproduce: str
    run_dir: str = ""
    logs: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0  # of this process, which supervised
    warm: str = ""  # with ranks in reserve: how the newest attempt was launched

    @property
    def ok(self) -> bool:
        return not self.differing

    @property
    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        run = self.run
        shape, faults = run.scenario.shape, run.scenario.faults
        yield f"drill {self.title}: policy {self.policy}, {shape.ranks} real ranks, {shape.steps} steps, {len(faults)} fault(s)"
        yield from (f"  {fault.text}" for fault in faults)
        yield from entry_lines(run.entries, run.began_s)
        yield f"{run.outcome} after {time_words(run.seconds)}, {len(run.pages)} page(s) sent"
        yield from (f"not as expected: {sentence}" for sentence in self.differing)
        yield from (f"ranks in reserve: {words}" for words in (self.warm,) if words)
        kept = f"; the run is kept in {self.run_dir}" if self.run_dir else ""
        yield f"{'passed' if self.ok else 'FAILED'}; again with: {self.reproduce}{kept}"

    @property
    def line(self) -> str:
        run = self.run
        if self.ok:
            incidents = "; ".join(f"{i.kind} {i.state} ({', '.join(rungs_of(i))})" for i in run.state.incidents)
            return f"{self.title}: passed, {run.outcome} after {time_words(run.seconds)}; {incidents or 'no incident'}"
        return f"{self.title}: FAILED: {'; '.join(self.differing)}; kept in {self.run_dir}; again with: {self.reproduce}"

    @property
    def document(self) -> dict[str, Any]:
        run = self.run
        return {
            "drill": self.title,
            "policy": self.policy,
            "real": True,
            "faults": [fault.text for fault in run.scenario.faults],
            "ok": self.ok,
            "outcome": run.outcome,
            "seconds": round(run.seconds, 3),
            "not_as_expected": list(self.differing),
            "incidents": [incident_document(incident) for incident in run.state.incidents],
            "pages": list(run.pages),
            "attempts": len(run.state.attempts),
            "facts": len(run.entries),
            "log_bytes": self.logs,
            "supervisor_peak_bytes": self.peak_bytes,
            "warm": self.warm or None,
            "run_dir": self.run_dir or None,
            "reproduce": self.reproduce,
        }


def drill_real(
    path: Path, run_dir: Path | None = None, policy: str | None = None, until_s: float | None = None, is_warm: bool = False
) -> RealReport | NotShown:
    """Do it and judge it; without `run_dir` in a temporary directory, which is kept when it failed. `is_warm`: with ranks in
    reserve, of which what the file expects knows nothing: it must be as without.

    Raises:
        UsageError, PolicyError: nothing was started.
    """
    place = find_drill(path)
    drill = read_drill(place, real=True)
    real = drill.real
    if real.not_shown:
        return NotShown(drill.name, f"not shown with the real trainer: {real.not_shown}; sentinel drill {path} simulates it")
    check_trainer("a real drill trains")
    policy_path = policy_beside(place, real.policy) if policy is None else shipped_policy_path(policy)
    load_policy(policy_path)
    if run_dir is not None and run_dir.is_dir() and any(run_dir.iterdir()):
        raise UsageError(f"--run-dir {run_dir}: is not empty; a drill begins a run of its own, name a new directory")
    folder = Path(tempfile.mkdtemp(prefix=f"sentinel-drill-{place.stem}-")) / "run" if run_dir is None else run_dir
    print(f"drill {drill.name}: real processes, in {folder}", file=sys.stderr, flush=True)
    late = _supervise(real, folder, policy_path, real.until_s if until_s is None else until_s, is_warm)
    run = _read(real, folder)
    logs = {str(log.relative_to(folder)): size for log, size in read_log_sizes(folder).items()}
    differing = (*late, *differences(real.expected, run), *_left_behind(folder), *_too_long(logs))
    is_kept = bool(run_dir is not None or differing)
    standing = read_warm(folder) if is_warm else None
    if not is_kept:
        shutil.rmtree(folder.parent, ignore_errors=True)
    again = f"sentinel drill {path} --real" + (f" --policy {policy}" if policy is not None else "") + " --warm" * is_warm
    name = policy if policy is not None else real.policy
    kept, warm = str(folder) if is_kept else "", "" if standing is None else standing.last or standing.words
    return RealReport(drill.name, name, run, tuple(differing), again, kept, logs, _peak_bytes(), warm)


def _peak_bytes() -> int:
    """The most memory that this process has held. `ru_maxrss` begins with what the process held that forked it."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) * 1024 if found is not None else 0


def build_command(real: RealDrill, is_warm: bool = False) -> tuple[str, ...]:
    """The trainer at its smallest, on the CPU whatever else is there: equal on every machine. Slower, with ranks in reserve."""
    shape = real.scenario.shape
    hidden = ["env", "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1"]
    sizes = ["--preset", PRESET, *precision_words(real.precision), *size_words(shape.steps, shape.checkpoint_every, shape.batch)]
    faults = fault_words(tuple(fault.text for fault in real.scenario.faults))
    return (*hidden, *launch_words(shape.ranks), *sizes, *(slowed_words(shape.ranks) if is_warm else []), *faults)


def _supervise(real: RealDrill, folder: Path, policy: Path, until_s: float, is_warm: bool) -> list[str]:
    """Until the run is over; one that is not over in time is stopped, as a person would. What was out of time, in a sentence."""
    late: list[str] = []
    watched = folder / EDITED
    edits = any(fault.kind == "edit" for fault in real.scenario.faults)
    if edits:
        ensure_run_dir(folder)
        watched.write_text("as it was when the run began\n", encoding="utf-8")

    def stop() -> None:
        late.append(f"it was not over after {time_words(until_s)}, and was stopped")
        os.kill(os.getpid(), signal.SIGTERM)

    timer = threading.Timer(until_s, stop)
    timer.daemon = True
    timer.start()
    try:
        code = (str(watched.resolve()),) if edits else source_paths()
        command = build_command(real, is_warm)
        request = RunRequest(folder, str(policy), command, os.getcwd(), real.scenario.observe_only, code=code)
        request = replace(request, launcher_options={"warm": "on"}) if is_warm else request
        with redirect_stdout(sys.stderr):  # where the run's lines go, too: the report stands alone, and may be JSON
            supervise(request)
    finally:
        timer.cancel()
    return late


def _read(real: RealDrill, folder: Path) -> RealRun:
    fold = JournalFold(folder)
    entries = tuple(entry for entry, _ in fold.read())
    state = fold.state
    decided = (e.fact.action for e in entries if isinstance(e.fact, ActionDecided))
    asked = {a.key: a.incident for a in decided if isinstance(a, SendPage) and a.stage == "trigger"}
    confirmed = (e.fact.key for e in entries if isinstance(e.fact, ActionConfirmed) and e.fact.key in asked)
    pages = tuple({asked[key]: key for key in reversed(list(confirmed))}.values())  # the first call of each incident
    return RealRun(real.scenario, state.ended or ("held" if state.held else "unfinished"), state, entries, pages)


def _left_behind(folder: Path) -> Iterator[str]:
    """Processes of the run that outlived it."""
    mark = {RUN_DIR_VARIABLE: AttemptFiles.of(folder, 1).environment[RUN_DIR_VARIABLE]}
    left = find_living(marks=mark)
    for _ in range(LEAVING_LOOKS):  # a keeper leaves a moment after its last word
        if not left:
            return
        threading.Event().wait(LEAVING_LOOK_S)
        left = find_living(marks=mark)
    if left:
        yield f"processes of the run live on: {', '.join(str(process.pid) for process in left)}"


def _too_long(logs: dict[str, int]) -> Iterator[str]:
    for name, size in logs.items():
        if size > LOG_SLACK * CAP_BYTES:
            yield f"{name} holds {size} bytes, and its cap is {CAP_BYTES}"
