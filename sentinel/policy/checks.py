"""Whether a policy that reads well can also work. Refuses at the desk what would otherwise fail at 3 a.m.

Rules, budget and probation are judged here; playbooks, rung by rung, in `sentinel.policy.checks_playbooks`, expressions in
`sentinel.policy.checks_expressions`, how far back the checkpoints reach in `sentinel.policy.checks_retention`, whom pages
reach in `sentinel.policy.checks_paging`.
An *error* means the policy may not act; a *warning* is a question to its author.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sentinel.detectors.registry import DETECTORS, MAKER_OF
from sentinel.detectors.settings import misfits_of
from sentinel.errors import Problem
from sentinel.model.amounts import time_words
from sentinel.model.findings import Kind
from sentinel.policy.checks_expressions import check_expression, check_record
from sentinel.policy.checks_logs import check_logs
from sentinel.policy.checks_paging import check_paging
from sentinel.policy.checks_playbooks import check_playbook
from sentinel.policy.checks_retention import check_retention
from sentinel.policy.problems import did_you_mean
from sentinel.policy.schema import Budget, Detectors, FindingKind, Policy, PolicySpec, Rule
from sentinel.policy.unruled import unruled

__all__ = ["Problem", "check_policy"]


def check_policy(
    policy: Policy, capabilities: Collection[str] | None = None, settable: Collection[str] | None = None
) -> tuple[Problem, ...]:
    """Every problem, in the order of the language.

    `capabilities` is what the trainer declares to support, such as {"skip", "live_overrides"}; None means not known yet,
    and then nothing is said about it. `settable`: settings that the trainer can be given; None: every one.
    """
    spec = policy.spec
    found = [*check_record(spec), *_check_rules(spec), *_check_detectors(spec)]
    for name, playbook in spec.playbooks.items():
        found += check_playbook(f"spec.playbooks.{name}", playbook, spec.probation.steps, capabilities, settable)
    found += [*check_retention(spec), *_check_used(spec), *_check_budget(spec.budget, spec.probation.steps)]
    found += [*check_logs(spec, capabilities), *_check_nodes(spec, capabilities)]
    return (*found, *check_paging(spec))


def _check_nodes(spec: PolicySpec, capabilities: Collection[str] | None) -> Iterator[Problem]:
    if spec.node_check is not None and capabilities is not None and "exclude" not in capabilities:
        message = "the command is not declared to be able to leave a node out: where one is sick, the run is held for a person"
        yield Problem("spec.node_check", message, "start it with --with exclude where it can", "warning")


def _check_rules(spec: PolicySpec) -> Iterator[Problem]:
    alerts: dict[str, int] = {}
    kinds: dict[str, int] = {}
    for index, rule in enumerate(spec.rules):
        path = f"spec.rules[{index}]"
        if rule.alert in alerts:
            message = f"the alert '{rule.alert}' is also spec.rules[{alerts[rule.alert]}]"
            yield Problem(f"{path}.alert", message, "give each alert its own name")
        if rule.on is not None and rule.on in kinds:
            message = f"never reached: spec.rules[{kinds[rule.on]}] already takes every '{rule.on}', and the first match wins"
            yield Problem(f"{path}.on", message, "keep one rule for each finding")
        alerts.setdefault(rule.alert, index)
        if rule.on is not None:
            kinds.setdefault(rule.on, index)
            yield from _check_maker(path, rule.on, spec.detectors)
        yield from check_expression(path, rule, spec.run)
        yield from _check_treatment(path, rule, spec)


def _check_maker(path: str, kind: FindingKind, detectors: Detectors) -> Iterator[Problem]:
    """What sentinel finds itself is always found."""
    row = MAKER_OF.get(Kind(kind))
    if row is not None and not getattr(detectors, row.name).enabled:
        message = f"'{kind}' is never found, because the detector '{row.name}' is switched off"
        yield Problem(f"{path}.on", message, f"remove the rule, or switch on spec.detectors.{row.name}", "warning")


def _check_treatment(path: str, rule: Rule, spec: PolicySpec) -> Iterator[Problem]:
    severity = rule.labels.severity
    if rule.playbook is None:
        if severity != "info":
            message = f"'{rule.alert}' is {severity} but has no playbook: nothing would be done and nobody called"
            yield Problem(path, message, "name a playbook, if only one that pages, or set labels.severity to info")
    elif rule.playbook not in spec.playbooks:
        remedy = did_you_mean(rule.playbook, tuple(spec.playbooks), "playbooks here") or "write it under spec.playbooks"
        yield Problem(f"{path}.playbook", f"there is no playbook '{rule.playbook}'", remedy)
    elif severity == "info":
        message = f"'{rule.alert}' is info, which is only recorded: its playbook is never used"
        yield Problem(f"{path}.playbook", message, "raise labels.severity to warning, or remove the playbook", "warning")


def _check_detectors(spec: PolicySpec) -> Iterator[Problem]:
    ruled = {rule.on for rule in spec.rules}
    for row in DETECTORS:
        if row.settings is None:
            continue
        settings = getattr(spec.detectors, row.name)
        finds_any = settings.enabled and (not row.wants or getattr(settings, row.wants) is not None)
        for kind in (one.kind for one in row.finds if finds_any and one.asks_for_rule and one.kind not in ruled):
            yield unruled(str(kind), row.name)
    for row in DETECTORS:
        for misfit in misfits_of(getattr(spec.detectors, row.name, None)):
            yield Problem(f"spec.detectors.{row.name}.{misfit.word}", misfit.message, misfit.remedy)


def _check_used(spec: PolicySpec) -> Iterator[Problem]:
    used = {rule.playbook for rule in spec.rules}
    for name in spec.playbooks:
        if name not in used:
            yield Problem(f"spec.playbooks.{name}", "no rule uses this playbook", "remove it, or name it in a rule", "warning")


def _check_budget(budget: Budget, probation_steps: int) -> Iterator[Problem]:
    """A rate only slows a loop down. What ends it is `without_progress`, so that one must be reachable and must stay spent."""
    endless = "a loop could run for ever"
    if budget.without_progress > budget.restarts.count:
        count = budget.restarts.count
        message = f"{budget.without_progress} is never reached: restarts are cut to {count} per period first, so {endless}"
        yield Problem("spec.budget.without_progress", message, f"write at most {count}; 3 is usual")
    if budget.refill_after_progress_steps < probation_steps:
        message = (
            f"{budget.refill_after_progress_steps} steps refill the budget before a repair is proven "
            f"({probation_steps} steps of probation), so {endless}"
        )
        yield Problem("spec.budget.refill_after_progress", message, f"write at least '{probation_steps} steps'")
    if budget.backoff[0] <= 0:
        yield Problem("spec.budget.backoff", "a pause that starts at 0 s never grows", "write it as '5s..5m'")
    for key, rate in (("restarts", budget.restarts), ("interventions", budget.interventions), ("per_cause", budget.per_cause)):
        if rate is not None and rate.count > rate.period_s:
            message = f"{rate.count} in {time_words(rate.period_s)} is more than one a second, so {endless}"
            yield Problem(f"spec.budget.{key}", message, "20 restarts per 1h and 12 interventions per 24h are usual")
