"""Room on the disks: what would make some, a launch that is held back for want of it, and pages that are taken back when there is
room again, by measurement. Where nobody knows how much room there is, nothing is held back."""

from __future__ import annotations

from sentinel.detectors.disk_full import FILLING, KIND
from sentinel.detectors.disk_memory import QUANTITIES, metric_of
from sentinel.engine.decision import Decision
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page, resolve
from sentinel.model import facts as f
from sentinel.model.actions import StartAttempt
from sentinel.model.changed import replace
from sentinel.model.disks import RUN_PLACE, DiskReading
from sentinel.model.findings import Finding
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState
from sentinel.plan.retention import choose_anchor
from sentinel.plan.sparing import choose_spared, keep_of
from sentinel.policy.match import Match, match_rule

AT_LAUNCH = "room_at_launch"  # the metric of an incident about a launch that is held back
FOLLOWS = "sentinel launches it as soon as it has measured room for it; nothing trains until then"


def sound_only(state: RunState, reading: DiskReading) -> DiskReading:
    """The reading without checkpoints that are known to be damaged: what those say of their size is no measure."""
    damaged = {found.step for found in state.checkpoints if found.damaged}
    saves = tuple(save for save in reading.saves if save.step not in damaged)
    return reading if len(saves) == len(reading.saves) else replace(reading, saves=saves)


def with_offer(decision: Decision, finding: Finding) -> Finding:
    """The finding with what would make room, where it is one about room for checkpoints."""
    if finding.kind not in (KIND, FILLING):
        return finding
    with_saves = [disk.mount for disk in decision.detectors.disks(decision.now_s) if disk.place != RUN_PLACE]
    if finding.metric not in {metric_of(what, mount) for mount in with_saves for what in QUANTITIES}:
        return finding
    return replace(finding, reason=f"{finding.reason}; {_offer(decision)}")


def _offer(decision: Decision) -> str:
    """The command that gives back checkpoints nobody needs, and how much that is."""
    keep = keep_of(decision.policy)
    state, policy, newest, reported = decision.state, decision.policy, decision.newest_step, decision.reported_progress
    judged = choose_spared(state, policy, keep, newest, reported)
    then = choose_spared(state, policy, keep, newest, reported, as_if_read=True)
    spared = [one.checkpoint for one in then if one.prune]
    if not spared:
        return "no checkpoint can be spared: make room elsewhere on that disk"
    much = decision.detectors.room_of([found.step for found in spared])
    anchor = choose_anchor(judged, then)
    first = f", once that of step {anchor.step} was read whole, which it does first" if anchor is not None else ""
    command = f"`sentinel checkpoints prune --keep {keep} RUN_DIR`"
    return f"{command} gives back {much} of {len(spared)} checkpoints that nobody needs{first}"


def hold_back(decision: Decision, action: StartAttempt) -> bool:
    """Whether the launch has to wait for room: an attempt that cannot save trains for nothing. A person is called once."""
    incidents = _incidents_at_launch(decision)
    why = decision.detectors.lacks_room(decision.now_s)
    if not why:
        for incident in incidents:
            resolve(decision, incident.id, f"there is room again, and attempt {action.attempt} is launched")
        return False
    if not any(incident.attempt == action.attempt for incident in incidents):
        _call(decision, action, f"attempt {action.attempt} is not launched: {why}; {_offer(decision)}")
    return True


def _incidents_at_launch(decision: Decision) -> list[Incident]:
    return [i for i in decision.state.open_pages if i.kind is KIND and i.metric == AT_LAUNCH]


def _call(decision: Decision, action: StartAttempt, reason: str) -> None:
    match = match_rule(decision.policy, KIND)
    alert = match.rule.alert if isinstance(match, Match) else "DiskFull"
    step, now_s = decision.newest_step, decision.now_s
    finding = Finding(KIND, "critical", action.attempt, None, step, now_s, reason, metric=AT_LAUNCH, outside=True)
    incident = open_incident(decision, finding, alert, None)
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, "only room helps, and sentinel deletes nothing for it"))
    page(decision, incident.id, "critical", reason, FOLLOWS)
