"""The ordered actions of a recovery plan. Each is decided when the one before it is confirmed.

Evidence is taken before it is lost, nothing is resumed that was not verified, and whatever lies above the resume step is
moved aside before the launch, so that the new attempt finds its own checkpoint names free. Keys say what is done to what,
so the same intention always has the same key.
"""

from __future__ import annotations

from sentinel.model.actions import (
    Action,
    Capture,
    CheckNodes,
    FindCheckpoints,
    InspectSamples,
    KillAttempt,
    Quarantine,
    StartAttempt,
    VerifyCheckpoint,
    WriteOverrides,
)
from sentinel.model.attempts import ChangePurpose, ResumePoint, SettingsInForce
from sentinel.plan.verifying import verify_key


def build_relaunch(
    *,
    incident: int | None,
    old_attempt: int | None,
    is_alive: bool,
    new_attempt: int,
    resume: ResumePoint | None,
    overrides: SettingsInForce,
    not_before_s: float,
    reason: str,
    inspect: InspectSamples | None = None,
    exclude_nodes: tuple[str, ...] = (),
    more: tuple[Action, ...] = (),
    finds: bool = False,
    verify: VerifyCheckpoint | None = None,
    check: CheckNodes | None = None,
) -> tuple[Action, ...]:
    """Capture, kill, find, verify, inspect and end that, quarantine, check, start: those of them that apply, in this order.
    Quarantine comes after the inspection: a trainer that trained instead may have left checkpoints. `more`: what the rung adds,
    each at its place. `finds`: which checkpoints there are is not known, and is read when nothing writes one any more. `verify`:
    how that of `resume` is; without it every byte is read.
    """
    actions: list[Action] = []
    if incident is not None and old_attempt is not None:
        actions.append(Capture(f"capture/{incident}/{new_attempt}", incident, old_attempt))
    actions += [action for action in more if action.place == "before the stop"]
    if is_alive and old_attempt is not None:
        actions.append(KillAttempt.of(old_attempt))
    if finds:
        actions.append(FindCheckpoints(f"find/{new_attempt}"))
    if resume is not None:
        actions.append(verify or VerifyCheckpoint(verify_key(new_attempt, resume.step), resume.step, resume.path))
    if inspect is not None:
        actions += [inspect, KillAttempt.of(inspect.attempt)]
    if old_attempt is not None:
        actions.append(Quarantine(f"quarantine/{new_attempt}", old_attempt, resume.step if resume else 0, reason))
    actions += [action for action in more if action.place == "before the launch"]
    if check is not None:
        actions.append(check)
    actions.append(StartAttempt(f"start/{new_attempt}", new_attempt, resume, overrides, not_before_s, exclude_nodes))
    return tuple(actions)


def build_live_change(
    attempt: int,
    overrides: SettingsInForce,
    step: int,
    before: SettingsInForce | None = None,
    purpose: ChangePurpose = "remedy",
    more: tuple[Action, ...] = (),
    writes: bool = True,
) -> tuple[Action, ...]:
    """A change without a relaunch: what the rung adds, then write the settings; the trainer's `override_applied` is the proof.
    `writes`: whether there are any to write."""
    write = WriteOverrides(f"override/{overrides.id}", attempt, overrides, step, before, purpose)
    return (*more, write) if writes or not more else more
