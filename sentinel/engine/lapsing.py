"""Decay of interventions: settings go back to the schedule one at a time, the newest first, each watched for a probation.

When a setting is due (`until` of its rung or of a request) and nothing is open, sentinel takes it back itself. An incident
in the probation that follows puts it back, for twice as long. A trainer's own `until` lies later and is put off while sentinel
is there: it is for a run whose supervisor is dead, and what the trainer lapses by itself is watched just the same.
"""

from __future__ import annotations

from sentinel.client.settings import LAPSING
from sentinel.engine.decision import Decision
from sentinel.engine.live_settings import write_live
from sentinel.model import facts as f
from sentinel.model.incidents import Incident
from sentinel.model.readings import TrainerNote
from sentinel.model.state import Lapse
from sentinel.plan.decay import SPARE_PROBATIONS, is_set_anew, next_to_lapse, put_back, put_off
from sentinel.plan.overrides import for_relaunch, without


def spare_steps(decision: Decision) -> int:
    """How much later than sentinel a trainer lapses a setting by itself; 0 where only the trainer can do it."""
    can = "live_overrides" in decision.state.abilities and not decision.is_observed_run
    return SPARE_PROBATIONS * decision.policy.spec.probation.steps if can else 0


def on_tick(decision: Decision) -> None:
    """On every tick: judge the lapse under probation, else begin the next that is due."""
    state = decision.state
    if (state.lapse is None and not state.overrides.decay) or _is_busy(decision):
        return
    if state.lapse is not None:
        _judge(decision, state.lapse)
    elif spare_steps(decision) > 0 and _is_owed(decision):
        step = decision.newest_step
        write_live(decision, None, f"back-{step}", for_relaunch(state.overrides, step, None))
    elif spare_steps(decision) > 0:
        _begin_or_put_off(decision)


def _is_busy(decision: Decision) -> bool:
    """Nothing is begun or judged now: no attempt trains, something is under way, or the stream cannot be read."""
    state, attempt = decision.state, decision.attempt
    if attempt is None or attempt.is_over or attempt.stopping or attempt.first_step is None or decision.observes_only:
        return True
    waits = attempt.written_s is not None and attempt.answered != attempt.overrides.id
    ends = state.giving_up or state.ended or state.held or state.hold_by or state.stop_by
    return bool(waits or ends or state.plan is not None or "metrics" in state.blind)


def _begin_or_put_off(decision: Decision) -> None:
    """Only a healthy run loses a setting: nothing is open, and every remedy has proved itself."""
    now, step, attempt = decision.state.overrides, decision.newest_step, decision.attempt
    assert attempt is not None
    found = next_to_lapse(now, step)
    if found is not None and not decision.state.open_incidents:
        left = without(now, (found.key,))
        reason = f"{found.key} has held for {found.wait} steps and nothing is open: back to the schedule at step {step}"
        decision.record(f.SettingLapsed(attempt.attempt, (found.key,), step, now, reason))
        write_live(decision, None, f"lapse-{found.key}-{step}", for_relaunch(left, step, None), "lapse")
        return
    later = put_off(now, step, spare_steps(decision))
    if later is not None:
        decision.note(
            "decay", f"the trainer's own lapse is put off by {spare_steps(decision)} steps: no setting could be taken back yet"
        )
        write_live(decision, None, f"keep-{step}", for_relaunch(later, step, None), "lapse")


def _judge(decision: Decision, lapse: Lapse) -> None:
    now, needed = decision.state.overrides, decision.policy.spec.probation.steps
    keys = " and ".join(lapse.keys)
    if all(is_set_anew(now, lapse.before, key) for key in lapse.keys):
        decision.record(f.LapseJudged(lapse.keys, "overtaken", f"{keys} was set anew since"))
    elif any(getattr(now, key) is not None for key in lapse.keys):
        decision.record(f.LapseJudged(lapse.keys, "overtaken", f"{keys} never lapsed: the change was overtaken; it is still due"))
    elif not decision.state.open_incidents and (past := decision.steps_seen(lapse.step, decision.newest_step)) >= needed:
        decision.record(f.LapseJudged(lapse.keys, "proven", f"healthy for {past} steps without {keys}"))


def fail_lapse(decision: Decision, incident: Incident) -> bool:
    """An incident has opened. In the probation of a lapse, what lapsed is wanted again, whatever its playbook does; then True.

    The repair that follows is built with it in force. Whether the lapse or something else broke the run is not asked: the
    setting had kept it healthy. A pause does not change what is wanted, only when it is carried out.
    """
    lapse, step = decision.state.lapse, decision.newest_step
    if lapse is None or not incident.is_numeric or decision.is_observed_run:
        return False
    past = incident.detected_step - lapse.step
    if past > decision.policy.spec.probation.steps:
        return False  # proven, and about to be called so
    wanted = put_back(decision.state.overrides, lapse.before, lapse.keys, max(step, lapse.step), spare_steps(decision))
    back = [found for found in wanted.decay if found.key in lapse.keys]
    when = f"{past} steps after its lapse" if past >= 0 else "on steps trained again without it"
    reason = f"incident {incident.id} ({incident.kind}) {when}: put back"
    reason += f", and not taken back before step {max(found.due for found in back)}" if back else ""
    reason += "" if spare_steps(decision) else "; at the next relaunch, for the trainer cannot change settings while it runs"
    decision.record(f.LapseJudged(lapse.keys, "failed", f"{' and '.join(lapse.keys)}: {reason}", wanted, incident.id))
    return True


def _is_owed(decision: Decision) -> bool:
    """Something was put back that the living attempt does not have: it was decided, and not written yet, or overtaken."""
    attempt, wanted = decision.attempt, decision.state.overrides
    assert attempt is not None
    return any(getattr(wanted, key) != getattr(attempt.overrides, key) for key in LAPSING)


def on_lapsed_by_trainer(decision: Decision, note: TrainerNote) -> None:
    """The trainer reached its own `until`: no sentinel was there in time, or it cannot be asked. Watched from here.

    A restarted supervisor hears of it again: then it is out of the attempt's settings already, or was written anew since.
    """
    attempt, reported = decision.attempt, note.data.get("keys")
    if (
        attempt is None
        or decision.state.lapse is not None
        or (attempt.written_s is not None and note.step <= attempt.written_step)
    ):
        return
    known = {found.key for found in decision.state.overrides.decay if getattr(attempt.overrides, found.key) is not None}
    keys = tuple(key for key in reported if key in known) if isinstance(reported, list) else ()
    if not keys:
        return
    reason = f"{' and '.join(keys)} lapsed in the trainer itself at step {note.step}"
    decision.record(f.SettingLapsed(attempt.attempt, keys, note.step, decision.state.overrides, reason, by_trainer=True))
