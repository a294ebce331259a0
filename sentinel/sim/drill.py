"""`sentinel drill`: rehearse a policy against a drill file or a seed, and say what happened and whether it was right.

report = drill_file(Path("policies/drills/kill.yaml"))              # as written
report = drill_file(Path("policies/drills/kill.yaml"), seed=7)      # its faults elsewhere, of other length and strength
report = drill_seeds(Path("policies/drills/kill.yaml"), 1, 20)      # as written, and drawn from seeds 1 to 20
print(report.text); raise SystemExit(0 if report.ok else 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.engine import evolve
from sentinel.errors import UsageError
from sentinel.model.amounts import time_words
from sentinel.model.facts import Entry
from sentinel.model.state import RunState
from sentinel.policy.quantities import Malformed, parse_duration
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import SHIPPED, load_policy, shipped_policy_path
from sentinel.report.documents import incident_document
from sentinel.sim.accuracy import Accuracy, judge_accuracy, summarise, summary_lines
from sentinel.sim.drill_file import UNTIL_S, Drill, read_drill
from sentinel.sim.expected import differences
from sentinel.sim.machine import EPOCH_S
from sentinel.sim.run import SimulationResult, run_scenario, run_seed
from sentinel.sim.variation import vary_scenario
from sentinel.terminal.words import clock_words, describe


@dataclass(frozen=True)
class DrillReport:
    """`differing`: where the decisions were not the expected ones, as sentences; `accuracy`: how well each poison was judged."""

    title: str
    policy: str
    result: SimulationResult
    differing: tuple[str, ...]
    reproduce: str
    accuracy: tuple[Accuracy, ...] = ()

    @property
    def ok(self) -> bool:
        return self.result.ok and not self.differing

    @property
    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        result, scenario = self.result, self.result.scenario
        yield f"drill {self.title}: policy {self.policy}, {scenario.shape.steps} steps, {len(scenario.faults)} fault(s)"
        yield from (f"  {fault.text}" for fault in scenario.faults)
        yield from entry_lines(result.entries, EPOCH_S)
        yield f"{result.outcome} after {time_words(result.seconds)} simulated, {len(result.pages)} page(s) sent"
        yield from (one.line for one in self.accuracy)
        yield f"invariants: {'broken: ' + result.broken if result.broken else 'all held'}"
        yield from (f"not as expected: {sentence}" for sentence in self.differing)
        yield f"{'passed' if self.ok else 'FAILED'}; again with: {self.reproduce}"

    @property
    def line(self) -> str:
        """One line: what was drawn and how it ended; when it failed, why, and what runs it again."""
        result = self.result
        if self.ok:
            return f"{self.title}: passed, {result.outcome}, {len(result.state.incidents)} incident(s); {result.scenario}"
        why = "; ".join((*([f"broken: {result.broken}"] if result.broken else []), *self.differing))
        return f"{self.title}: FAILED: {why}; {result.scenario}; again with: {self.reproduce}"

    @property
    def document(self) -> dict[str, Any]:
        result = self.result
        return {
            "drill": self.title,
            "policy": self.policy,
            "seed": result.scenario.seed,
            "faults": [fault.text for fault in result.scenario.faults],
            "ok": self.ok,
            "outcome": result.outcome,
            "simulated_s": round(result.seconds, 3),
            "broken_invariant": result.broken or None,
            "not_as_expected": list(self.differing),
            "incidents": [incident_document(incident) for incident in result.state.incidents],
            "accuracy": [one.document for one in self.accuracy],
            "pages": [page.key for page in result.pages],
            "attempts": len(result.state.attempts),
            "facts": len(result.entries),
            "journal_sha256": result.digest,
            "reproduce": self.reproduce,
        }


@dataclass(frozen=True)
class NotShown:
    """A drill that this stage cannot show, and why: no failure, and said."""

    title: str
    reason: str
    ok: bool = True

    @property
    def text(self) -> str:
        return f"drill {self.title}: {self.reason}"

    @property
    def line(self) -> str:
        return f"{self.title}: not shown: {self.reason}"

    @property
    def document(self) -> dict[str, Any]:
        return {"drill": self.title, "ok": True, "not_shown": self.reason}


def entry_lines(entries: Sequence[Entry], began_s: float) -> Iterator[str]:
    """What a journal tells, as the lines of `sentinel run`, with the time since `began_s`."""
    state = RunState()
    for entry in entries:
        state = evolve(state, entry.at_s, entry.fact)
        line = describe(entry.fact, entry.at_s, state)
        if line is not None:
            yield f"{clock_words(entry.at_s - began_s):>8}  {line.text}"


def shipped_drills() -> tuple[str, ...]:
    """Names of the drills that come with sentinel."""
    entries = (SHIPPED / "drills").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def read_until(text: str) -> float:
    """`4h` in seconds. Raises UsageError."""
    try:
        return parse_duration(text)
    except Malformed as malformed:
        raise UsageError(f"--until {text}: {malformed}; {malformed.remedy}") from None


@dataclass(frozen=True)
class SeedsReport:
    """Several runs, and what failed of them."""

    reports: tuple[DrillReport | NotShown, ...]

    @property
    def ok(self) -> bool:
        return all(report.ok for report in self.reports)

    @property
    def text(self) -> str:
        passed = sum(report.ok for report in self.reports)
        lines = [report.line for report in self.reports]
        return "\n".join((*lines, *summary_lines(self.accuracy), f"{passed} of {len(self.reports)} passed"))

    @property
    def accuracy(self) -> tuple[Accuracy, ...]:
        return tuple(one for report in self.reports if isinstance(report, DrillReport) for one in report.accuracy)

    @property
    def document(self) -> dict[str, Any]:
        return {"ok": self.ok, "accuracy": summarise(self.accuracy), "drills": [report.document for report in self.reports]}


def find_drill(path: Path) -> Path:
    """The file, or the shipped drill of that name."""
    if path.exists() or path.stem not in shipped_drills():
        return path
    return SHIPPED / "drills" / f"{path.stem}.yaml"


def policy_beside(place: Path, name: str) -> Path:
    """The policy a drill file names: one beside the file, a shipped one, or a path."""
    beside = place.parent / name
    return beside if not Path(name).is_absolute() and beside.is_file() else shipped_policy_path(name)


def drill_file(
    path: Path, until_s: float | None = None, seed: int | None = None, policy_name: str | None = None
) -> DrillReport | NotShown:
    """Simulate a drill file, or the shipped drill of that name; with `seed`, its faults drawn; with `policy_name`, under another
    policy than it names. Raises UsageError or PolicyError for what is no drill."""
    place = find_drill(path)
    drill: Drill = read_drill(place)
    if drill.not_simulated:
        return NotShown(drill.name, f"not simulated: {drill.not_simulated}; sentinel drill {path} --real shows it")
    name = policy_name or drill.policy
    if policy_name is None:
        policy = drill.policy_for(load_policy(policy_beside(place, drill.policy)))
    else:
        policy = load_policy(shipped_policy_path(policy_name))  # with playbooks of its own: those are rehearsed
    title, again, scenario = drill.name, f"sentinel drill {path}", drill.scenario
    again += f" --policy {policy_name}" if policy_name is not None else ""
    if seed is not None:
        title, again = f"{title} seed {seed}", f"{again} --seed {seed}"
        scenario = vary_scenario(scenario, drill.vary, policy, seed)
    again += f" --until {until_s:g}s" if until_s is not None else ""
    result = run_scenario(scenario, policy, drill.until_s if until_s is None else until_s)
    differing = differences(drill.expected, result, varied=seed is not None)
    return DrillReport(title, name, result, differing, again, _accuracy(result, policy))


def drill_seed(seed: int, until_s: float | None = None, policy_name: str = "demo") -> DrillReport:
    """Run what a seed draws."""
    policy = load_policy(shipped_policy_path(policy_name))
    result = run_seed(seed, policy, UNTIL_S if until_s is None else until_s)
    words = [f"sentinel drill --seed {seed}"]
    words += [f"--until {until_s:g}s"] if until_s is not None else []
    words += [f"--policy {policy_name}"] if policy_name != "demo" else []
    return DrillReport(f"seed {seed}", policy_name, result, (), " ".join(words), _accuracy(result, policy))


def _accuracy(result: SimulationResult, policy: Policy) -> tuple[Accuracy, ...]:
    return judge_accuracy(result.scenario.faults, result.struck, result.state, policy)


def drill_seeds(
    path: Path | None, first: int, count: int, until_s: float | None = None, policy_name: str | None = None
) -> SeedsReport:
    """A file as it is written and then drawn from each seed; without a file, what each seed draws. Raises as `drill_file`."""
    seeds = range(first, first + count)
    if path is None:
        return SeedsReport(tuple(drill_seed(seed, until_s, policy_name or "demo") for seed in seeds))
    written = drill_file(path, until_s, None, policy_name)
    drawn = () if isinstance(written, NotShown) else (drill_file(path, until_s, seed, policy_name) for seed in seeds)
    return SeedsReport((written, *drawn))
