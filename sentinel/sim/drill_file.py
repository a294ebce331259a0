"""Drill files: a run, the faults that strike it, and the decisions that are expected. Every error has its line and a remedy.

name: poisoned-data
policy: demo
run: {steps: 300, ranks: 2, step: 0.5s, checkpoint_every: 25 steps}
faults:
  - bad_data@sample=1600-2000          # the grammar of sentinel.sim.faults
vary: {position: 60..200 steps, length: 0.5x..1.5x, magnitude: 1x..1x}     # with --seed or --seeds; each may be left out
expect:
  outcome: finished
  pages: 0
  incidents:
    - {kind: spike, state: recovered, remedies: [wait, rollback + skip], onset: 101}   # a step: not asked of a drawn run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sentinel.errors import PolicyError, Problem, UsageError
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from sentinel.policy.problems import did_you_mean, print_problems
from sentinel.policy.quantities import Malformed, parse_duration, parse_positive_steps, parse_steps
from sentinel.policy_yaml import read_yaml
from sentinel.sim.expected import Expected, ExpectedIncident
from sentinel.sim.faults import Fault, parse_fault
from sentinel.sim.learning import Curve
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape
from sentinel.sim.variation import Vary, parse_factors, parse_span

OUTCOMES = ("finished", "failed", "stopped", "held", "unfinished")
KEYS = ("name", "description", "policy", "seed", "until", "observe_only", "run", "faults", "vary", "expect")
RUN_KEYS = ("steps", "batch", "ranks", "nodes", "step", "startup", "checkpoint_every", "save")
EXPECT_KEYS = ("outcome", "pages", "attempts", "incidents", "lapses")
INCIDENT_KEYS = ("kind", "state", "remedies", "onset", "resumed_from", "steps_lost_max")
VARY_KEYS = ("position", "length", "magnitude")
UNTIL_S = 4 * 3600.0

Parsed = TypeVar("Parsed")
Default = TypeVar("Default")


@dataclass(frozen=True)
class Drill:
    """A drill file, read and checked. `policy` is a shipped name or a path."""

    name: str
    policy: str
    scenario: Scenario
    until_s: float
    expected: Expected
    vary: Vary


def read_drill(path: Path) -> Drill:
    """Raises UsageError when the file cannot be read, PolicyError with every problem when it is no drill."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    read = read_yaml(text)
    reader = _Reader(list(read.problems))
    drill = reader.drill(read.value, path.stem) if not read.problems else None
    located = sorted((read.locate(problem) for problem in reader.problems), key=lambda p: (p.line, p.column))
    if drill is None or located:
        raise PolicyError(print_problems(str(path), text, located), tuple(located))
    return drill


class _Reader:
    """Collects every problem instead of stopping at the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems

    def drill(self, raw: object, stem: str) -> Drill:
        top = self._mapping(raw, "", KEYS)
        seed = self._number(top, "", "seed", 1)
        faults = tuple(self._faults(top.get("faults", [])))
        scenario = Scenario(seed, self._shape(top, seed), faults, observe_only=top.get("observe_only") is True)
        return Drill(
            name=str(top.get("name", stem)),
            policy=str(top.get("policy", "demo")),
            scenario=scenario,
            until_s=self._quantity(top, "", "until", parse_duration, UNTIL_S),
            expected=self._expected(top.get("expect", {})),
            vary=self._vary(top.get("vary", {}), scenario.shape),
        )

    def _shape(self, top: Mapping[str, Any], seed: int) -> Shape:
        run, default = self._mapping(top.get("run", {}), "run", RUN_KEYS), Shape()
        return replace(
            default,
            steps=self._number(run, "run", "steps", default.steps),
            batch=self._number(run, "run", "batch", default.batch),
            ranks=self._number(run, "run", "ranks", default.ranks),
            nodes=self._number(run, "run", "nodes", default.nodes),
            step_s=self._quantity(run, "run", "step", parse_duration, default.step_s),
            startup_s=self._quantity(run, "run", "startup", parse_duration, default.startup_s),
            save_s=self._quantity(run, "run", "save", parse_duration, default.save_s),
            checkpoint_every=int(self._quantity(run, "run", "checkpoint_every", parse_positive_steps, default.checkpoint_every)),
            curve=Curve(seed),
        )

    def _faults(self, raw: object) -> list[Fault]:
        found = []
        for index, text in enumerate(self._list(raw, "faults")):
            try:
                found.append(parse_fault(str(text)))
            except UsageError as error:
                what, _, remedy = error.message.partition("; ")
                self._add(f"faults[{index}]", what, remedy)
        return found

    def _vary(self, raw: object, shape: Shape) -> Vary:
        given = self._mapping(raw, "vary", VARY_KEYS)
        position = self._quantity(given, "vary", "position", parse_span, None)
        if position is not None and position[1] > shape.steps:
            self._add("vary.position", f"the run ends at step {shape.steps}", f"write a last step of at most {shape.steps}")
        factors = [self._quantity(given, "vary", key, parse_factors, None) for key in VARY_KEYS[1:]]
        return Vary(position, factors[0], factors[1])

    def _expected(self, raw: object) -> Expected:
        expect = self._mapping(raw, "expect", EXPECT_KEYS)
        incidents = None
        if "incidents" in expect:
            listed = enumerate(self._list(expect["incidents"], "expect.incidents"))
            incidents = tuple(self._incident(item, f"expect.incidents[{index}]") for index, item in listed)
        return Expected(
            outcome=self._word(expect, "expect", "outcome", OUTCOMES),
            pages=self._number(expect, "expect", "pages", 0, floor=0) if "pages" in expect else None,
            attempts=self._number(expect, "expect", "attempts", 1) if "attempts" in expect else None,
            incidents=incidents,
            lapses=tuple(map(str, self._list(expect["lapses"], "expect.lapses"))) if "lapses" in expect else None,
        )

    def _incident(self, raw: object, path: str) -> ExpectedIncident:
        fields = self._mapping(raw, path, INCIDENT_KEYS)
        kind = self._word(fields, path, "kind", tuple(map(str, Kind)))
        if "kind" not in fields:
            self._add(path, "which kind of incident is expected?", "write kind: crash, for example")
        remedies = None
        if "remedies" in fields:
            remedies = tuple(map(str, self._list(fields["remedies"], f"{path}.remedies")))
        lost = self._quantity(fields, path, "steps_lost_max", parse_steps, None)
        onset, resumed = (self._number(fields, path, key, 0, floor=0) if key in fields else None for key in INCIDENT_KEYS[3:5])
        state = self._word(fields, path, "state", tuple(map(str, IncidentState)))
        return ExpectedIncident(kind or "", state, remedies, onset, resumed, lost)

    # Values of one type each, at a path.

    def _add(self, path: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(path, message, remedy))

    def _mapping(self, raw: object, path: str, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(raw, dict):
            self._add(path or "document", "this is no mapping of keys", f"write {keys[0]}: …")
            return {}
        for key in raw:
            if key not in keys:
                self._add(f"{path}.{key}".lstrip("."), f"unknown key '{key}'", did_you_mean(str(key), keys, "keys"))
        return {str(key): value for key, value in raw.items()}

    def _list(self, raw: object, path: str) -> list[object]:
        if isinstance(raw, list):
            return raw
        self._add(path, "this is no list", "begin each line with '- '")
        return []

    def _number(self, fields: Mapping[str, Any], path: str, key: str, default: int, floor: int = 1) -> int:
        value = fields.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and floor <= value < 10**9:
            return value
        self._add(f"{path}.{key}".lstrip("."), f"{value!r} is not a whole number", f"write a number from {floor} on")
        return default

    def _quantity(
        self, fields: Mapping[str, Any], path: str, key: str, parse: Callable[[object], Parsed], default: Default
    ) -> Parsed | Default:
        if key not in fields:
            return default
        try:
            return parse(fields[key])
        except Malformed as malformed:
            self._add(f"{path}.{key}".lstrip("."), str(malformed), malformed.remedy)
            return default

    def _word(self, fields: Mapping[str, Any], path: str, key: str, words: tuple[str, ...]) -> str | None:
        value = fields.get(key)
        if value is not None and value not in words:
            self._add(f"{path}.{key}", f"{value!r} is not known", did_you_mean(str(value), words, "known"))
            return None
        return value
