"""A trainer under a profile that does not know an argument which Sentinel has added: the profile is wrong about this script.

It says so, and ends before its first step. Where the argument was for a setting, or for what is to be left out, the trainer
cannot be given that: rungs that need it are passed over from now on, with its own words, and the incident takes the next. Where
it was for going on from a checkpoint, no relaunch can help, and the one that comes to know of it is the last: a person is told
which flag is missing. An argument that stands in the user's own command too is theirs, and its refusal is a crash like any other.
"""

from __future__ import annotations

from sentinel.client.settings import SETTINGS
from sentinel.detectors.refused_flags import is_same_flag
from sentinel.engine.decision import Decision
from sentinel.engine.evolve.refusals import less
from sentinel.engine.ladder import take_next_rung
from sentinel.engine.passing_over import reason_to_pass_over
from sentinel.engine.relaunching import relaunch
from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.findings import Finding
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.state import Attempt
from sentinel.plan.proving import SKIP

LINE_CHARS_MAX = 400
RESUME = "resume"


def go_on_without_refused(decision: Decision, attempt: Attempt) -> bool:
    """Whether the attempt died of an argument that can be left out; then what follows is decided."""
    refused, line = _refused(decision, attempt)
    if not refused or RESUME in refused or decision.observes_only:
        return False
    flags = tuple(dict.fromkeys(flag for found in refused.values() for flag in found))
    decision.record(f.ArgumentsRefused(attempt.attempt, tuple(refused), flags, line))
    reason = f"the trainer refuses {', '.join(flags)}: {line}"
    incident = next((i for i in decision.state.open_incidents if i.last_try and i.last_try.attempt == attempt.attempt), None)
    if incident is None:
        relaunch(decision, None, attempt.resume, less(attempt.overrides, refused), 0.0, f"launched again without it: {reason}")
        return True
    decision.record(f.RungJudged(incident.id, Outcome.PASSED_OVER, reason))
    if incident.state is IncidentState.PROBATION:
        decision.record(f.IncidentMoved(incident.id, IncidentState.OPEN, reason))
    rungs, index = decision.rungs_of(incident), incident.rung
    is_lost = not 0 <= index < len(rungs) or reason_to_pass_over(decision, incident, rungs[index])
    take_next_rung(decision, incident.id, None if is_lost else index)  # the same again where another had asked for it
    return True


def explain_refused_resume(decision: Decision, attempt: Attempt, finding: Finding) -> Finding:
    """The finding of a death, which no relaunch can mend where the trainer does not know how it was asked to go on."""
    refused, line = _refused(decision, attempt)
    if RESUME not in refused:
        return finding
    flags = ", ".join(refused[RESUME])
    reason = (
        f"the trainer refuses {flags}, by which its profile makes it go on from a checkpoint: {line}; name the flag that it has "
        "in the options of --trainer (sentinel trainers show NAME), or none where it goes on from its newest by itself"
    )
    return replace(finding, reason=reason, retryable=False)


def _refused(decision: Decision, attempt: Attempt) -> tuple[dict[str, tuple[str, ...]], str]:
    """By what they are for, the flags that were added to this attempt and that it says it does not know; with its line."""
    known = dict(decision.state.arguments)
    if not known or attempt.receipt_s is not None or attempt.first_step is not None:
        return {}, ""
    names, line = decision.detectors.refused_flags()
    asked = {key for key in SETTINGS if SETTINGS[key].is_asked(getattr(attempt.overrides, key))}
    asked |= {SKIP} if attempt.overrides.skip else set()
    asked |= {RESUME} if attempt.resume is not None else set()
    found = {key: tuple(one for one in known[key] if any(is_same_flag(name, one) for name in names)) for key in known}
    return {key: flags for key, flags in found.items() if flags and key in asked}, line[:LINE_CHARS_MAX]
