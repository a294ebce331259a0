"""`sentinel policy test`: case files through the policies they name, and whether what was said is what was expected.

report = run_case_files([Path("cases.yaml")])
print(report.text); raise SystemExit(0 if report.ok else 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.model.incidents import Incident
from sentinel.policy.rung_words import CONDITIONS
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.sim.case_file import Case, SeriesCase, Span, WantedIncident, read_cases
from sentinel.sim.expected import differences
from sentinel.sim.run import run_scenario
from sentinel.sim.series import SeriesOutcome, run_series


@dataclass(frozen=True)
class CaseResult:
    """One case: what was said of it, as lines, and where that was not what was expected."""

    file: str
    name: str
    policy: str
    seen: tuple[str, ...]
    differing: tuple[str, ...]

    @property
    def document(self) -> dict[str, Any]:
        ok = not self.differing
        return {
            "file": self.file, "case": self.name, "policy": self.policy, "ok": ok, "said": list(self.seen),
            "not_as_expected": list(self.differing),
        }  # fmt: skip


@dataclass(frozen=True)
class CasesReport:
    """All cases of all files."""

    cases: tuple[CaseResult, ...]

    @property
    def ok(self) -> bool:
        return not any(case.differing for case in self.cases)

    @property
    def document(self) -> list[dict[str, Any]]:
        return [case.document for case in self.cases]

    @property
    def text(self) -> str:
        lines: list[str] = []
        for case in self.cases:
            lines.append(f"{'FAILED' if case.differing else 'passed'}  {case.name} ({case.file}, policy {case.policy})")
            if case.differing:
                lines += [f"    not as expected: {sentence}" for sentence in case.differing]
                lines += [f"    {line}" for line in case.seen]
        failed = sum(bool(case.differing) for case in self.cases)
        return "\n".join([*lines, f"{len(self.cases)} cases, {failed or 'none'} failed"])


def is_case_file(path: Path) -> bool:
    """Whether the file holds series or several cases, and is not the one simulated run of a plain drill file."""
    cases = read_cases(path) if path.is_file() else ()
    return len(cases) > 1 or any(isinstance(case, SeriesCase) for case in cases)


def run_case_files(paths: Sequence[Path], policy: str | None = None, until_s: float | None = None) -> CasesReport:
    """Run every case of every file. Raises UsageError or PolicyError for what is no case file, or names no policy."""
    read = [(path, case) for path in paths for case in read_cases(path, policy)]
    return CasesReport(tuple(_test(path, case, until_s) for path, case in read))


def _test(path: Path, case: Case, until_s: float | None) -> CaseResult:
    place = Path(case.policy)
    beside = path.parent / place
    policy = load_policy(beside if not place.is_absolute() and beside.is_file() else shipped_policy_path(case.policy))
    if isinstance(case, SeriesCase):
        outcome = run_series(case.series, policy, case.seed)
        return CaseResult(str(path), case.name, case.policy, tuple(_describe(outcome)), tuple(_differing(case, outcome)))
    if case.not_simulated:
        return CaseResult(str(path), case.name, case.policy, (f"not simulated: {case.not_simulated}",), ())
    result = run_scenario(case.scenario, policy, case.until_s if until_s is None else until_s)
    broken = (f"invariant broken: {result.broken}",) if result.broken else ()
    seen = (
        f"the run {result.outcome}, {len(result.pages)} page(s)",
        *(_describe_incident(incident) for incident in result.state.incidents),
    )
    return CaseResult(str(path), case.name, case.policy, seen, (*broken, *differences(case.expected, result)))


def _describe(outcome: SeriesOutcome) -> Iterator[str]:
    yield f"alerts: {', '.join(outcome.alerts) or 'none'}"
    if outcome.untaken:
        yield f"found, and taken by no rule: {', '.join(outcome.untaken)}"
    yield from (fact.finding.reason for fact in outcome.findings[:20])
    yield from (_describe_incident(incident) for incident in outcome.state.incidents)


def _describe_incident(incident: Incident) -> str:
    remedies = ", ".join(remedies_of(incident)) or "none"
    onset = "no onset" if incident.onset_step is None else f"onset {incident.onset_step}"
    where = f"{onset}, detected {incident.detected_step}"
    return f"incident {incident.id} {incident.alert} ({incident.kind}): {where}, remedies {remedies}"


def remedies_of(incident: Incident) -> tuple[str, ...]:
    """Titles of the rungs taken, in order."""
    return tuple(" + ".join(word for word in t.remedy.words if word not in CONDITIONS) for t in incident.tries)


def _differing(case: SeriesCase, outcome: SeriesOutcome) -> Iterator[str]:
    if case.alerts is not None and case.alerts != outcome.alerts:
        yield f"alerts {', '.join(outcome.alerts) or 'none'}, expected {', '.join(case.alerts) or 'none'}"
    if case.incidents is None:
        return
    happened = outcome.state.incidents
    if len(happened) != len(case.incidents):
        yield f"{len(happened)} incidents ({', '.join(i.alert for i in happened) or 'none'}), expected {len(case.incidents)}"
    for want, incident in zip(case.incidents, happened, strict=False):
        yield from _unlike(want, incident)


def _unlike(want: WantedIncident, incident: Incident) -> Iterator[str]:
    who = f"incident {incident.id} {incident.alert}"
    if want.alert is not None and want.alert != incident.alert:
        yield f"{who}: alert {incident.alert}, expected {want.alert}"
    if want.kind is not None and want.kind != incident.kind:
        yield f"{who}: kind {incident.kind}, expected {want.kind}"
    steps: tuple[tuple[str, Span | None, int | None], ...] = (
        ("onset", want.onset, incident.onset_step),
        ("detected", want.detected, incident.detected_step),
    )
    for name, span, step in steps:
        if span is not None and (step is None or not span[0] <= step <= span[1]):
            expected = f"{span[0]}" if span[0] == span[1] else f"{span[0]}..{span[1]}"
            yield f"{who}: {name} {step if step is not None else 'none'}, expected {expected}"
    taken = remedies_of(incident)
    if want.remedies is not None and want.remedies != taken:
        yield f"{who}: remedies {', '.join(taken) or 'none'}, expected {', '.join(want.remedies) or 'none'}"
