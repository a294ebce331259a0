"""How far each checkpoint is trusted, in one word, from the facts of the journal alone.

    candidate ──verified before a resume──▶ verified ──trained on past it, healthy──▶ proven
        └── suspect (an onset, failures of what resumed from it, a read without end) · damaged · quarantined · pruned ◀──┘

*proven*: an attempt that has it in its past showed a probation's length of steps beyond it; no onset of an incident that did
not heal by itself lies in them, and where the checkpoint was saved inside one that did, they are counted from its break.
A crash takes that back from none. *suspect*: it was saved at or after the onset of an incident that is open, or, by an attempt
with that onset in its past, of one that was never repaired; or two attempts that resumed from it failed alike; or it is ahead of
every step seen (`ahead.py`).

`rollback.py` and `checkpoint_blame.py` decide what is used. Suspect and damaged agree with them, except for what is ahead; that,
candidate, verified and proven only inform.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.model.state import Attempt, Checkpoint, RunState
from sentinel.plan.ahead import NOTHING_REPORTED, ReportedProgress, explained, limit_of, seen_of
from sentinel.plan.holes import Hole, count_seen

Limited = Sequence[tuple[Incident, int]]  # incidents that have an onset, and its `limit_step`
Limits = Sequence[tuple[int, int | None]]  # of each attempt: its number, and up to which step its checkpoints are explained
Word = Literal["candidate", "verified", "proven", "suspect", "damaged", "quarantined", "pruned"]


@dataclass(frozen=True, slots=True)
class Trust:
    """`checkpoint` as the journal has it; `reason` is a sentence for a person. `is_ahead`: suspect for its step alone."""

    checkpoint: Checkpoint
    word: Word
    reason: str
    is_ahead: bool = False


def judge_trust(
    state: RunState, probation_steps: int | None, newest_step: int | None = None, reported: ReportedProgress = NOTHING_REPORTED
) -> tuple[Trust, ...]:
    """Every checkpoint that is known: those that were deleted and moved aside first, then the others by step.

    probation_steps: of the policy; None where it is not known, and then nothing is called proven. newest_step: of the living
    attempt, as its stream has it; None where that is not known: then it proves nothing. reported: what it says beside that.
    """
    aside = [Trust(c, "quarantined", f"moved aside: {c.condemned}") for c in state.quarantined]
    gone = [Trust(c, "pruned", f"deleted: {c.pruned}") for c in state.pruned]
    past = _look_back(state, probation_steps, newest_step, explained(state, newest_step, reported))
    return (*gone, *aside, *(_judge(state, c, past) for c in state.checkpoints))


@dataclass(frozen=True, slots=True)
class _Past:
    """What every checkpoint is judged by, looked up once: a run of months has hundreds of each.

    unrepaired: incidents with an onset that no remedy healed, the onset, and the attempts that have it in their past.
    healed: from the onset to the break of those that healed by themselves.
    furthest: for each attempt, in their order, which of it and the later ones was seen furthest, and how far.
    limits: for each attempt, up to which step its checkpoints are explained by steps that were seen.
    """

    probation_steps: int
    unrepaired: tuple[tuple[Incident, int, frozenset[int]], ...]
    healed: tuple[tuple[int, int], ...]
    holes: tuple[tuple[int, Hole], ...]  # with the attempt
    furthest: tuple[tuple[int, int, int], ...]
    limits: Limits


def _look_back(state: RunState, probation_steps: int | None, newest_step: int | None, limits: Limits) -> _Past:
    limited = [(one, limit) for one in state.incidents if (limit := one.limit_step) is not None]
    return _Past(
        probation_steps=probation_steps or 0,
        unrepaired=tuple((one, at, _tainted(state.attempts, one, at)) for one, at in limited if _is_unrepaired(one)),
        healed=tuple((at, one.break_step) for one, at in limited if one.benign),
        holes=tuple((one.attempt, hole) for one in state.attempts for hole in one.holes),
        furthest=_furthest(state, limited, newest_step) if probation_steps is not None else (),
        limits=limits,
    )


def _furthest(state: RunState, limited: Limited, newest_step: int | None) -> tuple[tuple[int, int, int], ...]:
    hits = [(limit, _hit(state.attempts, incident, limit)) for incident, limit in limited if not incident.benign]
    found: list[tuple[int, int, int]] = []
    best = (0, 0)
    for attempt in reversed(state.attempts):
        end = _healthy_end(state, attempt, hits, newest_step)
        best = (attempt.attempt, end) if not found or end >= best[1] else best
        found.append((attempt.attempt, *best))
    return tuple(reversed(found))


def _judge(state: RunState, found: Checkpoint, past: _Past) -> Trust:
    if found.condemned:
        return Trust(found, "damaged" if found.damaged and found.evidence != "unread" else "suspect", found.condemned)
    for incident, limit, tainted in past.unrepaired:
        if incident.rules_out(found.step) and (not incident.is_closed or found.attempt in tainted):
            return Trust(found, "suspect", _suspicion(incident, limit))
    explained_to = limit_of(found.attempt, past.limits)
    if explained_to is not None and found.step > explained_to:
        return Trust(found, "suspect", "ahead of every step seen: no stream or heartbeat came near it", is_ahead=True)
    if proof := _proof(found, past):
        return Trust(found, "proven", proof)
    if found.verified:
        return Trust(found, "verified", found.verified)
    kept = next((i for i in state.open_incidents if i.limit_step is not None and found.step >= i.limit_step), None)
    if kept is not None:
        return Trust(found, "candidate", f"saved in the probation of incident {kept.id}, in which the numbers held until a stop")
    return Trust(found, "candidate", "committed, and not looked at yet")


def _is_unrepaired(incident: Incident) -> bool:
    return incident.is_numeric and incident.state is not IncidentState.RECOVERED


def _suspicion(incident: Incident, limit: int) -> str:
    where = f"saved at or after step {limit}, the onset of incident {incident.id} ({incident.kind})"
    if not incident.is_closed:
        return f"{where}, which is {incident.state}"
    return f"{where}, which was never repaired; used all the same, for training went on from there"


def _tainted(attempts: Iterable[Attempt], incident: Incident, limit: int) -> frozenset[int]:
    """The attempts that have the onset in their past: where it was found, where it was tried to repair, and what went on from
    those at or after it."""
    found = {incident.attempt, *(t.attempt for t in incident.tries if t.attempt is not None)}
    before: Attempt | None = None
    for attempt in attempts:
        if before is not None and before.attempt in found and attempt.resumed_step >= limit:
            found.add(attempt.attempt)
        before = attempt
    return frozenset(found)


def _hit(attempts: Iterable[Attempt], incident: Incident, limit: int) -> frozenset[int]:
    """The attempts whose steps from the onset on prove nothing: what was repaired is sound in the attempt that repaired it."""
    if _is_unrepaired(incident):
        return _tainted(attempts, incident, limit)
    failed = (t.attempt for t in incident.tries if t.attempt is not None and t.outcome is not Outcome.WORKED)
    return frozenset({incident.attempt, *failed})


def _proof(found: Checkpoint, past: _Past) -> str:
    """Why it is proven; empty when it is not. Every attempt since the one that saved it has it in its past: whatever lies above
    a resume step is moved aside."""
    since = max((end for limit, end in past.healed if limit <= found.step <= end), default=found.step)
    later = past.furthest[bisect_left(past.furthest, (found.attempt,)) :][:1]
    attempt, best = later[0][1:] if later else (0, 0)
    holes = [hole for at, hole in past.holes if found.attempt <= at <= attempt]
    seen = count_seen(holes, since, best)
    if not attempt or seen < past.probation_steps:
        return ""
    return f"attempt {attempt} trained on from it to step {best} without harm, {seen} steps beyond it"


def _healthy_end(state: RunState, attempt: Attempt, hits: Sequence[tuple[int, Set[int]]], newest_step: int | None) -> int:
    """The furthest step that the attempt showed and that lies before every onset it met and did not heal from by itself. What it
    saved shows nothing: steps that nobody saw were neither well nor ill."""
    end = seen_of(state, attempt, newest_step) or 0
    return min([end, *(onset - 1 for onset, hit in hits if attempt.attempt in hit)])
