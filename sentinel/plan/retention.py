"""Which checkpoints are given up, and why each of the others is kept.

Kept are the newest `last` good ones, those at a multiple of `every` for ever, and whatever a rollback may need: the newest that
was read whole and held, with all younger, and the newest `last` of such ones: what nobody has read may be zeros of the right
size, and that training goes on past it (*proven*) says nothing about its bytes. Further the newest proven one, the newest trusted
one and all younger (nobody knows yet how good they are), the one the newest attempt began with, and all within reach
of the deepest rollback of the policy, with one at or below it. An onset is dated back, so the reach
counts from `onset_lookback` before the newest, or before the newest step seen where that is less: no incident is found beyond it.
What is condemned is evidence, and waits for the next relaunch to be moved aside. What is ahead of every step seen stays, and
counts as none of the newest.

What nobody has read is therefore never a reason to delete what was read. Where that alone stands in the way of a deletion, one of
those that stay is read first (`choose_anchor`).

What was saved after an onset that a playbook let go on (`keep_training`) is suspect for good, and training goes on with it: such
checkpoints are counted by themselves, so that neither they crowd out the good ones of before nor a disk fills with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sentinel.model.state import Checkpoint, RunState
from sentinel.plan.remedy import margin_steps
from sentinel.plan.trust import Trust
from sentinel.policy.schema import Policy

ANCHORS_MAX = 8
SOURCES = ("metrics", "checkpoints", "step lines")  # blind in one of them, nobody knows that the run is healthy


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """What to keep: so many of the newest, every one at a multiple of `every_steps`, and what lies within `reach_steps`."""

    last: int
    every_steps: int | None
    reach_steps: int


@dataclass(frozen=True, slots=True)
class Retained:
    """`prune`: it is given up. `reason` is a sentence for a person either way. `sound`: path of the newest of its kind that was
    read whole and held; empty: none was."""

    checkpoint: Checkpoint
    prune: bool
    reason: str
    sound: str = ""


def rule_of(policy: Policy) -> RetentionRule | None:
    """What the policy asks for; None where sentinel deletes nothing."""
    retain = policy.spec.checkpoints.retain
    if retain is None:
        return None
    return RetentionRule(retain.last, retain.every_steps, reach_of(policy))


def reach_of(policy: Policy) -> int:
    """Steps behind the newest that a rollback may ask for: the deepest of the policy, of an onset that is dated back."""
    books = policy.spec.playbooks.values()
    depths = [margin_steps(rungs, at) for rungs in books for at, rung in enumerate(rungs) if rung.rollback is not None]
    return max(depths, default=0) + policy.spec.detectors.onset_lookback_steps


def why_not_now(state: RunState) -> str:
    """Why nothing may be deleted at present; empty when the run is healthy, and nothing is under way."""
    attempt = state.attempt
    if state.observe_only or state.paused:
        return f"sentinel is paused by {state.paused}" if state.paused else "sentinel only observes this run"
    if state.ended or state.held or state.hold_by or state.stop_by or state.giving_up or state.plan is not None:
        return "the run is being started, changed or ended, or has ended"
    for incident in state.open_incidents:
        return f"incident {incident.id} ({incident.kind}) is in {incident.state}"
    if attempt is None or attempt.is_over or attempt.stopping or attempt.first_step is None:
        return "no attempt trains"
    blind = [source for source in SOURCES if source in state.blind]
    return f"sentinel is blind for {blind[0]}" if blind else ""


def is_sound(found: Checkpoint) -> bool:
    """It was read whole, its bytes matched and its values were finite; what was read is remembered."""
    return found.is_remembered and bool(found.verified) and not found.condemned


def judge_retention(
    trusts: Iterable[Trust], rule: RetentionRule, began_with: int, seen_step: int | None, as_if_read: bool = False
) -> tuple[Retained, ...]:
    """The word over every checkpoint that lies in checkpoints/, by step. `began_with`: the step that the newest attempt resumed
    from, 0 for none. `seen_step`: the newest that a stream has shown; None, where it is not known, gives up none. Whether
    anything may be deleted now is not asked (`why_not_now`). `as_if_read`: what it would be, had all that is good been read."""
    there = sorted((t for t in trusts if t.word not in ("quarantined", "pruned")), key=lambda t: t.checkpoint.step)
    usable = [t for t in there if not t.checkpoint.condemned and not t.is_ahead]
    good, let_go = [t for t in usable if t.word != "suspect"], [t for t in usable if t.word == "suspect"]
    newest = {t.checkpoint.step for group in (good, let_go) for t in group[-rule.last :]}
    kinds = {kind: _Sound.of(group, rule.last, as_if_read) for kind, group in ((True, good), (False, let_go))}
    proven = max((t.checkpoint.step for t in good if t.word == "proven"), default=None)
    trusted = max((t.checkpoint.step for t in good if t.word in ("proven", "verified")), default=0)
    floor = _floor([t.checkpoint.step for t in usable], rule.reach_steps, seen_step)

    def why_kept(trust: Trust) -> str:
        step, every = trust.checkpoint.step, rule.every_steps
        if trust.checkpoint.condemned:
            return "condemned: kept as evidence, and moved aside at the next relaunch below it"
        if trust.is_ahead:
            return "ahead of every step seen: it counts as none of the newest, and a person decides about it"
        if seen_step is None:
            return "which steps the run was seen to make is not known, and so not how far a rollback may reach"
        if every is not None and step % every == 0:
            return f"a multiple of {every} steps: kept for ever"
        if step in newest:
            return f"one of the newest {rule.last}"
        if step == proven:
            return "the newest that is proven"
        if trust.word != "suspect" and step >= trusted:
            return "the newest that is trusted" if step == trusted else "younger than the newest that is trusted"
        if step == began_with:
            return "the newest attempt began with it"
        if step >= floor:
            return f"within reach of a rollback ({rule.reach_steps} steps)"
        if sound := kinds[trust.word != "suspect"].why_kept(step):
            return sound
        if trust.checkpoint.digest is None:
            return "the digest of its manifest is not on record"
        return ""

    return tuple(
        Retained(t.checkpoint, not (why := why_kept(t)), why or _why_pruned(rule), kinds[t.word != "suspect"].path) for t in there
    )


@dataclass(frozen=True, slots=True)
class _Sound:
    """What was read whole and held, of those that are good, or of those that a playbook let go on. `step`: of the newest, None
    where there is none; `path` of it. `steps`: of the newest `last`."""

    last: int
    step: int | None
    path: str
    steps: frozenset[int]

    @classmethod
    def of(cls, group: Sequence[Trust], last: int, as_if_read: bool) -> _Sound:
        sound = [t.checkpoint for t in group if as_if_read or is_sound(t.checkpoint)][-last:]
        newest = sound[-1] if sound else None
        path, step = ("", None) if newest is None else (newest.path, newest.step)
        return cls(last, step, path, frozenset(found.step for found in sound))

    def why_kept(self, step: int) -> str:
        if self.step is None:
            return "no younger one was read whole yet"
        if step > self.step:
            return f"younger than the newest that was read whole and held, that of step {self.step}"
        if step == self.step:
            return "the newest that was read whole and held"
        return f"one of the newest {self.last} that were read whole and held" if step in self.steps else ""


def choose_anchor(judged: Iterable[Retained], as_if_read: Iterable[Retained], skip: int = 0) -> Checkpoint | None:
    """The checkpoint to read whole so that more can be deleted: the newest unread one of those that stay then. None where reading
    changes nothing. `skip`: so many of the newest are left out, for somebody else reads them, or they were written just now."""
    now, then = tuple(judged), tuple(as_if_read)
    waiting = [n.checkpoint.step for n, t in zip(now, then, strict=True) if t.prune and not n.prune]
    staying = [t.checkpoint for t in then if not t.prune and not t.checkpoint.condemned][: -skip or None]
    newest_sound = max((found.step for found in staying if is_sound(found)), default=0)
    above = max(newest_sound, min(waiting, default=0))
    unread = [c for c in staying if c.step > above and not is_sound(c) and c.digest is not None]
    return unread[-1] if waiting and unread else None


def choose_to_prune(retained: Iterable[Retained]) -> Retained | None:
    """The oldest one that is given up; one that could not be deleted comes behind the others."""
    return min((r for r in retained if r.prune), key=lambda r: (r.checkpoint.unpruned_s or 0.0, r.checkpoint.step), default=None)


def anchors_of(judged: Iterable[Retained], last: int) -> tuple[str, ...]:
    """Paths of the newest good ones that stay. Before any other is deleted it is asked whether all their files are there: a
    trainer that writes empty ones would else be left with nothing."""
    good = [one.checkpoint for one in judged if not one.prune and not one.checkpoint.condemned]
    return tuple(one.path for one in good[-min(last, ANCHORS_MAX) :])


def _floor(steps: Sequence[int], reach_steps: int, seen_step: int | None) -> int:
    """The newest of these that lies at or below the deepest place a rollback may ask for; everything from it on is kept."""
    deepest = min(max(steps, default=0), seen_step or 0) - reach_steps
    return max((step for step in steps if step <= deepest), default=0)


def _why_pruned(rule: RetentionRule) -> str:
    multiple = f", at no multiple of {rule.every_steps} steps" if rule.every_steps is not None else ""
    return f"older than the newest {rule.last}{multiple}, out of reach of any rollback"
