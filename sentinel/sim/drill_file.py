"""Drill files: a run, the faults that strike it, and the decisions that are expected. Every error has its line and a remedy.

name: poisoned-data
policy: demo
playbooks:                             # rehearsed in place of the policy's own of that name; may be left out
  numeric: [{rollback: {before_onset: 20 steps}, reseed_data: true}, {page: {severity: critical}, then: stop_now}]
run: {steps: 300, ranks: 2, step: 0.5s, checkpoint_every: 25 steps}
faults:
  - bad_data@sample=1600-2000          # the grammar of sentinel.sim.faults
vary: {position: 60..200 steps, length: 0.5x..1.5x, magnitude: 1x..1x}     # with --seed or --seeds; each may be left out
expect:
  outcome: finished
  pages: 0
  incidents:
    - {kind: spike, state: recovered, remedies: [wait, rollback + skip], onset: 101}   # a step: not asked of a drawn run
real:                              # with --real, what differs there: run, faults (the trainer's grammar), policy, until, expect
  expect: {incidents: [{kind: spike, onset: 101..104}]}        # or: not_shown: why the real trainer cannot show it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentinel.detectors.registry import KINDS
from sentinel.errors import PolicyError, Problem, UsageError
from sentinel.model.incidents import IncidentState
from sentinel.model.state import ENDINGS
from sentinel.policy.checks_playbooks import check_playbook
from sentinel.policy.problems import print_problems
from sentinel.policy.quantities import parse_duration, parse_positive_steps, parse_steps
from sentinel.policy.schema import Policy, Rung
from sentinel.policy.schema_problems import validate_rung
from sentinel.policy_files.yaml_positions import read_yaml
from sentinel.sim.drill_fields import Fields
from sentinel.sim.expected import Expected, ExpectedFinding, ExpectedIncident
from sentinel.sim.faults import Fault, parse_fault
from sentinel.sim.learning import LossCurve
from sentinel.sim.real_faults import as_real_fault, parse_real_fault
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape
from sentinel.sim.variation import Vary, parse_factors, parse_span

KEYS = (
    "name", "description", "policy", "seed", "until", "observe_only", "run", "faults", "vary", "playbooks", "expect", "real",
    "not_simulated",
)  # fmt: skip
REAL_KEYS = ("run", "faults", "policy", "until", "expect", "not_shown")
REAL_RUN_KEYS = ("steps", "batch", "ranks", "checkpoint_every", "precision")
PRECISIONS = ("fp32", "bf16", "fp16")
RUN_KEYS = ("steps", "batch", "ranks", "nodes", "step", "startup", "checkpoint_every", "save", "log_every", "lr_end")
VARY_KEYS = ("position", "length", "magnitude")
OUTCOMES = (*ENDINGS, "held", "unfinished")
EXPECT_KEYS = ("outcome", "pages", "attempts", "incidents", "findings", "lapses")
FINDING_KEYS = ("kind", "severity", "metric", "onset", "detected")
SEVERITIES = ("info", "warning", "critical")
INCIDENT_KEYS = (
    "kind", "state", "remedies", "onset", "resumed_from", "steps_lost_max", "skipped_max", "diagnosis", "blamed_rank",
)  # fmt: skip
CAUSES = ("data", "hardware", "transient", "unknown")
UNTIL_S = 4 * 3600.0
REAL_UNTIL_S = 600.0


@dataclass(frozen=True)
class RealDrill:
    """The same on the real trainer: of `scenario` seed and simulated times are not used. `not_shown`: why it cannot be."""

    policy: str
    scenario: Scenario
    precision: str
    until_s: float
    expected: Expected
    not_shown: str


@dataclass(frozen=True)
class Drill:
    """A drill file, read and checked. `policy` is a shipped name or a path; `playbooks` take the place of its own.
    `not_simulated`: why the simulator cannot show it."""

    name: str
    policy: str
    scenario: Scenario
    until_s: float
    expected: Expected
    vary: Vary
    not_simulated: str
    real: RealDrill
    playbooks: Mapping[str, tuple[Rung, ...]] = field(default_factory=dict)

    def policy_for(self, named: Policy) -> Policy:
        """The policy it names, with the playbooks it rehearses."""
        if not self.playbooks:
            return named
        changed = {"playbooks": {**named.spec.playbooks, **self.playbooks}}
        return named.model_copy(update={"spec": named.spec.model_copy(update=changed)})


def read_drill(path: Path, real: bool = False) -> Drill:
    """Raises UsageError when the file cannot be read, PolicyError with every problem when it is no drill; with `real`, also when
    it has faults that cannot be done to the real trainer and says nothing of it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    read = read_yaml(text)
    reader = DrillReader(list(read.problems))
    drill = reader.drill(read.value, path.stem) if not read.problems else None
    found = [*reader.problems, *(reader.only_simulated if real else ())]
    located = sorted((read.locate(problem) for problem in found), key=lambda p: (p.line, p.column))
    if drill is None or located:
        raise PolicyError(print_problems(str(path), text, located), tuple(located))
    return drill


class Expectations(Fields):
    """What a drill file expects of a run."""

    def _expected(self, raw: object, path: str) -> Expected:
        expect = self._mapping(raw, path, EXPECT_KEYS)
        incidents = None
        if "incidents" in expect:
            listed = enumerate(self._list(expect["incidents"], f"{path}.incidents"))
            incidents = tuple(self._incident(item, f"{path}.incidents[{index}]") for index, item in listed)
        return Expected(
            outcome=self._word(expect, path, "outcome", OUTCOMES),
            pages=self._number(expect, path, "pages", 0, floor=0) if "pages" in expect else None,
            attempts=self._number(expect, path, "attempts", 1) if "attempts" in expect else None,
            incidents=incidents,
            findings=self._findings(expect["findings"], f"{path}.findings") if "findings" in expect else None,
            lapses=tuple(map(str, self._list(expect["lapses"], f"{path}.lapses"))) if "lapses" in expect else None,
        )

    def _findings(self, raw: object, path: str) -> tuple[ExpectedFinding, ...]:
        return tuple(self._finding(item, f"{path}[{index}]") for index, item in enumerate(self._list(raw, path)))

    def _finding(self, raw: object, path: str) -> ExpectedFinding:
        fields = self._mapping(raw, path, FINDING_KEYS)
        kind = self._word(fields, path, "kind", tuple(map(str, KINDS)))
        if "kind" not in fields:
            self._add(path, "which kind of finding is expected?", "write kind: trend, for example")
        severity, metric = self._word(fields, path, "severity", SEVERITIES), fields.get("metric")
        if not (metric is None or isinstance(metric, str)):
            self._add(f"{path}.metric", f"{metric!r} is no name of a metric", "write metric: grad_norm, for example")
        onset, detected = (self._span(fields, path, key) for key in ("onset", "detected"))
        return ExpectedFinding(kind or "", severity, metric, onset, detected)

    def _incident(self, raw: object, path: str) -> ExpectedIncident:
        fields = self._mapping(raw, path, INCIDENT_KEYS)
        kind = self._word(fields, path, "kind", tuple(map(str, KINDS)))
        if "kind" not in fields:
            self._add(path, "which kind of incident is expected?", "write kind: crash, for example")
        remedies = None
        if "remedies" in fields:
            remedies = tuple(map(str, self._list(fields["remedies"], f"{path}.remedies")))
        lost = self._quantity(fields, path, "steps_lost_max", parse_steps, None)
        onset, resumed = (self._span(fields, path, key) for key in ("onset", "resumed_from"))
        state = self._word(fields, path, "state", tuple(map(str, IncidentState)))
        cause = self._word(fields, path, "diagnosis", CAUSES)
        blamed = self._number(fields, path, "blamed_rank", 0, floor=0) if "blamed_rank" in fields else None
        skipped = self._number(fields, path, "skipped_max", 0, floor=0) if "skipped_max" in fields else None
        return ExpectedIncident(kind or "", state, remedies, onset, resumed, lost, skipped, cause, blamed)


class Playbooks(Fields):
    """Playbooks that a drill file rehearses in place of its policy's own, checked as a policy's are."""

    def _playbooks(self, raw: object) -> dict[str, tuple[Rung, ...]]:
        found: dict[str, tuple[Rung, ...]] = {}
        if not isinstance(raw, dict):
            self._add("playbooks", "this is no mapping of playbooks", "write name: and its rungs below it")
            return found
        for name, rungs in raw.items():
            path = f"playbooks.{name}"
            read = [self._rung(rung, f"{path}[{index}]") for index, rung in enumerate(self._list(rungs, path))]
            found[str(name)] = tuple(rung for rung in read if rung is not None)
            if read and None not in read:
                problems = check_playbook(path, found[str(name)], 0, None)
                self.problems += [problem for problem in problems if problem.severity == "error"]
        return found

    def _rung(self, raw: object, path: str) -> Rung | None:
        rung, problems = validate_rung(raw)
        for problem in problems:
            self._add(f"{path}.{problem.path}".rstrip("."), problem.message, problem.remedy)
        return rung


class DrillReader(Expectations, Playbooks):
    """`only_simulated`: faults that are fine in the simulator and cannot be done to the real trainer."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.only_simulated: list[Problem] = []

    def drill(self, raw: object, stem: str) -> Drill:
        top = self._mapping(raw, "", KEYS)
        seed = self._number(top, "", "seed", 1)
        faults = tuple(self._faults(top.get("faults", []), "faults", parse_fault))
        scenario = Scenario(seed, self._shape(top, seed), faults, observe_only=top.get("observe_only") is True)
        policy = str(top.get("policy", "demo"))
        expected = self._expected(top.get("expect", {}), "expect")
        playbooks = self._playbooks(top.get("playbooks", {}))
        on_real = top.get("real")
        if playbooks and not (isinstance(on_real, dict) and {"policy", "not_shown"} & on_real.keys()):
            remedy = "write real: {policy: a policy with such playbooks}, or real: {not_shown: why}"
            self.only_simulated.append(Problem("playbooks", "these are rehearsed in the simulator only", remedy))
        return Drill(
            name=str(top.get("name", stem)),
            policy=policy,
            scenario=scenario,
            until_s=self._quantity(top, "", "until", parse_duration, UNTIL_S),
            expected=expected,
            vary=self._vary(top.get("vary", {}), scenario.shape),
            not_simulated=self._sentence(top, "", "not_simulated"),
            real=self._real(top.get("real"), scenario, policy, expected),
            playbooks=playbooks,
        )

    def _real(self, raw: object, scenario: Scenario, policy: str, expected: Expected) -> RealDrill:
        """The drill on the real trainer: as it is written, but for what `real` says otherwise."""
        given = {} if raw is None else self._mapping(raw, "real", REAL_KEYS)
        run = self._mapping(given.get("run", {}), "real.run", REAL_RUN_KEYS)
        written = scenario.shape
        steps, batch, ranks = (self._number(run, "real.run", key, getattr(written, key)) for key in REAL_RUN_KEYS[:3])
        every = int(self._quantity(run, "real.run", "checkpoint_every", parse_positive_steps, written.checkpoint_every))
        shape = replace(written, steps=steps, batch=batch, ranks=ranks, checkpoint_every=every)
        if "faults" in given:
            faults = tuple(self._faults(given["faults"], "real.faults", parse_real_fault))
        else:
            faults = tuple(self._as_real(scenario.faults)) if not given.get("not_shown") else ()
        if shape.batch % shape.ranks:
            self._add("real.run" if "run" in given else "run", f"batch {shape.batch} does not divide by {shape.ranks} ranks",
                      f"write batch: {shape.ranks * -(-shape.batch // shape.ranks)}")  # fmt: skip
        own = self._expected(given.get("expect", {}), "real.expect")
        return RealDrill(
            policy=str(given.get("policy", policy)),
            scenario=replace(scenario, shape=shape, faults=faults),
            precision=self._word(run, "real.run", "precision", PRECISIONS) or "fp32",
            until_s=self._quantity(given, "real", "until", parse_duration, REAL_UNTIL_S),
            expected=replace(expected, **{k: v for k, v in vars(own).items() if v is not None}),
            not_shown=self._sentence(given, "real", "not_shown"),
        )

    def _as_real(self, faults: tuple[Fault, ...]) -> list[Fault]:
        found = []
        for index, fault in enumerate(faults):
            try:
                found.append(as_real_fault(fault))
            except UsageError as error:
                what, _, remedy = error.message.partition("; ")
                self.only_simulated.append(Problem(f"faults[{index}]", what, remedy))
        return found

    def _sentence(self, fields: Mapping[str, Any], path: str, key: str) -> str:
        value = fields.get(key, "")
        if isinstance(value, str) and (value.strip() or key not in fields):
            return value.strip()
        self._add(f"{path}.{key}".lstrip("."), f"{value!r} is no sentence", "say why in words")
        return ""

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
            log_every=int(self._quantity(run, "run", "log_every", parse_positive_steps, default.log_every)),
            lr_end=self._positive_share(run, "run", "lr_end", default.lr_end),
            curve=LossCurve(seed),
        )

    def _faults(self, raw: object, path: str, parse: Callable[[str], Fault]) -> list[Fault]:
        found = []
        for index, text in enumerate(self._list(raw, path)):
            try:
                found.append(parse(str(text)))
            except UsageError as error:
                what, _, remedy = error.message.partition("; ")
                self._add(f"{path}[{index}]", what, remedy)
        return found

    def _vary(self, raw: object, shape: Shape) -> Vary:
        given = self._mapping(raw, "vary", VARY_KEYS)
        position = self._quantity(given, "vary", "position", parse_span, None)
        if position is not None and position[1] > shape.steps:
            self._add("vary.position", f"the run ends at step {shape.steps}", f"write a last step of at most {shape.steps}")
        factors = [self._quantity(given, "vary", key, parse_factors, None) for key in VARY_KEYS[1:]]
        return Vary(position, factors[0], factors[1])
