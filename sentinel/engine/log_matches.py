"""What a pattern of the policy, found in what an attempt prints, means: while training goes on it tells or pages, and changes
nothing. Of an attempt that then died by itself it may say the class of the crash, leave out the node, and forbid a relaunch.
"""

from __future__ import annotations

from sentinel.detectors.crash import choose_first
from sentinel.engine.decision import Decision
from sentinel.engine.exclusion import blamed_node
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page
from sentinel.model import facts as f
from sentinel.model.attempts import ExitReport
from sentinel.model.changed import replace
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import LogMatch
from sentinel.plan.exclusion import judge_exclusion
from sentinel.policy.schema_logs import LogRule, fill_groups

LINE_CHARS_MAX = 400
EXCLUDED_MAX = 4  # as of a rung that does not say


def on_match(decision: Decision, match: LogMatch) -> None:
    """The first match of an entry in an attempt is recorded, and pages where the entry says so."""
    attempt, rule = decision.attempt, _rule(decision, match.name)
    if rule is None or attempt is None or match.attempt != attempt.attempt:
        return None
    match = replace(match, line=match.line.strip()[:LINE_CHARS_MAX])
    decision.live.matched(match)
    if (match.attempt, match.name) in decision.state.log_matches:
        return None
    decision.record(f.LogMatched(match.attempt, match.name, match.rank, match.line, decision.newest_step, match.groups))
    if rule.page is None:
        return None
    paged = next((i for i in decision.state.open_pages if i.kind is Kind.LOG_MATCH and i.alert == rule.name), None)
    if paged is not None:
        return decision.note(f.about_incident(paged.id), f"found again in attempt {match.attempt}: {match.line}")
    finding = Finding(
        Kind.LOG_MATCH, rule.page, match.attempt, None, decision.newest_step, decision.now_s, _words(rule, match),
        blamed_rank=match.rank, alert=rule.name, blamed_node=match.host,
    )  # fmt: skip
    incident = open_incident(decision, finding, rule.name, None)
    reason = "found in a log: a person is told, and nothing else is done"
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, reason))
    page(decision, incident.id, rule.page, f"the policy asks for it ({rule.name})", "sentinel changes nothing because of it")
    return None


def died_of_logs(decision: Decision, finding: Finding, report: ExitReport) -> Finding:
    """The finding of a crash, in the words of the first entry of the policy that was found in the attempt's logs."""
    if finding.kind is not Kind.CRASH:
        return finding
    first = choose_first(report)
    for rule in decision.policy.spec.logs:
        matches = decision.live.log_matches.get(rule.name, [])
        if rule.judges_deaths and matches:
            own = (match for match in matches if first is not None and match.rank == first.rank)
            return _in_its_words(finding, rule, next(own, matches[0]))
    return finding


def exclude_by_log(decision: Decision, incident_id: int, finding: Finding) -> None:
    """Leave the node out, on record before the launch that is to do without it. Where it cannot be, the journal says why."""
    rule = _rule(decision, finding.log)
    if rule is None or rule.node is None:
        return None
    node, state = blamed_node(decision, finding), decision.state
    out = [one.node for one in state.excluded]
    nodes = {*decision.live.nodes} - {"", *out}
    why_not = judge_exclusion(node, nodes, out, EXCLUDED_MAX, state.capabilities)
    if decision.observes_only:
        why_not = "observe only"
    if why_not:
        return decision.note(f.about_incident(incident_id), f"no node is left out ({rule.name}): {why_not}")
    return decision.record(f.NodeExcluded(node, incident_id, f"{rule.name}: {finding.reason}"))


def _rule(decision: Decision, name: str) -> LogRule | None:
    return next((rule for rule in decision.policy.spec.logs if rule.name == name), None)


def _in_its_words(finding: Finding, rule: LogRule, match: LogMatch) -> Finding:
    follows = "" if rule.retry else "; a relaunch cannot help, says the policy"
    rank = match.rank if match.rank is not None else finding.blamed_rank
    return replace(
        finding, reason=f"{_words(rule, match)} ({finding.reason}{follows})", retryable=finding.retryable and rule.retry,
        blamed_rank=rank, blamed_node=match.host or finding.blamed_node, log=rule.name,
    )  # fmt: skip


def _words(rule: LogRule, match: LogMatch) -> str:
    """`sick GPU on rank 3: GPU 5: Xid 63`: the class, who printed it, what the author says, and the line."""
    what = fill_groups(rule.class_, match.groups) if rule.class_ is not None else rule.found
    where = f" on rank {match.rank}" if match.rank is not None else ""
    says = f"{fill_groups(rule.text, match.groups)}: " if rule.text else ""
    return f"{what}{where}: {says}{match.line}"
