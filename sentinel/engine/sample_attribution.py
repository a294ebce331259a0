"""A rung whose skip says `only: guilty`: the plan inspects the samples of its window before it launches the next attempt.

This module runs the inspection and acts on its result; `plan/sample_attribution.py` judges the samples. The inspection is an
action of the plan, `InspectSamples`: submitted under its key until its attempt has ended, by whichever supervisor lives. Then the
plan goes on: it skips the guilty samples, or the whole window where there are none, the inspection failed, or its time is up. The
plan's next action ends every process of the inspection, so that nothing of it lives when training does.
"""

from __future__ import annotations

from dataclasses import replace

from sentinel.engine.decision import Decision
from sentinel.engine.relaunching import proceed
from sentinel.model import facts as f
from sentinel.model.actions import Action, InspectSamples, StartAttempt
from sentinel.model.amounts import time_words
from sentinel.model.attempts import SampleRange
from sentinel.model.records import Attribution
from sentinel.plan.skip import bounded, merge


def conclude(decision: Decision, action: InspectSamples, found: Attribution) -> None:
    """The answer is there (or there is none): write it down, and go on with what it leads to. The action is confirmed or
    abandoned already."""
    decision.record(f.Attributed(action.incident, action.rung, found))
    _go_on(decision, action, found.reason, found.ranges if found.verdict == "guilty" else ())


def on_tick(decision: Decision) -> None:
    """On every tick: an inspection that takes too long is given up, and nobody waits for it any more."""
    action, under_way = pending_inspection(decision), decision.state.inspection
    if action is None or under_way is None or decision.now_s - under_way.launched_s < action.within_s:
        return
    reason = f"the inspection was not done within {time_words(action.within_s)}"
    decision.record(f.ActionAbandoned(action.key, reason))
    conclude(decision, action, Attribution("failed", reason, action.attempt, action.suspect))


def break_off(decision: Decision, reason: str) -> bool:
    """A stop does not wait for an inspection. Nothing is concluded: the rung looks again when it is taken up again."""
    action = pending_inspection(decision)
    if action is None:
        return False
    decision.record(f.ActionAbandoned(action.key, reason))
    _go_on(decision, action, f"not looked at, {reason}", ())
    return True


def pending_inspection(decision: Decision) -> InspectSamples | None:
    """The one under way, if one is."""
    plan = decision.state.plan
    action = plan.actions[plan.next] if plan is not None else None
    return action if isinstance(action, InspectSamples) and action.key in decision.state.pending else None


def _go_on(decision: Decision, action: InspectSamples, why: str, convicted: tuple[SampleRange, ...]) -> None:
    """The rest of the plan: only the convicted samples are skipped, or the whole window where there are none."""
    plan = decision.state.plan
    if plan is None or action not in plan.actions:
        return
    left = plan.actions[plan.actions.index(action) + 1 :]
    if convicted:
        left = tuple(_narrowed(one, action, convicted) for one in left)
        reason = f"{plan.reason}; {why}; skip {describe_samples(convicted)}"
    else:
        reason = f"{plan.reason}; {why}; so all of {describe_samples((action.suspect,))} are skipped"
    decision.record(f.PlanAdopted(plan.incident, left, reason))
    proceed(decision)


def _narrowed(one: Action, action: InspectSamples, convicted: tuple[SampleRange, ...]) -> Action:
    if not isinstance(one, StartAttempt):
        return one
    skip = bounded(merge((*action.overrides.skip, *convicted)))
    return replace(one, overrides=replace(one.overrides, skip=skip))


RANGES_SHOWN_MAX = 6


def describe_samples(ranges: tuple[SampleRange, ...]) -> str:
    """Samples as words, cut short where they are many."""
    words = ", ".join(f"{one.start}..{one.end}" for one in ranges[:RANGES_SHOWN_MAX])
    more = f" and {len(ranges) - RANGES_SHOWN_MAX} more ranges" if len(ranges) > RANGES_SHOWN_MAX else ""
    return f"samples {words}{more}"
