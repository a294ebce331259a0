"""`sentinel policy explain`: what a policy would do about a finding, rung by rung, in an assumed run. Nothing is run.

    print(explain_text(explain(load_policy(shipped_policy_path("default")), "spike", Assumed())))

Every rung is made absolute by the very code that makes it absolute in a real run (`sentinel.plan.remedy`), one after the other as
if each had failed. What the run assumes is printed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sentinel.detectors.hold import Hold
from sentinel.detectors.registry import RULED_KINDS
from sentinel.errors import UsageError
from sentinel.model.attempts import SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, SampleAnchor
from sentinel.model.state import Checkpoint
from sentinel.plan.overrides import draw_data_seed
from sentinel.plan.remedy import build_treatment
from sentinel.plan.retention import judge_retention, rule_of
from sentinel.plan.trust import Trust
from sentinel.policy.available import Abilities, lacking
from sentinel.policy.match import Match, match_rule
from sentinel.policy.problems import did_you_mean
from sentinel.policy.quantities import show_duration
from sentinel.policy.rung_words import Capability
from sentinel.policy.schema import Policy, Route, Rule, Rung
from sentinel.policy_files.explain_waiting import log_words, waiting

_THEN = {
    "stop_now": "training is stopped at once, without a checkpoint",
    "hold": "training is stopped and the run is held for a person",
    "keep_training": "training goes on meanwhile",
}
_DEAD = (Kind.CRASH, Kind.PREEMPTED, Kind.BROKEN_JOB)


@dataclass(frozen=True, slots=True)
class Assumed:
    """The run that is assumed. `detected_step` None: as soon as the rule's `for` allows. `checkpoint_every` None: what the policy
    says of its run, else 250."""

    onset_step: int = 1000
    detected_step: int | None = None
    checkpoint_every: int | None = None
    samples_per_step: int = 512


@dataclass(frozen=True, slots=True)
class PolicyExplanation:
    """What would happen: sentences before the rungs, (title, sentence) of each rung, sentences after them. `trainer`: the profile
    by which rungs are passed over; None: every rung can be carried out. `passed_over`: by the number of a rung, what it lacks."""

    finding: str
    policy: str
    before: tuple[str, ...]
    rungs: tuple[tuple[str, str], ...] = ()
    after: tuple[str, ...] = ()
    assumed: dict[str, int] = field(default_factory=dict)
    extends: str | None = None
    trainer: str | None = None
    passed_over: Mapping[int, tuple[Capability, ...]] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, Any]:
        extends = {"extends": self.extends} if self.extends is not None else {}
        return {
            "policy": self.policy,
            **extends,
            "finding": self.finding,
            "assumed": self.assumed,
            "before": list(self.before),
            **({} if self.trainer is None else {"trainer": self.trainer}),
            "rungs": [
                {"rung": title, "what": sentence, "passed_over": [_plain(one) for one in self.passed_over.get(number, ())]}
                for number, (title, sentence) in enumerate(self.rungs, start=1)
            ],
            "after": list(self.after),
        }


def _plain(needed: Capability) -> dict[str, str]:
    return {"needs": needed.name, "message": needed.message, "remedy": needed.remedy}


def explain(policy: Policy, finding: str, assumed: Assumed, able: Abilities | None = None) -> PolicyExplanation:
    """`finding`: a kind of finding, or the name of an alert. `able`: what the trainer can do, where that is known.

    Raises UsageError for a word that is neither.
    """
    explained = _explained(policy, finding, assumed, able)
    return replace(explained, extends=policy.extends, trainer=None if able is None else able.trainer)


def _explained(policy: Policy, finding: str, assumed: Assumed, able: Abilities | None) -> PolicyExplanation:
    kind, match = _matched(policy, finding)
    name = policy.metadata.name
    if match is None:
        return PolicyExplanation(finding, name, (f"no rule is on {finding}: it is recorded, and nothing is done",))
    rule = match.rule
    condition = f": {rule.expr.text}" if rule.expr else ""
    recorded = [f"where {name} is {text}" for name, text in rule.expr.recorded] if rule.expr else []
    before = [f"rule {rule.alert} (spec.rules[{match.index}]) takes it{condition}", *recorded, _firing(rule)]
    if rule.labels.severity == "info" or rule.playbook is None:
        return PolicyExplanation(finding, name, (*before, "it is recorded, and nothing is done"))
    if policy.spec.mode == "observe":
        before.append("mode observe: all of this is recorded, and nothing is done")
    every = assumed.checkpoint_every or policy.spec.run.checkpoint_every_steps or 250
    detected = assumed.detected_step or assumed.onset_step + max(rule.for_.steps - 1, 0)
    if detected < assumed.onset_step:
        raise UsageError(
            f"it cannot be detected at step {detected}, before its onset at step {assumed.onset_step}; give --detected later"
        )
    incident = _incident(kind, rule, assumed, detected)
    rungs = policy.spec.playbooks[rule.playbook]
    has_checkpoints = able is None or able.has_checkpoints
    explained = {"onset_step": assumed.onset_step, "detected_step": detected, "checkpoint_every": every if has_checkpoints else 0}
    explained["samples_per_step"] = assumed.samples_per_step
    lacks = {} if able is None else _lacks(rungs, able)
    marks = range(every, incident.break_step + 1, every) if has_checkpoints else ()
    climbed = tuple(_climb(policy, rungs, incident, marks, lacks))
    after = (*_after(policy, [rung for number, rung in enumerate(rungs, start=1) if number not in lacks]), *waiting(policy, rule))
    return PolicyExplanation(finding, name, tuple(before), climbed, after, explained, passed_over=lacks)


def _lacks(rungs: tuple[Rung, ...], able: Abilities) -> dict[int, tuple[Capability, ...]]:
    """By the number of a rung, what the trainer lacks for it."""
    found = {
        number: tuple(dict.fromkeys(needed for _, needed in lacking(rung, able.capabilities, able.settable)))
        for number, rung in enumerate(rungs, start=1)
    }
    return {number: needed for number, needed in found.items() if needed}


def explain_rules(policy: Policy) -> str:
    """One line a rule: what it is on, and the titles of its rungs."""
    name = _with_base(policy.metadata.name, policy.extends)
    lines = [f"policy {name}: {policy.metadata.description or 'no description'}; mode {policy.spec.mode}"]
    for rule in policy.spec.rules:
        rungs = policy.spec.playbooks.get(rule.playbook or "", ())
        does = " → ".join(rung.title for rung in rungs) or "recorded only"
        about = rule.on or "an expression"
        lines.append(f"  {rule.alert} ({rule.labels.severity}, on {about}): {does}")
    lines += [f"  {log_words(rule)}" for rule in policy.spec.logs]
    return "\n".join([*lines, "more with --finding KIND or --finding ALERT"])


def rules_document(policy: Policy) -> dict[str, Any]:
    """The same as one JSON document."""
    rules = [
        {
            "alert": rule.alert,
            "severity": rule.labels.severity,
            "on": rule.on,
            "expr": rule.expr.text if rule.expr is not None else None,
            "playbook": rule.playbook,
            "rungs": [rung.title for rung in policy.spec.playbooks.get(rule.playbook or "", ())],
        }
        for rule in policy.spec.rules
    ]
    return {"policy": policy.metadata.name, "extends": policy.extends, "mode": policy.spec.mode, "rules": rules}


def explain_text(explained: PolicyExplanation) -> str:
    """As a person reads it."""
    name = _with_base(explained.policy, explained.extends)
    under = "" if explained.trainer is None else f", trainer {explained.trainer}"
    lines = [f"policy {name}, finding {explained.finding}{under}", *(f"  {sentence}" for sentence in explained.before)]
    if explained.rungs:
        assumed = explained.assumed
        saved = f"a checkpoint every {every} steps" if (every := assumed["checkpoint_every"]) else "no checkpoint"
        lines.append(
            f"assumed: onset at step {assumed['onset_step']}, believed at step {assumed['detected_step']}, {saved}, "
            f"{assumed['samples_per_step']} samples a step; every rung fails"
        )
        width = max(len(title) for title, _ in explained.rungs)
        lines += [f"  {number}. {title:<{width}}  {what}" for number, (title, what) in enumerate(explained.rungs, start=1)]
        remedies = dict.fromkeys(needed.remedy for lacks in explained.passed_over.values() for needed in lacks)
        lines += [f"     to have more of them: {remedy}" for remedy in remedies]
    return "\n".join([*lines, *explained.after])


def _with_base(name: str, extends: str | None) -> str:
    return name if extends is None else f"{name} (extends {extends})"


def _matched(policy: Policy, finding: str) -> tuple[Kind, Match | None]:
    rule = next((rule for rule in policy.spec.rules if rule.alert == finding), None)
    kinds = tuple(str(kind) for kind in RULED_KINDS)
    if rule is None and finding not in kinds:
        alerts = tuple(rule.alert for rule in policy.spec.rules)
        raise UsageError(
            f"--finding {finding}: neither a kind of finding nor an alert; {did_you_mean(finding, (*kinds, *alerts), 'known')}"
        )
    if rule is not None and rule.expr is not None:
        found = match_rule(policy, Kind.EXPRESSION, rule.alert)
        return Kind.EXPRESSION, found if isinstance(found, Match) else None
    kind = Kind(rule.on if rule is not None and rule.on is not None else finding)
    found = match_rule(policy, kind)
    return kind, found if isinstance(found, Match) else None


def _firing(rule: Rule) -> str:
    waits = "fires at once" if rule.for_ == Hold() else f"fires when it has lasted {_hold(rule.for_)}"
    keeps = "" if rule.keep_firing_for == Hold() else f", and is over {_hold(rule.keep_firing_for)} after it has gone"
    return f"{rule.labels.severity}; {waits}{keeps}; playbook {rule.playbook or 'none'}"


def _hold(hold: Hold) -> str:
    return f"{hold.steps} steps" if hold.steps else show_duration(hold.seconds)


def _incident(kind: Kind, rule: Rule, assumed: Assumed, detected: int) -> Incident:
    numeric, per_step = kind.is_numeric, assumed.samples_per_step
    anchor = SampleAnchor((assumed.onset_step - 1) * per_step, detected * per_step, per_step) if numeric else None
    onset = assumed.onset_step if numeric else None
    return Incident(
        id=1,
        kind=kind,
        severity=rule.labels.severity,
        alert=rule.alert,
        playbook=rule.playbook or "",
        attempt=1,
        onset_step=onset,
        detected_step=detected,
        break_step=detected,
        visible_s=0.0,
        detected_s=0.0,
        reason="assumed",
        samples=anchor,
    )


def _climb(
    policy: Policy, rungs: tuple[Rung, ...], incident: Incident, marks: Iterable[int], lacks: Mapping[int, tuple[Capability, ...]]
) -> Iterator[tuple[str, str]]:
    per_step = incident.samples.per_step if incident.samples else 1
    every_one = [Checkpoint(step, f"checkpoints/step-{step:08d}", 1, step * per_step) for step in marks]
    checkpoints = _kept(policy, every_one)
    in_force, alive = SettingsInForce(), incident.kind not in _DEAD
    for index, rung in enumerate(rungs):
        if index + 1 in lacks:
            yield rung.title, "passed over: " + "; ".join(needed.message for needed in lacks[index + 1])
        elif rung.wait is not None:
            heals = rung.wait.unless_above_band_steps
            unless = f", given up after {heals} steps above its band" if heals else ""
            nothing = "" if incident.is_numeric and alive else "; passed over: no step can heal this"
            rows = f", and never before {rung.wait.rows} rows of the metric" if rung.wait.rows else ""
            yield rung.title, f"watch for up to {rung.wait.for_steps} steps{unless}{rows}{nothing}"
        elif rung.hold:
            yield rung.title, _THEN["hold"]
        elif rung.parts == ("page",) and rung.page is not None:
            after = _THEN[rung.then] if rung.then else _THEN["stop_now"] if index == len(rungs) - 1 else "the playbook goes on"
            yield rung.title, f"a {rung.page.severity} page; {after}"
        else:
            treatment = build_treatment(
                rungs,
                index,
                incident,
                checkpoints=checkpoints,
                open_incidents=(),
                in_force=in_force,
                is_alive=alive,
                new_seed=draw_data_seed("assumed", incident.id, index + 2),
            )
            in_force = treatment.overrides
            how = "" if treatment.relaunch else "; live, without a relaunch"
            also = f"; and a {rung.page.severity} page" if rung.page else ""
            yield rung.title, f"{_asked(rung)}{treatment.remedy.reason}{how}{also}"


def _kept(policy: Policy, checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Those of them that are still there, by whoever deletes the others."""
    elsewhere, rule = policy.spec.run.checkpoints_kept, rule_of(policy)
    left = checkpoints[-elsewhere:] if elsewhere else checkpoints
    if rule is None:
        return left
    trusts = [Trust(replace(c, digest="assumed"), "proven", "assumed") for c in left]
    judged = judge_retention(trusts, rule, 0, max((c.step for c in left), default=0), as_if_read=True)
    return [retained.checkpoint for retained in judged if not retained.prune]


def _retained(policy: Policy) -> Iterator[str]:
    retain, rule = policy.spec.checkpoints.retain, rule_of(policy)
    if retain is not None and rule is not None:
        multiples = f", every one at a multiple of {retain.every_steps} steps for ever" if retain.every_steps else ""
        yield (
            f"checkpoints: the newest {retain.last} good ones are kept{multiples}, and what a rollback may need, "
            f"{rule.reach_steps} steps back at least; nothing is deleted while an incident is open"
        )


def _verified(policy: Policy) -> Iterator[str]:
    how = policy.spec.checkpoints.verify
    if how != "full":
        again = "in samples" if how == "sampled" else "not again"
        yield (
            "before a resume: each new checkpoint was read whole behind training; what nothing wrote to since is read "
            f"{again}, all else whole"
        )


def _asked(rung: Rung) -> str:
    if rung.approval is None:
        return ""
    without = "this rung is taken" if rung.approval.otherwise == "approve" else "the next is taken"
    return f"a person is asked, and without an answer in {show_duration(rung.approval.within_s)} {without}: "


def _after(policy: Policy, rungs: Sequence[Rung]) -> Iterator[str]:
    probation, budget, paging = policy.spec.probation, policy.spec.budget, policy.spec.paging
    recovered = probation.recovered_when
    yield (
        f"a rung has worked when {recovered.metric} is within {recovered.ratio * 100:g}% of its level before, {probation.steps} "
        "steps past the step where it broke; the same finding before that is its failure, and the next rung is taken"
    )
    acting = sum(rung.does("relaunches", "treats") for rung in rungs)
    tries, starts = budget.interventions, budget.restarts
    cause = budget.per_cause
    of_one = "" if cause is None else f" ({cause.count} in {show_duration(cause.period_s)} for one kind of incident)"
    yield (
        f"budget: {tries.count} interventions in {show_duration(tries.period_s)}{of_one}, "
        f"of which this playbook takes up to {acting}; "
        f"{starts.count} restarts in {show_duration(starts.period_s)}, {budget.without_progress} without progress; then a page"
    )
    yield from _retained(policy)
    yield from _verified(policy)
    routes = ", ".join(_route_words(route) for route in paging.routes) or "nobody"
    every = show_duration(paging.repeat_every_s)
    yield f"pages go to: {routes}; within {show_duration(paging.deadline_s)}, again every {every} until somebody answers"


def _route_words(route: Route) -> str:
    settings = route.settings
    after = f"after {show_duration(settings.after_s)} without an answer" if settings.after_s is not None else ""
    only = {"info": "", "warning": "no info", "critical": "critical only"}[settings.severity]
    notes = [note for note in (after, only, "messages too" if settings.messages else "") if note]
    return route.name + (f" ({', '.join(notes)})" if notes else "")
