"""`sentinel drill`: rehearse a policy against a drill file or a seed, and say what happened and whether it was right.

    report = drill_file(Path("policies/drills/kill.yaml"))
    print(report.text); raise SystemExit(0 if report.ok else 1)
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.engine import evolve
from sentinel.errors import UsageError
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.policy.quantities import Malformed, parse_duration
from sentinel.policy_file import load_policy, shipped_policy_path
from sentinel.report.documents import incident_document
from sentinel.sim.drill_file import UNTIL_S, Drill, Expected, ExpectedIncident, read_drill
from sentinel.sim.run import Result, run_scenario, run_seed
from sentinel.sim.world import EPOCH_S
from sentinel.view.words import clock_words, describe


@dataclass(frozen=True)
class DrillReport:
    """`differing`: where the decisions were not the expected ones, as sentences."""

    title: str
    policy: str
    result: Result
    differing: tuple[str, ...]
    reproduce: str

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
        state = RunState()
        for entry in result.entries:
            state = evolve(state, entry.at_s, entry.fact)
            line = describe(entry.fact, entry.at_s, state)
            if line is not None:
                yield f"{clock_words(entry.at_s - EPOCH_S):>8}  {line.text}"
        yield f"{result.outcome} after {clock_words(result.seconds)} simulated, {len(result.pages)} page(s) sent"
        yield f"invariants: {'broken: ' + result.broken if result.broken else 'all held'}"
        yield from (f"not as expected: {sentence}" for sentence in self.differing)
        yield f"{'passed' if self.ok else 'FAILED'}; again with: {self.reproduce}"

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
            "pages": [page.key for page in result.pages],
            "attempts": len(result.state.attempts),
            "facts": len(result.entries),
            "journal_sha256": result.digest,
            "reproduce": self.reproduce,
        }


def shipped_drills() -> tuple[str, ...]:
    """Names of the drills that come with sentinel."""
    entries = importlib.resources.files("policies").joinpath("drills").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def read_until(text: str) -> float:
    """`4h` in seconds. Raises UsageError."""
    try:
        return parse_duration(text)
    except Malformed as malformed:
        raise UsageError(f"--until {text}: {malformed}; {malformed.remedy}") from None


def drill_file(path: Path, until_s: float | None = None) -> DrillReport:
    """Run a drill file, or the shipped drill of that name. Raises UsageError or PolicyError for what is no drill."""
    place = path
    if not path.exists() and path.stem in shipped_drills():
        place = Path(str(importlib.resources.files("policies").joinpath("drills", f"{path.stem}.yaml")))
    drill: Drill = read_drill(place)
    policy = load_policy(shipped_policy_path(drill.policy))
    result = run_scenario(drill.scenario, policy, drill.until_s if until_s is None else until_s)
    return DrillReport(drill.name, drill.policy, result, differences(drill.expected, result), f"sentinel drill {path}")


def drill_seed(seed: int, until_s: float | None = None, policy_name: str = "demo") -> DrillReport:
    """Run what a seed draws."""
    policy = load_policy(shipped_policy_path(policy_name))
    result = run_seed(seed, policy, UNTIL_S if until_s is None else until_s)
    words = [f"sentinel drill --seed {seed}"]
    words += [f"--until {until_s:g}s"] if until_s is not None else []
    words += [f"--policy {policy_name}"] if policy_name != "demo" else []
    return DrillReport(f"seed {seed}", policy_name, result, (), " ".join(words))


def differences(expected: Expected, result: Result) -> tuple[str, ...]:
    """Where what happened is not what was expected."""
    found = []
    counts = (("pages", expected.pages, len(result.pages)), ("attempts", expected.attempts, len(result.state.attempts)))
    if expected.outcome is not None and expected.outcome != result.outcome:
        found.append(f"the run {result.outcome}, expected {expected.outcome}")
    found += [f"{got} {name}, expected {want}" for name, want, got in counts if want is not None and want != got]
    if expected.incidents is not None:
        happened = result.state.incidents
        if len(happened) != len(expected.incidents):
            kinds = ", ".join(incident.kind for incident in happened) or "none"
            found.append(f"{len(happened)} incidents ({kinds}), expected {len(expected.incidents)}")
        pairs = zip(expected.incidents, happened, strict=False)
        found += [sentence for want, incident in pairs for sentence in _differing(want, incident)]
    return tuple(found)


def _differing(want: ExpectedIncident, incident: Incident) -> Iterator[str]:
    remedies = tuple(" + ".join(word for word in t.remedy.words if word not in ("then", "until")) for t in incident.tries)
    pairs = (("kind", want.kind, incident.kind), ("state", want.state, incident.state), ("remedies", want.remedies, remedies))
    for name, expected, got in pairs:
        if expected is not None and expected != got:
            shown = [", ".join(value) if isinstance(value, tuple) else str(value) for value in (got, expected)]
            yield f"incident {incident.id}: {name} {shown[0]}, expected {shown[1]}"
