"""Settings in force: how a rung changes them, and whether the trainer's receipt says what was asked.

The receipt is compared because a real 175B run silently reloaded old Adam betas over a changed setting (OPT logbook).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sentinel.client.settings import LAPSING, ONCE, SETTINGS
from sentinel.model.attempts import PERSON, Decay, ResumePoint, SampleRange, SettingsInForce
from sentinel.model.drawn import draw
from sentinel.model.readings import Receipt
from sentinel.plan.skip import bounded, covers, merge
from sentinel.policy.schema import Rung

FIRST = 1  # the number of a run's first attempt


def for_relaunch(now: SettingsInForce, resume_step: int, incident: int | None) -> SettingsInForce:
    """What stays in force across a relaunch at `resume_step`: every skip, and settings that have not lapsed.

    What this same incident's earlier rungs set is dropped: each rung is absolute, counted from the schedule. What another
    incident's remedy or a person set stays until it lapses, or a rung sets the same key.
    """
    gone = {key for key, until in now.until if until <= resume_step + 1}
    gone |= {key for key, owner in now.owners if owner == incident}
    if now.once_step is None or resume_step > now.once_step:
        gone |= {*ONCE, "once_step"}  # the checkpoint has it in it
    return without(now, gone)


def without(now: SettingsInForce, gone: Collection[str]) -> SettingsInForce:
    """`now` less some settings: as the trainer's own configuration has them."""
    left: dict[str, Any] = {key: SETTINGS[key].nothing if key in SETTINGS else None for key in sorted(gone)}
    owners = tuple(o for o in now.owners if o[0] not in gone)
    until = tuple(u for u in now.until if u[0] not in gone)
    decay = tuple(d for d in now.decay if d.key not in gone)
    held_by = [owner for _, owner in owners if owner != PERSON]
    return replace(now, incident=held_by[-1] if held_by else None, until=until, owners=owners, decay=decay, **left)


def draw_data_seed(run_id: str, incident: int, attempt: int) -> int:
    """The seed of a new data order: the same for the same launch, on every machine, and hardly ever drawn before."""
    return draw(run_id, incident, attempt) >> 1


def reseeded(now: SettingsInForce, data_seed: int | None) -> SettingsInForce:
    """`now` with a new data order from the resume point on. It stays for good. What was to be skipped counted in the order
    before it, which is in force at no sample that is still to come, so it is taken out: in the new order it means others.
    """
    return replace(now, data_seed=data_seed, skip=())


def done_once_at(wanted: SettingsInForce, step: int) -> SettingsInForce:
    """Settings as they are launched, or written, at `step`: what is done once is known to be done there."""
    once = any(SETTINGS[key].is_asked(getattr(wanted, key)) for key in ONCE)
    return replace(wanted, once_step=step) if once and wanted.once_step is None else wanted


def with_rung(
    now: SettingsInForce, rung: Rung, incident: int, until_step: int | None, skip: tuple[SampleRange, ...], spare: int = 0
) -> SettingsInForce:
    """`now` with the rung's own settings laid over it; `spare` as in `laid_over`."""
    wanted = SettingsInForce(skip=skip, **rung.settings)
    return laid_over(now, wanted, rung.settings, incident, until_step, rung.lapse_steps or 0, spare)


def laid_over(
    now: SettingsInForce,
    wanted: SettingsInForce,
    keys: Collection[str],
    owner: int,
    until_step: int | None,
    wait: int = 0,
    spare: int = 0,
) -> SettingsInForce:
    """`now` with `keys` of `wanted` (None: as configured) and its skip list laid over it, for an incident or a PERSON.

    `wait`: steps they are to hold, for sentinel to take them back itself from `until_step` on; the trainer's own lapse is `spare`
    steps later. 0: nobody but the trainer takes them back.
    """
    values: dict[str, Any] = {key: getattr(wanted, key) for key in keys}
    now = without(now, keys)
    set_now = [key for key, value in values.items() if SETTINGS[key].is_asked(value)]
    lapsing = [key for key in set_now if key in LAPSING and until_step is not None]
    until = tuple((key, (until_step or 0) + spare) for key in lapsing)
    decay = tuple(Decay(key, until_step or 0, wait) for key in lapsing if wait)
    if any(key in ONCE for key in set_now):
        values["once_step"] = None
    return replace(
        now,
        incident=now.incident if owner == PERSON or not set_now else owner,
        skip=bounded(merge((*now.skip, *wanted.skip))),
        until=(*now.until, *until),
        owners=(*now.owners, *((key, owner) for key in set_now)),
        decay=(*now.decay, *decay),
        **values,
    )


def judge_receipt(asked: SettingsInForce, resume: ResumePoint | None, receipt: Receipt) -> tuple[str, ...]:
    """Every difference between what was asked and what the trainer says is in force, as sentences; empty is good.

    Resuming older than asked is allowed (a damaged checkpoint is passed over) and is not reported here, but for a trainer under a
    profile that `begins_anew`.
    """
    wrong: list[str] = []
    resume_step = resume.step if resume else 0
    # Its own checkpoints: those of before the run; of a trainer that finds them by itself, those of any launch.
    adopts = receipt.adopted and resume is None and (receipt.attempt == FIRST or receipt.profile is not None)
    if receipt.resume_step > resume_step and not adopts:
        wrong.append(f"resumed at step {receipt.resume_step}, newer than the step {resume_step} asked for")
    if begins_anew(resume, receipt):
        wrong.append(
            f"its steps begin at the beginning, asked to resume from step {resume_step}: it ignores how the profile "
            f"{receipt.profile} asks for that, or numbers its steps anew after a resume, and then nobody can tell where it is"
        )
    digests = (resume.digest if resume else None, receipt.resume_digest)
    if receipt.resume_step == resume_step and None not in digests and digests[0] != digests[1]:
        wrong.append(f"resumed from a checkpoint of step {resume_step} with digest {digests[1]}, asked for {digests[0]}")
    repeated = {**receipt.overrides, **receipt.effective}  # what is read back outranks what is only repeated
    for key, row in SETTINGS.items():
        want = getattr(asked, key)
        if row.proof is not None and row.is_asked(want):
            reported = repeated if row.proof == "repeated" or receipt.profile is not None else receipt.effective
            wrong.append(row.difference(reported.get(key), want))
    return (*filter(None, wrong), *_judge_skip(asked, repeated, receipt.cursor or 0))


def begins_anew(resume: ResumePoint | None, receipt: Receipt) -> bool:
    """A trainer under a profile shows its first steps where it was to go on from a checkpoint. What it would save now replaces
    what earlier attempts saved under the same numbers."""
    return receipt.profile is not None and resume is not None and receipt.resume_step == 0 < resume.step


def judge_effective(asked: SettingsInForce, effective: Mapping[str, Any]) -> tuple[str, ...]:
    """The same for the answer to a live change. A key the trainer does not read back is not held against it here."""
    wrong: list[str] = []
    for key, row in SETTINGS.items():
        want = getattr(asked, key)
        if row.proof is not None and row.changes == "live" and row.is_asked(want) and key in effective:
            wrong.append(row.difference(effective[key], want))
    return tuple(filter(None, wrong))


def _judge_skip(asked: SettingsInForce, repeated: Mapping[str, Any], floor: int) -> tuple[str, ...]:
    """A receipt may clamp what lies below its cursor, so only the end of each range is held against it."""
    have = ranges_of(repeated.get("skip"), asked.data_seed)
    wrong = []
    for want in asked.skip:
        start = max(want.start, floor)
        if start >= want.end:
            continue
        if not covers(have, SampleRange(want.end - 1, want.end)) or (floor and not covers(have, SampleRange(start, want.end))):
            wrong.append(f"samples {want.start}..{want.end} are not in the trainer's skip list")
    return tuple(wrong)


def ranges_of(value: object, data_seed: int | None = None) -> tuple[SampleRange, ...]:
    """What a receipt says that it leaves out, merged; of what is no range nothing."""
    pairs = value if isinstance(value, list) else []
    return merge(found for pair in pairs if (found := _range_of(pair, data_seed)) is not None)


def _range_of(pair: Any, data_seed: int | None) -> SampleRange | None:
    """A range as the trainer wrote it; None for anything else, which then is a difference and no error of ours, and for one
    of another order."""
    if not (isinstance(pair, (list, tuple)) and len(pair) in (2, 3) and all(type(end) is int for end in pair)):
        return None
    if len(pair) == 3 and data_seed is not None and pair[2] != data_seed:
        return None
    return SampleRange(pair[0], pair[1]) if 0 <= pair[0] < pair[1] else None
