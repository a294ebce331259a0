"""Settings in force: how a rung changes them, and whether the trainer's receipt says what was asked.

The receipt is compared because a real 175B run silently reloaded old Adam betas over a changed setting (OPT logbook).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sentinel.model.attempts import Overrides, ResumePoint, SampleRange
from sentinel.model.readings import Receipt
from sentinel.plan.skip import bounded, covers, merge
from sentinel.policy.schema import Rung

EFFECTIVE = ("clip_norm", "weight_decay", "eps")  # scalars the receipt reads back under the same name
LAPSING = ("lr_scale", "clip_norm", "weight_decay", "betas", "eps", "checkpoint_interval")  # what may lapse (`until`)
CLOSE = 1e-6  # relative: float32 round trips


def for_relaunch(now: Overrides, resume_step: int, incident: int | None) -> Overrides:
    """What stays in force across a relaunch at `resume_step`: every skip, and settings that have not lapsed.

    Settings this same incident's earlier rungs made are dropped: each rung is absolute, counted from the schedule.
    """
    if incident is not None and now.incident == incident:
        return Overrides(skip=now.skip)
    lapsed = {key for key, until in now.until if until <= resume_step + 1}
    left: dict[str, Any] = dict.fromkeys(sorted(lapsed))
    return replace(now, reset_optimizer=False, until=tuple(u for u in now.until if u[0] not in lapsed), **left)


def with_rung(now: Overrides, rung: Rung, incident: int, until_step: int | None, skip: tuple[SampleRange, ...]) -> Overrides:
    """`now` with the rung's own settings laid over it."""
    changes: dict[str, Any] = {
        "lr_scale": rung.lr,
        "clip_norm": rung.clip_norm,
        "weight_decay": rung.weight_decay,
        "betas": rung.betas,
        "eps": rung.eps,
        "loss_scale": rung.loss_scale,
        "precision": rung.precision,
        "checkpoint_interval": rung.checkpoint_every_steps,
    }
    changes = {key: value for key, value in changes.items() if value is not None}
    if rung.reset_optimizer:
        changes["reset_optimizer"] = True
    lapses = tuple(u for u in now.until if u[0] not in changes)
    if until_step is not None:
        lapses += tuple((key, until_step) for key in changes if key in LAPSING)
    skips = bounded(merge((*now.skip, *skip)))
    owner = incident if changes else now.incident
    return replace(now, incident=owner, skip=skips, until=lapses, **changes)


def judge_receipt(asked: Overrides, resume: ResumePoint | None, receipt: Receipt) -> tuple[str, ...]:
    """Every difference between what was asked and what the trainer says is in force, as sentences; empty is good.

    Resuming older than asked is allowed (a damaged checkpoint is passed over) and is not reported here.
    """
    wrong: list[str] = []
    resume_step = resume.step if resume else 0
    if receipt.resume_step > resume_step:
        wrong.append(f"resumed at step {receipt.resume_step}, newer than the step {resume_step} asked for")
    digests = (resume.digest if resume else None, receipt.resume_digest)
    if receipt.resume_step == resume_step and None not in digests and digests[0] != digests[1]:
        wrong.append(f"resumed from a checkpoint of step {resume_step} with digest {digests[1]}, asked for {digests[0]}")
    said = {**receipt.overrides, **receipt.effective}  # what is read back outranks what is only repeated
    for key in EFFECTIVE:
        want = getattr(asked, key)
        if want is not None and not _close(receipt.effective.get(key), want):
            wrong.append(f"{key} is {receipt.effective.get(key)!r}, asked for {want!r}")
    if asked.betas is not None:
        got = receipt.effective.get("betas")
        if not (isinstance(got, (list, tuple)) and len(got) == 2 and all(map(_close, got, asked.betas))):
            wrong.append(f"betas are {got!r}, asked for {list(asked.betas)!r}")
    if asked.lr_scale is not None and not _close(said.get("lr_scale"), asked.lr_scale):
        wrong.append(f"lr_scale is {said.get('lr_scale')!r}, asked for {asked.lr_scale!r}")
    return (*wrong, *_judge_skip(asked, said, receipt.cursor or 0))


def _judge_skip(asked: Overrides, said: Mapping[str, Any], floor: int) -> tuple[str, ...]:
    """A receipt may clamp what lies below its cursor, so only the end of each range is held against it."""
    raw = said.get("skip")
    have = merge(found for pair in (raw if isinstance(raw, list) else []) if (found := _range_of(pair)) is not None)
    wrong = []
    for want in asked.skip:
        start = max(want.start, floor)
        if start >= want.end:
            continue
        if not covers(have, SampleRange(want.end - 1, want.end)) or (floor and not covers(have, SampleRange(start, want.end))):
            wrong.append(f"samples {want.start}..{want.end} are not in the trainer's skip list")
    return tuple(wrong)


def _range_of(pair: Any) -> SampleRange | None:
    """A range as the trainer wrote it; None for anything else, which then is a difference and no error of ours."""
    if not (isinstance(pair, (list, tuple)) and len(pair) in (2, 3) and all(type(end) is int for end in pair)):
        return None
    return SampleRange(pair[0], pair[1]) if 0 <= pair[0] < pair[1] else None


def _close(got: Any, want: float) -> bool:
    return isinstance(got, (int, float)) and not isinstance(got, bool) and math.isclose(got, want, rel_tol=CLOSE)
