"""One rung of a playbook, made absolute: which step to go back to, which samples to leave out, which settings, which actions.

`rollback: {further: 2x}` and `skip: {wider: 2x}` are read against the rungs above them in the same playbook, always from
the incident's own onset, so that the third rung means the same whether or not the second was ever tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sentinel.client.settings import SETTINGS
from sentinel.model.actions import Action
from sentinel.model.attempts import ResumePoint, SampleRange, SettingsInForce
from sentinel.model.incidents import Incident, Remedy
from sentinel.model.state import Checkpoint
from sentinel.plan.ahead import AHEAD_STEPS
from sentinel.plan.overrides import for_relaunch, reseeded, with_rung
from sentinel.plan.rollback import RollbackTarget, choose_before, choose_newest
from sentinel.plan.sample_attribution import CONTROLS, SAMPLES_MAX
from sentinel.plan.skip import merge, window
from sentinel.policy.rung_words import Acts, Case
from sentinel.policy.schema import Rung
from sentinel.policy.schema_rungs import WORDS

GUILTY_WITHIN_S = 1800.0  # an inspection without `within` of its own
RANGES_LISTED = 6
DEFAULT_MARGIN_STEPS = 1  # `further` with no rollback above it to extend


@dataclass(frozen=True, slots=True)
class InspectionPlan:
    """Samples to be looked at before the launch: `suspect`, and in `samples` some before it to compare with. `overrides`: what
    is in force without the rung's own skip."""

    rung: int
    samples: tuple[SampleRange, ...]
    suspect: SampleRange
    overrides: SettingsInForce
    within_s: float


@dataclass(frozen=True, slots=True)
class Treatment:
    """A remedy with everything a launch (or a live change) needs. Until `inspection` is answered, the whole window is skipped.
    `actions`: those that words of the rung add to its plan."""

    remedy: Remedy
    relaunch: bool
    resume: ResumePoint | None
    overrides: SettingsInForce
    inspection: InspectionPlan | None = None
    actions: tuple[Action, ...] = ()


def margin_steps(rungs: Sequence[Rung], index: int) -> int:
    """Steps before the onset that rung `index` goes back: the last `before_onset`, times every `further` since."""
    margin = float(DEFAULT_MARGIN_STEPS)
    for rung in rungs[: index + 1]:
        if rung.rollback is None:
            continue
        if rung.rollback.before_onset_steps is not None:
            margin = float(rung.rollback.before_onset_steps)
        else:
            margin *= rung.rollback.further or 1.0
    return round(margin)


def skip_window(rungs: Sequence[Rung], index: int, incident: Incident, data_seed: int | None = None) -> SampleRange | None:
    """The sample window rung `index` leaves out, or None when it skips nothing or the place in the data is unknown: in the
    order of another seed than the incident's, its samples lie anywhere."""
    if rungs[index].skip is None or incident.samples is None or incident.samples.data_seed != data_seed:
        return None
    base, widen = None, 1.0
    for rung in rungs[: index + 1]:
        if rung.skip is None:
            continue
        if rung.skip.from_ is not None and rung.skip.to is not None:
            base, widen = (rung.skip.from_, rung.skip.to), 1.0
        else:
            widen *= rung.skip.wider or 1.0
    if base is None:
        return None
    first, last = base
    return window(incident.samples, (first.anchor, first.offset_steps), (last.anchor, last.offset_steps), widen)


def choose_checkpoint(
    rungs: Sequence[Rung],
    index: int,
    incident: Incident,
    checkpoints: Iterable[Checkpoint],
    open_incidents: Iterable[Incident],
) -> RollbackTarget:
    """Where rung `index` starts from: never past the onset of any open numeric incident, this one's or another's. How far it goes
    back is counted from its own onset alone: what another one asked for is not asked for here. A checkpoint far ahead of every
    step seen is taken, and said to be so."""
    numeric = [i for i in open_incidents if i.limit_step is not None]
    if not 0 <= index < len(rungs) or rungs[index].rollback is None:
        newest = choose_newest(checkpoints, numeric)
        far = newest.step - incident.break_step
        ahead = f"; {far} steps ahead of step {incident.break_step}, the newest that was seen" if far > AHEAD_STEPS else ""
        return RollbackTarget(newest.checkpoint, newest.reason + ahead)
    known = tuple(checkpoints)
    others = [i for i in numeric if i.id != incident.id]
    left = [c for c in known if not any(other.rules_out(c.step) for other in others)]
    onset = incident.onset_step if incident.onset_step is not None else incident.break_step + 1
    alone, found = (choose_before(these, onset, margin_steps(rungs, index), incident.limit_step) for these in (known, left))
    if found.checkpoint == alone.checkpoint:
        return found
    first = min(others, key=lambda other: other.limit_step or 0)
    whom = f"incident {first.id} ({first.kind}, {first.state.words})"
    held = f"held back by {whom}, which rules out step {first.limit_step} and later"
    return RollbackTarget(found.checkpoint, f"{found.reason}; {held}")


def build_treatment(
    rungs: Sequence[Rung],
    index: int,
    incident: Incident,
    *,
    checkpoints: Iterable[Checkpoint],
    open_incidents: Iterable[Incident],
    in_force: SettingsInForce,
    is_alive: bool,
    new_seed: int | None = None,
    spare: int = 0,
    lapses: bool = True,
    attempt: int | None = None,
) -> Treatment:
    """What rung `index` means for this incident, now. A rung that nothing binds to a launch is carried out live where a trainer
    lives. `new_seed`: of the data order that `reseed_data` begins. `spare`: so much later than sentinel a trainer lapses its
    settings by itself. `lapses`: whether a setting can lapse while the trainer runs. `attempt`: the newest.
    """
    rung = rungs[index]
    relaunch = rung.does("relaunches") or any(WORDS[word].needs_launch for word in rung.parts) or not is_alive
    choice = choose_checkpoint(rungs, index, incident, checkpoints, open_incidents) if relaunch else None
    found = skip_window(rungs, index, incident, in_force.data_seed)
    skip = merge([found]) if found else ()
    until = incident.break_step + rung.lapse_steps if rung.lapse_steps is not None else None
    resume = None
    base = for_relaunch(in_force, choice.step if choice else incident.break_step, incident.id)
    if choice is not None and choice.checkpoint is not None:
        resume = ResumePoint(choice.checkpoint.step, choice.checkpoint.path, choice.checkpoint.digest)
    if rung.reseed_data:
        base = reseeded(base, new_seed)
    unskipped = with_rung(base, rung, incident.id, until, (), spare)
    inspection = _inspection(rung, index, incident, found, unskipped) if resume is not None else None
    if found and rung.skip and rung.skip.only and incident.attributed_rung == index and incident.attribution is not None:
        skip = incident.attribution.ranges or skip  # looked at before a stop broke the launch off
    overrides = with_rung(base, rung, incident.id, until, skip, spare)
    reason = _reason(rung, choice, skip, _end(until, lapses), incident.blamed_node, inspection)
    changed = dict(rung.settings)
    if rung.reseed_data:
        changed["data_seed"] = overrides.data_seed
        reason += f"; {SETTINGS['data_seed'].remedy(overrides.data_seed)}"
    remedy = Remedy(
        rung=index,
        words=rung.keys,
        reason=reason,
        rollback_to_step=choice.step if choice else None,
        skip=skip,
        live=not relaunch,
        **changed,
    )
    return Treatment(remedy, relaunch, resume, overrides, inspection, _actions(rung, Case(incident.id, index, attempt)))


def _actions(rung: Rung, case: Case) -> tuple[Action, ...]:
    """What words of the rung add to its plan, in the order of the language."""
    added: list[Action] = []
    for word, value in rung.values.items():
        if isinstance(by := WORDS[word].by, Acts):
            added += by.actions(value, case)
    return tuple(added)


def _inspection(
    rung: Rung, index: int, incident: Incident, window: SampleRange | None, base: SettingsInForce
) -> InspectionPlan | None:
    """The inspection that `only: guilty` needs; None where there is none to make, or it was made for this very rung."""
    if window is None or rung.skip is None or rung.skip.only is None or incident.attributed_rung == index:
        return None
    if window.end - window.start > SAMPLES_MAX:
        return None
    samples = SampleRange(max(0, window.start - CONTROLS), window.end)
    return InspectionPlan(index, (samples,), window, base, rung.skip.within_s or GUILTY_WITHIN_S)


def _reason(
    rung: Rung,
    choice: RollbackTarget | None,
    skip: tuple[SampleRange, ...],
    end: str,
    node: str,
    inspection: InspectionPlan | None = None,
) -> str:
    parts = [f"{'roll back to' if rung.rollback else 'resume from'} the {choice.reason}" if choice and choice.checkpoint else ""]
    if choice and not choice.checkpoint:
        parts = [choice.reason]
    if inspection is not None:
        parts.append(f"skip the guilty of samples {inspection.suspect.start}..{inspection.suspect.end}")
    else:
        parts += [f"skip samples {r.start}..{r.end}" for r in skip[:RANGES_LISTED]]
        parts += [f"and {len(skip) - RANGES_LISTED} more ranges"] if len(skip) > RANGES_LISTED else []
    if rung.skip and not skip:
        parts.append("skip nothing (the place in the data is unknown)")
    elif rung.skip and rung.skip.only and choice is not None and choice.checkpoint is None:
        parts.append("all of them, for untrained weights tell nothing of a sample")
    elif rung.skip and rung.skip.only and inspection is None and skip[0].end - skip[0].start > SAMPLES_MAX:
        parts.append(f"all of them, for more than {SAMPLES_MAX} samples are not looked at one by one")
    if rung.exclude is not None:
        parts.insert(0, f"leave out node {node}" if node else "leave out the blamed node")
    parts += [SETTINGS[key].remedy(value) for key, value in rung.settings.items()]
    parts += [_phrase(word, value) for word, value in rung.values.items()]
    return "; ".join(p for p in (*parts, end) if p)


def _end(until: int | None, lapses: bool) -> str:
    """How long the settings of the rung hold; empty where it does not say."""
    if until is None:
        return ""
    if lapses:
        return f"until step {until}"
    return f"until a relaunch from step {until - 1} or later: nothing changes this trainer while it runs"


def _phrase(word: str, value: object) -> str:
    """What the row of the word says. Empty where a setting, or the code above, says it. An action without a phrase: its word."""
    row = WORDS[word]
    return row.phrase.format(value) if row.phrase else word if isinstance(row.by, Acts) else ""
