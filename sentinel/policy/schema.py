"""The policy language as types. A loaded policy is one frozen `Policy`; nothing here judges whether it makes sense.

`sentinel.policy.checks` judges that, `sentinel.policy_files.loading` reads the YAML and gives every error its line. Attribute
names carry their unit (`window_steps`, `floor_s`); the words of the file are their aliases (`window`, `floor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from sentinel.model.price import Price
from sentinel.policy.expr import Records
from sentinel.policy.quantities import Malformed, show, show_duration
from sentinel.policy.schema_detectors import Detectors
from sentinel.policy.schema_fields import (
    Condition,
    Count,
    FindingKind,
    HoldFor,
    Model,
    Name,
    Phase,
    PriceOf,
    Range,
    RateOf,
    Recorded,
    RecordName,
    Recovery,
    Seconds,
    Severity,
    Steps,
    Text,
    Then,
    WrittenExpression,
    written,
)
from sentinel.policy.schema_logs import LOG_FILES_MAX, LOGS_MAX, LogPath, LogRule
from sentinel.policy.schema_nodes import NodeCheckWord
from sentinel.policy.schema_paging import ChannelKind, Paging, Route, route_of
from sentinel.policy.schema_rungs import Exclude, Page, ResumeNewest, Rollback, Rung, Skip, Wait

__all__ = [
    "ActLimits", "Annotations", "Budget", "Checkpoints", "Detectors", "Exclude", "FindingKind", "Labels", "Metadata", "Page",
    "Paging", "Phase", "Policy", "PolicySpec", "Probation", "ResumeNewest", "Retain", "Rollback", "Route", "Rule", "RunFacts",
    "Rung", "Severity", "Skip", "Then", "Wait", "with_channels",
]  # fmt: skip


DEADLINE_MARGIN_S = 600.0  # where nothing was saved yet; the limit that shipped policies set on a checkpoint's own phase


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


Playbook = Annotated[tuple[Rung, ...], Field(min_length=1)]


class Metadata(Model):
    """What the policy is called."""

    name: Name
    """A short name."""
    description: Text = ""
    """What it is for."""


class Labels(Model):
    """`severity` and whatever else helps to sort alerts."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Text]
    severity: Severity = "warning"
    """info is recorded only; warning and critical open an incident."""


class Annotations(Model):
    """Words for the person who reads the alert."""

    summary: Text = ""
    """One line; {{ value }}, {{ step }} and {{ baseline }} are filled in."""
    description: Text = ""
    """Anything longer."""
    runbook_url: Text = ""
    """Where to read on."""


class Rule(Model):
    """When a detector finds `on`, or when `expr` is true, the incident is treated by `playbook`."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["on"]}, {"required": ["expr"]}]})

    alert: Name
    """The alert's name, unique in this file."""
    on: FindingKind | None = None
    """The finding this rule is about. Write this or `expr`."""
    expr: Condition = Field(default=None, json_schema_extra=_without_default)
    """A condition over metrics, judged on every step. Write this or `on`."""
    for_: HoldFor = written("0s", alias="for")
    """How long the finding must last, or the expression be true, before the alert fires."""
    keep_firing_for: HoldFor = written("0s")
    """How long the alert goes on after the finding has gone, so that flapping is one incident."""
    on_nonfinite: Literal["unknown", "fire"] = "unknown"
    """With `expr`: what a value that is no number means. unknown neither fires nor resolves."""
    labels: Labels = written({})
    """Severity and free labels."""
    annotations: Annotations = Field(default_factory=Annotations)
    """Summary, description, runbook_url."""
    playbook: Name | None = None
    """The playbook to climb; without one the finding is only recorded."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Rule:
        if (self.on is None) == (self.expr is None):
            which = "neither 'on' nor 'expr'" if self.on is None else "both 'on' and 'expr'"
            remedy = "write on: <finding>, or expr: <condition over metrics>; two rules where you want both"
            raise Malformed(f"the rule has {which}", remedy)
        return self


class Budget(Model):
    """How much may be tried. Counts within a period, never totals of a lifetime."""

    interventions: RateOf = written("12 per 24h")
    """Remedies of any kind. The relaunch after a preemption is none."""
    per_cause: RateOf | None = None
    """Of them, for one kind of incident: what keeps striking must not use up what the others need."""
    restarts: RateOf = written("20 per 1h")
    """Launches after the first."""
    preemptions: RateOf = written("6 per 24h")
    """Stops from outside. Of more, a person is told; the run is relaunched all the same, and none is an intervention."""
    without_progress: Count = 3
    """Restarts in a row that gained no new step; then a person is paged."""
    refill_after_progress_steps: Steps = written("1000 steps", alias="refill_after_progress")
    """So many new steps later all counts start again."""
    engine_trouble: Count = 8
    """Launches in a row that the scheduler did not start, by its own word; then a person is paged, and it is tried on. They use
    no rung and are no restarts."""
    backoff: Range = written("5s..5m")
    """Shortest and longest pause (seconds) before a restart; doubled by each without progress, and up to half as long again."""


class Probation(Model):
    """When a repair has worked."""

    steps: Count = 300
    """Steps past the point where it broke that must be healthy."""
    recovered_when: Recovery = written("loss within 2% of pre_incident")
    """The level that counts as healthy."""
    fail_when: Literal["same kind again"] = "same kind again"
    """What ends probation badly; the next rung is then taken."""


class RunFacts(Model):
    """What the author knows of the run. Expressions read it, the checker judges by it, and a deadline is kept."""

    warmup_steps: Steps | None = Field(default=None)
    """Steps of the learning rate's warm-up, where the trainer's receipt does not say."""
    tokens_per_step: Count | None = None
    """Tokens one optimizer step trains on, where the trainer's receipt does not say."""
    checkpoint_every_steps: Steps | None = Field(default=None, alias="checkpoint_every")
    """How often the trainer saves."""
    checkpoints_kept: Count | None = None
    """How many checkpoints somebody else keeps: what is older cannot be rolled back to."""
    deadline_s: Seconds | None = Field(default=None, alias="deadline")
    """How long sentinel may run at a time: it stops the run after a checkpoint in time, to be started again (exit code 75)."""
    deadline_margin_s: Seconds | None = Field(default=None, alias="deadline_margin")
    """How long before a deadline the stop begins. Without it: by what saves and stops took on this run, or 10m."""

    gpu_hour_price: PriceOf | None = None
    """What one GPU costs an hour. Without it GPU hours alone are told."""

    log_files: Annotated[tuple[LogPath, ...], Field(max_length=LOG_FILES_MAX)] = ()
    """Files, beside what ranks and launcher print, that `logs` is looked for in: paths from where the command is started, with *
    and **/ for several, of which some may come later."""

    @model_validator(mode="after")
    def _leaves_time(self) -> RunFacts:
        if self.deadline_s is not None and self.deadline_s <= (margin := self.deadline_margin_s or DEADLINE_MARGIN_S):
            given = show_duration(self.deadline_s)
            message = f"deadline {given} leaves no time to train: the stop begins {show_duration(margin)} before"
            raise Malformed(message, "give the run more time, or a shorter deadline_margin")
        return self


class Retain(Model):
    """What sentinel keeps. All else it deletes, once no rollback can need it, and never while anything is being repaired."""

    last: Count
    """So many of the newest good ones; what is suspect or damaged does not count."""
    every_steps: Steps | None = Field(default=None, alias="every")
    """Those whose step is a multiple of this, for ever."""


class Checkpoints(Model):
    """What becomes of the run's checkpoints."""

    retain: Retain | None = None
    """Without it sentinel deletes none."""
    verify: Literal["full", "sampled", "remembered"] = "full"
    """What is read before a resume. full: every byte. With the others each new checkpoint is read once behind training, and files
    that nothing wrote to since are read in samples (sampled) or not again (remembered); all others are read whole."""


class ActLimits(Model):
    """How long sentinel waits for what it does itself. A filesystem that does not answer must not be silence for ever."""

    stuck_after_s: Seconds = written("10m", alias="stuck_after")
    """An act that made no progress for so long (nothing read, nothing moved) is given up, and a person is paged."""
    launch_stuck_after_s: Seconds = written("30m", alias="launch_stuck_after")
    """The same for what a launcher does: starting an attempt, ending it."""
    unseen_page_after_s: Seconds = written("5m", alias="unseen_page_after")
    """An attempt that nothing proves to have ended, and that cannot be seen, is waited for; after so long a person is paged."""


class PolicySpec(Model):
    """What is watched, what is done, and how much of it."""

    mode: Literal["act", "observe"] = "act"
    """observe: decide and record as usual, and change nothing."""
    run: RunFacts = Field(default_factory=RunFacts)
    """What the author knows of the run."""
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    """Which of the run's checkpoints are kept."""
    acts: ActLimits = Field(default_factory=ActLimits)
    """When an act of sentinel itself counts as stuck."""
    detectors: Detectors = Field(default_factory=Detectors)
    """Settings of the built-in detectors."""
    node_check: NodeCheckWord = None
    """How nodes are checked: before a launch, on suspicion, and before one that is left out is used again."""
    record: dict[RecordName, Recorded] = Field(default_factory=dict)
    """Expressions with a name, for rules that would write them more than once: numbers or conditions."""
    rules: tuple[Rule, ...]
    """Tried in order; the first that matches a finding wins."""
    logs: Annotated[tuple[LogRule, ...], Field(max_length=LOGS_MAX)] = ()
    """Patterns over everything that ranks and launcher print."""
    playbooks: dict[Name, Playbook] = Field(default_factory=dict)
    """Rungs, tried in order, each judged, until one works or a person is paged."""
    budget: Budget = Field(default_factory=Budget)
    """How much may be tried."""
    probation: Probation = Field(default_factory=Probation)
    """When a repair has worked."""
    paging: Paging = Field(default_factory=Paging)
    """How a person is reached."""

    @model_validator(mode="before")
    @classmethod
    def _expressions_know_what_is_recorded(cls, value: Any) -> Any:
        record = value.get("record") if isinstance(value, dict) else None
        if not isinstance(record, dict):
            return value
        known = tuple((str(name), text) for name, text in record.items() if isinstance(text, str))
        named = {
            name: WrittenExpression(text, known, str(name)) if isinstance(text, str) else text for name, text in record.items()
        }
        rules = value.get("rules")
        if isinstance(rules, (list, tuple)):
            rules = [_with_written(rule, known) for rule in rules]
        return {**value, "record": named, "rules": rules} if rules is not None else {**value, "record": named}

    @property
    def price(self) -> Price | None:
        """Of a GPU hour: that of `run`, else the older word of `paging`, which names no currency."""
        old = self.paging.gpu_hour_cost
        return self.run.gpu_hour_price or (Price(old) if old is not None else None)

    @model_validator(mode="after")
    def _one_price(self) -> PolicySpec:
        old, new = self.paging.gpu_hour_cost, self.run.gpu_hour_price
        if old is not None and new is not None and old != new.amount:
            message = f"gpu_hour_price '{new.amount:g} {new.currency}' and paging.gpu_hour_cost {old:g} are two prices of an hour"
            raise Malformed(message, "leave paging.gpu_hour_cost out: pages take the price of run")
        return self


def _with_written(rule: Any, records: Records) -> Any:
    """The rule, whose expression knows them."""
    if not isinstance(rule, dict) or not isinstance(rule.get("expr"), str):
        return rule
    return {**rule, "expr": WrittenExpression(rule["expr"], records)}


def _one_base(value: Any) -> Any:
    if value is not None and not isinstance(value, str):
        remedy = "write the name of one shipped policy, or the path of one file; that one may extend another"
        raise Malformed(f"{show(value)} is not a policy", remedy)
    return value


class Policy(Model):
    """A remediation policy file."""

    api_version: Literal["sentinel/v1"] = Field(alias="apiVersion")
    """The version of this language."""
    kind: Literal["RemediationPolicy"]
    """The kind of document."""
    metadata: Metadata
    """Name and description."""
    extends: Annotated[Text | None, BeforeValidator(_one_base)] = None
    """The policy this one starts from: the name of a shipped one, or a path from this file. `spec` says what differs."""
    remove: tuple[Text, ...] = ()
    """What `spec` of the extended policy has and this one does not want, by name: `rules.Spike`, `playbooks.numeric`."""
    spec: PolicySpec
    """The policy itself."""


def with_channels(channels: Sequence[ChannelKind[Any]], module: str) -> type[Route]:
    """Complete the language: these are the channels that a route may name. Before it no policy can be read, because the
    channels' settings stand beside their code, and that is above the policy (`sentinel.channels.registry` calls this). `module`:
    as `route_of`."""
    route = route_of(channels, module)
    use_route(route)
    return route


def use_route(route: type[Route]) -> None:
    """Policies are read with routes of this class from now on."""
    Paging.model_fields["routes"].annotation = tuple[route, ...]  # type: ignore[valid-type]
    for model in (Paging, PolicySpec, Policy):
        model.model_rebuild(force=True)
