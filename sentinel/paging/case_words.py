"""The parts of a page's case, each a few plain lines about an incident: what broke, what was tried, what follows, what waiting
costs.

Everything here reads the run's state only; the state may be of now and not of when the page was decided.
"""

from __future__ import annotations

from sentinel.model.amounts import time_words
from sentinel.model.incidents import Incident, IncidentState, Outcome, Try, blamed_words
from sentinel.model.state import RIGHTLY_ENDED, Attempt, RunState
from sentinel.policy.rung_words import CONDITIONS

TRIES_SHOWN = 8

_UNTIL = "nothing trains until you start it again"
NOTICE = "The policy asks that you are told of this line. Sentinel changes nothing because of it."


def what(incident: Incident) -> str:
    """The rule, and what was found. An entry of `logs` without a class names itself."""
    return incident.reason if incident.reason.startswith(f"{incident.alert} ") else f"{incident.alert}: {incident.reason}"


def where(incident: Incident) -> str:
    return f"since step {incident.onset_step}" if incident.onset_step is not None else f"at step {incident.break_step}"


def values(incident: Incident) -> list[str]:
    """What was measured, and where that stood before."""
    lines = []
    if incident.value:
        baseline = f", baseline {incident.baseline}" if incident.baseline else ""
        lines.append(f"{incident.metric or 'value'} {incident.value}{baseline}")
    band = incident.band
    if band is not None:
        lines.append(f"before it: {band.metric} {band.median:.4g} ± {band.mad:.2g} (median and MAD of {band.count} readings)")
    onset = f"onset step {incident.onset_step}, " if incident.onset_step is not None else ""
    lines.append(f"{onset}seen at step {incident.detected_step} of attempt {incident.attempt}")
    if blamed := blamed_words(incident.blamed_rank, incident.blamed_node):
        lines.append(f"blamed: {blamed}")
    return lines


def evidence(incident: Incident) -> list[str]:
    """What looking closer has shown."""
    lines = []
    if incident.diagnosis is not None:
        lines.append(f"diagnosis: {incident.diagnosis.cause}: {incident.diagnosis.reason}")
    if incident.attribution is not None:
        lines.append(f"samples: {incident.attribution.reason}")
    return lines


def tried(incident: Incident) -> list[str]:
    """Each try and how it ended; of many the first and the newest."""
    tries = [one for one in incident.tries if one.outcome is not Outcome.PAGED]
    lines = [_try(number, one) for number, one in enumerate(tries, start=1)]
    if len(lines) > TRIES_SHOWN:
        left_out = len(lines) - TRIES_SHOWN
        lines = [lines[0], f"… {left_out} more …", *lines[left_out + 1 :]]
    return lines


def _try(number: int, one: Try) -> str:
    what = "+".join(word for word in one.remedy.words if word not in CONDITIONS) or "nothing"
    launched = f" (attempt {one.attempt})" if one.attempt is not None else ""
    why = f": {one.reason}" if one.reason else ""
    chosen = f": {one.remedy.reason}" if one.remedy.reason != one.reason else ""
    doubts = "; ".join(proof.words for proof in one.proofs if not proof.is_proven)
    return f"{number}. {what}{launched}{chosen}{f' ({doubts})' if doubts else ''} -> {str(one.outcome).replace('_', ' ')}{why}"


def follows(state: RunState, incident: Incident | None, now_s: float) -> list[str]:
    """What happens next without a person, and when."""
    if incident is not None and incident.awaits_approval and incident.approval is not None and not state.ended:
        asked = incident.approval
        default = "is taken" if asked.otherwise == "approve" else "is passed over"
        attempt = state.attempt
        trains = _trains(attempt) if attempt is not None and not attempt.is_over else "nothing trains now"
        left = time_words(asked.deadline_s - now_s)
        return [trains, f"rung {asked.rung + 1} waits for you; without an answer it {default} in {left}"]
    if state.observe_only and not state.ended:
        return ["sentinel observes only: nothing was done, and nothing will be"]
    if state.ended:
        words = {
            "failed": f"the run has failed: {_UNTIL}",
            "stopped": f"the run was stopped: {_UNTIL}",
            "suspended": "the run was suspended: the next start goes on with it",
            **{ended: f"the run has {what}" for ended, what in RIGHTLY_ENDED.items()},
        }
        return [words.get(state.ended, f"the run was {state.ended}")]
    if state.held:
        return ["training is held: nothing happens until you resume it"]
    if state.giving_up:
        return [f"training is being stopped{', and then held' if state.giving_up == 'hold' else f'; then {_UNTIL}'}"]
    if state.paused:
        return [f"sentinel is paused by {state.paused}: it watches and does nothing until you resume it"]
    return _going_on(state, incident)


def _going_on(state: RunState, incident: Incident | None) -> list[str]:
    plan, attempt = state.plan, state.attempt
    if plan is not None and not plan.is_live:
        return [f"a new attempt is being launched{': ' + plan.reason if plan.reason else ''}"]
    if incident is not None and incident.state is IncidentState.PROBATION:
        remedy = _in_words(incident.last_try) or "a remedy"
        trains = [_trains(attempt)] if attempt is not None and not attempt.is_over else []
        return [*trains, f"{remedy} is on probation: sentinel goes on by itself if it fails"]
    if attempt is not None and not attempt.is_over:
        lines = [_trains(attempt)]
        if incident is not None and incident.last_try is not None and incident.last_try.outcome is Outcome.PENDING:
            lines.append(f"{_in_words(incident.last_try)} is being tried")
        limit = incident.limit_step if incident is not None else None
        if limit is not None and incident is not None and incident.state is IncidentState.EXHAUSTED:
            lines.append(f"what is trained and saved from step {limit} on is suspect")
        return lines
    return ["nothing trains now; sentinel decides what comes next"]


def _trains(attempt: Attempt) -> str:
    """Of an attempt that is not over. Before its first step nothing is trained yet, which looks alike from afar."""
    if attempt.first_step is None:
        return f"attempt {attempt.attempt} is launched and has made no step yet"
    return f"training goes on (attempt {attempt.attempt})"


def _in_words(tried: Try | None) -> str:
    """Which rung, and what it does: the rung alone does not tell anybody who has not written the policy."""
    if tried is None:
        return ""
    return f"rung {tried.remedy.rung + 1}" + (f" ({tried.remedy.reason})" if tried.remedy.reason else "")


def stopped_since(state: RunState) -> float | None:
    """Since when nothing trains; None while something does, or when the run is over rightly."""
    attempt = state.attempt
    if attempt is None or not attempt.is_over or state.ended not in ("", "failed"):
        return None
    return attempt.last_step_s if attempt.last_step_s is not None else attempt.ended_s


def ranks_of(attempt: Attempt | None) -> int | None:
    return len(attempt.ranks) or None if attempt is not None else None


def cost(state: RunState, incident: Incident | None, now_s: float, ranks: int | None, gpus: int | None) -> list[str]:
    """What waiting costs: what it has cost by now, and what another hour will. GPU hours only where it is known how many GPUs
    wait, and money where the policy has a price."""
    since_s, price = stopped_since(state), state.price
    if since_s is None:
        return _at_risk(state, incident, now_s, ranks)
    idle_s = max(0.0, now_s - since_s)
    if ranks is None:
        return [f"nothing has trained for {time_words(idle_s)}"]
    idle = f"{ranks} ranks have" if ranks != 1 else "1 rank has"
    if not gpus:
        return [f"{idle} stood still for {time_words(idle_s)}"]
    used = gpus * idle_s / 3600
    money = f", {price.words(used * price.amount)} at {price.amount:g} each" if price is not None else ""
    each = f"; each further hour {gpus} more" + (f", {price.words(gpus * price.amount)}" if price is not None else "")
    return [f"{idle} stood still for {time_words(idle_s)}: {used:.2f} GPU hours{money}{each}"]


def _at_risk(state: RunState, incident: Incident | None, now_s: float, ranks: int | None) -> list[str]:
    """It trains on what may have to be thrown away."""
    is_over = state.ended or incident is None or incident.state is IncidentState.RECOVERED
    if is_over or incident is None or not incident.is_numeric:
        return []
    used = f" on {ranks} rank{'' if ranks == 1 else 's'}" if ranks is not None else ""
    return [f"the {time_words(now_s - incident.visible_s)} since it showed{used} may have to be trained again"]
