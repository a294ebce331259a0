"""An incident in sentences, and its tries as rows: what a person who was not there reads first."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.amounts import lost_words, time_words
from sentinel.model.incidents import Incident, IncidentState, Outcome, Try
from sentinel.model.state import RunState
from sentinel.paging.case_words import where
from sentinel.policy.rung_words import CONDITIONS

CHOSEN_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True)
class TryRow:
    number: int
    what: str
    chosen: str
    expected: str
    attempt: int | None
    outcome: str
    reason: str
    after: str
    proofs: str


def try_rows(incident: Incident, chars_max: int = CHOSEN_CHARS_MAX) -> list[TryRow]:
    """`after`: how long after the fault was first visible it was taken."""
    return [_row(number, incident, one, chars_max) for number, one in enumerate(incident.tries, start=1)]


def _row(number: int, incident: Incident, one: Try, chars_max: int) -> TryRow:
    remedy = one.remedy
    what = " + ".join(word for word in remedy.words if word not in CONDITIONS) or "nothing"
    reason = one.reason if one.reason != remedy.reason else ""
    texts = (text if len(text) <= chars_max else f"{text[:chars_max]} …" for text in (remedy.reason, remedy.effect, reason))
    chosen, expected, why = texts
    outcome = str(one.outcome).replace("_", " ")
    proofs = "; ".join(proof.words for proof in one.proofs)
    return TryRow(number, what, chosen, expected, one.attempt, outcome, why, time_words(one.taken_s - incident.visible_s), proofs)


def story(incident: Incident, state: RunState) -> list[str]:
    """Paragraphs, in the order it happened."""
    paragraphs = [_began(incident)]
    if incident.band is not None:
        band = incident.band
        paragraphs[0] += f" Before it, {band.metric} stood at {band.median:.4g} (median absolute deviation {band.mad:.2g})."
    if incident.tries:
        paragraphs.append(_tried(incident))
    if incident.diagnosis is not None:
        paragraphs.append(f"Repeating the stretch has shown ({incident.diagnosis.cause}): {incident.diagnosis.reason}.")
    if incident.attribution is not None:
        paragraphs.append(f"Looking at single samples has shown: {incident.attribution.reason}.")
    if incident.put_back:
        paragraphs.append(f"Settings that had just lapsed were put back: {' and '.join(incident.put_back)}.")
    paragraphs.append(_ended(incident, state))
    return [_ended_once(paragraph) for paragraph in paragraphs]


def _began(incident: Incident) -> str:
    late_s = incident.detected_s - incident.visible_s
    seen = f"{time_words(late_s)} after it was first visible" if late_s >= 0.05 else "at once"
    whom = f", and the evidence points at rank {incident.blamed_rank}" if incident.blamed_rank is not None else ""
    whom += f" on {incident.blamed_node}" if incident.blamed_node else ""
    return (
        f"Attempt {incident.attempt} went wrong {where(incident)}: {incident.reason}. "
        f"Sentinel saw it at step {incident.detected_step}, {seen}{whom}."
    )


def _tried(incident: Incident) -> str:
    tries = [one for one in incident.tries if one.outcome is not Outcome.PAGED]
    if not tries:
        return "No remedy applied."
    words = [f"{'+'.join(w for w in one.remedy.words if w not in CONDITIONS)} {_outcome(one)}" for one in tries]
    if len(words) > 8:
        words = [*words[:3], f"{len(words) - 6} more were tried", *words[-3:]]
    count = "One remedy was" if len(tries) == 1 else f"{len(tries)} remedies were"
    return f"{count} considered: {', then '.join(words)}."


def _outcome(one: Try) -> str:
    return {
        Outcome.PENDING: "(still judged)", Outcome.WORKED: "worked", Outcome.FAILED: "failed",
        Outcome.OBSERVED: "(only observed)", Outcome.PAGED: "called a person",
        Outcome.PASSED_OVER: "was passed over", Outcome.DENIED: "was denied",
        Outcome.UNKNOWN: "had an unknown outcome",
    }[one.outcome]  # fmt: skip


def _ended(incident: Incident, state: RunState) -> str:
    seen_by = f" {incident.acknowledged_by} has seen it." if incident.acknowledged_by else ""
    page = incident.page
    if page is not None and page.resolved and incident.state is not IncidentState.RECOVERED:
        seen_by += f" Its page was resolved{f' by {page.resolved_by}' if page.resolved_by else ''}: {page.resolved}."
    if incident.state is IncidentState.RECOVERED:
        back = incident.restored_s
        took = time_words(back - incident.visible_s) if back is not None else ""
        after = f" New ground was made {took} after the fault showed." if took else ""
        steps = lost_words(incident.steps_lost, incident.steps_unseen)
        lost = f" {steps[0].upper()}{steps[1:]} had to be trained again." if incident.may_have_lost_steps else ""
        healed = "It healed by itself" if incident.benign else "It is repaired"
        return f"{healed}: {incident.verdict or 'the metric is back in its band'}.{after}{lost}{seen_by}"
    if incident.state is IncidentState.EXHAUSTED:
        who = "Sentinel ran out of remedies and called" if incident.had_repairs else "The policy has no repair for it, and called"
        return f"{who} a person: {incident.verdict}.{seen_by}"
    if incident.state is IncidentState.UNKNOWN:
        return f"Whether it healed is not known: {incident.verdict}.{seen_by}"
    if incident.awaits_approval and not state.ended:
        return f"A rung waits for a person.{seen_by}"
    if state.ended:
        return f"How it stood when the run {state.ended}: {incident.state.words}.{seen_by}"
    return f"How it stands now: {incident.state.words}{': ' + incident.verdict if incident.verdict else ''}.{seen_by}"


def _ended_once(paragraph: str) -> str:
    """Reasons end with a full stop or without one."""
    return paragraph.replace("..", ".").replace(".;", ";")
