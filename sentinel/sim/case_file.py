"""Case files of `sentinel policy test`: a drill, or several under `cases`; a case gives faults of a simulated run, or a series.

    policy: opt-175b                    # for every case that names none
    cases:
      - name: activations turn
        series:                         # sentinel.sim.series
          metrics: {loss: 3x4000, activation_norm: 1x3000 1+0.01x1000}
        expect:
          alerts: [ActivationReversal]
          incidents:
            - {alert: ActivationReversal, onset: 3000..3300, remedies: [lr]}
      - name: a killed rank
        faults: [kill@step=120:rank=1]  # as in any drill file
        expect: {outcome: finished}

One reader for one format: what is not a series is read by `sentinel.sim.drill_file`, word for word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sentinel.detectors.registry import KINDS
from sentinel.errors import PolicyError, Problem, UsageError
from sentinel.policy.problems import print_problems
from sentinel.policy.quantities import Malformed, parse_duration, parse_positive_steps
from sentinel.policy_files.yaml_positions import read_yaml
from sentinel.sim.drill_file import Drill, DrillReader
from sentinel.sim.series import MetricSeries, parse_values

CASE_KEYS = ("name", "description", "policy", "seed", "series", "expect")
SERIES_KEYS = ("metrics", "every", "step_time", "checkpoint_every", "noise", "run")
RUN_KEYS = ("warmup_steps", "tokens_per_step")
EXPECT_KEYS = ("alerts", "incidents")
INCIDENT_KEYS = ("alert", "kind", "onset", "detected", "remedies")
Span = tuple[int, int]


@dataclass(frozen=True)
class WantedIncident:
    """None: not asked about. `onset` and `detected` are steps, first and last that are right."""

    alert: str | None = None
    kind: str | None = None
    onset: Span | None = None
    detected: Span | None = None
    remedies: tuple[str, ...] | None = None


@dataclass(frozen=True)
class SeriesCase:
    """A series, the policy that judges it, and what that is to say of it."""

    name: str
    policy: str
    seed: int
    series: MetricSeries
    alerts: tuple[str, ...] | None
    incidents: tuple[WantedIncident, ...] | None


Case = Drill | SeriesCase


def read_cases(path: Path, policy: str | None = None) -> tuple[Case, ...]:
    """Every case of the file, judged by `policy` where that is given. Raises UsageError when the file cannot be read,
    PolicyError with every problem when it is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    read = read_yaml(text)
    problems: list[Problem] = list(read.problems)
    cases = _cases(read.value, path.stem, problems) if not problems else []
    if problems:
        located = sorted((read.locate(problem) for problem in problems), key=lambda p: (p.line, p.column))
        raise PolicyError(print_problems(str(path), text, located), tuple(located))
    return tuple(replace(case, policy=policy) if policy else case for case in cases)


def _cases(raw: object, stem: str, problems: list[Problem]) -> list[Case]:
    if not (isinstance(raw, dict) and "cases" in raw):
        return [_case(raw, stem, "", problems)]
    reader = DrillReader(problems)
    top = reader._mapping(raw, "", ("cases", "policy", "name", "description"))
    listed = reader._list(top["cases"], "cases")
    if not listed:
        reader._add("cases", "no case stands here", "begin one with '- name: …'")
    found = []
    for index, item in enumerate(listed):
        if isinstance(item, dict) and "policy" in top:
            item = {"policy": top["policy"]} | item
        found.append(_case(item, f"{stem}-{index + 1}", f"cases[{index}]", problems))
    return found


def _case(raw: object, name: str, path: str, problems: list[Problem]) -> Case:
    """One case; its problems carry the path of the whole file."""
    reader = _CaseReader([])
    is_series = isinstance(raw, dict) and "series" in raw
    case: Case = reader.series_case(raw, name) if is_series else reader.drill(raw, name)
    problems += [replace(problem, path=f"{path}.{problem.path}".strip(".")) for problem in reader.problems]
    return case


class _CaseReader(DrillReader):
    """Reads what drill files do not know: series, and what is expected of them."""

    def series_case(self, raw: object, stem: str) -> SeriesCase:
        top = self._mapping(raw, "", CASE_KEYS)
        expect = self._mapping(top.get("expect", {}), "expect", EXPECT_KEYS)
        incidents = alerts = None
        if "alerts" in expect:
            alerts = tuple(map(str, self._list(expect["alerts"], "expect.alerts")))
        if "incidents" in expect:
            listed = enumerate(self._list(expect["incidents"], "expect.incidents"))
            incidents = tuple(self._wanted(item, f"expect.incidents[{index}]") for index, item in listed)
        if alerts is None and incidents is None:
            self._add("expect", "nothing is expected, so the case cannot fail", "write expect: {alerts: []}, for example")
        name, policy = str(top.get("name", stem)), str(top.get("policy", "default"))
        return SeriesCase(name, policy, self._number(top, "", "seed", 1), self._series(top["series"]), alerts, incidents)

    def _series(self, raw: object) -> MetricSeries:
        fields = self._mapping(raw, "series", SERIES_KEYS)
        if "metrics" not in fields:
            self._add("series", "a series needs metrics", "write metrics: {loss: 3x1000}")
        given = fields.get("metrics", {})
        metrics: dict[str, tuple[float | None, ...]] = {}
        for name in given if isinstance(given, dict) else ():
            try:
                metrics[str(name)] = parse_values(given[name])
            except Malformed as malformed:
                self._add(f"series.metrics.{name}", str(malformed), malformed.remedy)
        run = self._mapping(fields.get("run", {}), "series.run", RUN_KEYS)
        return MetricSeries(
            metrics,
            every=int(self._quantity(fields, "series", "every", parse_positive_steps, 1)),
            step_s=self._quantity(fields, "series", "step_time", parse_duration, 1.0) or 1.0,
            checkpoint_every=int(self._quantity(fields, "series", "checkpoint_every", parse_positive_steps, 100)),
            noise=self._share(fields),
            run={key: self._number(run, "series.run", key, 1) for key in RUN_KEYS if key in run},
        )

    def _share(self, fields: Mapping[str, Any]) -> float:
        value = fields.get("noise", 0.0)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1:
            return float(value)
        self._add("series.noise", f"{value!r} is no share", "write a number such as 0.01 for 1 %")
        return 0.0

    def _wanted(self, raw: object, path: str) -> WantedIncident:
        fields = self._mapping(raw, path, INCIDENT_KEYS)
        remedies = None
        if "remedies" in fields:
            remedies = tuple(map(str, self._list(fields["remedies"], f"{path}.remedies")))
        alert = str(fields["alert"]) if "alert" in fields else None
        kind = self._word(fields, path, "kind", tuple(map(str, KINDS)))
        onset, detected = (self._span(fields, path, key) for key in ("onset", "detected"))
        return WantedIncident(alert, kind, onset, detected, remedies)
