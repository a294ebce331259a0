"""What the interventions cost the schedule: steps under other settings, full-rate steps lost, data left out, steps thrown away.

Read from the journal's facts. Only steps that survive count as trained under a setting; what was abandoned is thrown away as a
whole. A live change counts from the step the trainer says, and a setting until it lapsed, by whomever. A trainer under a profile
keeps what it was launched with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sentinel.client.settings import BY_WORD
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.amounts import lost_words
from sentinel.model.attempts import SettingsInForce
from sentinel.model.facts import Fact
from sentinel.plan.overrides import without
from sentinel.report.lineage import Branch


@dataclass(slots=True)
class Segment:
    """From `first` on the attempt trained under `settings`, until the next segment; `name` is that of the request."""

    first: int
    settings: SettingsInForce
    name: str = ""
    is_answered: bool = False


@dataclass(slots=True)
class Timeline:
    """What was in force in one attempt, oldest first. What it was launched with stays, whatever takes its place at once: a change
    that is refused gives it back."""

    segments: list[Segment] = field(default_factory=list)

    def begin(self, first: int, settings: SettingsInForce, name: str = "") -> None:
        kept = [known for known in self.segments[1:] if known.first < first or known.name == name == ""]
        self.segments = [*self.segments[:1], *kept, Segment(first, settings, name)]


class SettingsHistory:
    """What was in force when, folded from a run's facts one by one."""

    def __init__(self) -> None:
        self._timelines: dict[int, Timeline] = {}
        self._writes: dict[str, a.WriteOverrides] = {}
        self._lapses: list[dict[str, Any]] = []
        self._has_profile = False
        self._is_lost_known = True  # how many steps each relaunch threw away, to the step

    def take(self, fact: Fact) -> None:
        known, writes = self._timelines, self._writes
        match fact:
            case f.SupervisorTookOver(settable=settable):
                self._has_profile = settable is not None
            case f.AttemptLaunched(attempt=number, resume=resume, overrides=settings):
                settings = replace(settings, until=()) if self._has_profile else settings
                known[number] = Timeline([Segment(resume.step + 1 if resume else 1, settings)])
            case f.ReceiptSeen(attempt=number, resumed_step=step) if number in known:
                known[number].segments[0] = replace(known[number].segments[0], first=step + 1)
            case f.ActionDecided(action=a.WriteOverrides() as write):
                writes[write.key] = write
            case f.ActionConfirmed(key=key) if key in writes and writes[key].attempt in known:
                write = writes[key]
                known[write.attempt].begin(write.step + 1, write.overrides, write.overrides.id)
            case f.OverridesAnswered(attempt=number, id=name, step=step) if number in known:
                _answered(known[number], fact, name, step)
            case f.StepsLost(unseen=unseen) if unseen != 0:
                self._is_lost_known = False
            case f.SettingLapsed():
                self._lapsed(fact)
            case f.LapseJudged() if self._lapses and not self._lapses[-1]["outcome"]:
                self._lapses[-1] |= {"outcome": fact.outcome, "verdict": fact.reason}
            case _:
                pass

    def document(self, branches: Sequence[Branch], tokens_per_sample: float | None) -> dict[str, Any]:
        """The ledger of a run, as `sentinel status --json` has it under `schedule`. `branches`: its lineage.
        `full_rate_steps_lost`: the sum of 1 - lr_scale over the surviving steps; negative where the rate was raised.
        `skipped_tokens` None: the trainer does not say. `steps_thrown_away_exact` false: there may be more."""
        under = {row.key: 0 for row in BY_WORD.values()}
        lost = 0.0
        for branch in branches:
            for first, last, settings in _surviving(branch, self._timelines[branch.attempt]):
                for key, steps in _held(settings, first, last).items():
                    under[key] += steps
                    lost += steps * (1.0 - (settings.lr_scale or 1.0)) if key == "lr_scale" else 0.0
        segments = [segment for timeline in self._timelines.values() for segment in timeline.segments]
        samples = _covered((range_.start, range_.end) for segment in segments for range_ in segment.settings.skip)
        return {
            "full_rate_steps_lost": round(lost, 3),
            "steps_under": {key: steps for key, steps in under.items() if steps},
            "skipped_samples": samples,
            "skipped_tokens": round(samples * tokens_per_sample) if tokens_per_sample is not None else None,
            "steps_thrown_away_exact": self._is_lost_known,
            "steps_thrown_away": sum(_thrown_away(branch) for branch in branches),
            "lapses": [dict(lapse) for lapse in self._lapses],
        }

    def _lapsed(self, fact: f.SettingLapsed) -> None:
        timeline = self._timelines.get(fact.attempt)
        if timeline is not None and fact.by_trainer:
            timeline.begin(fact.step, without(timeline.segments[-1].settings, fact.keys))
        lapse = {"attempt": fact.attempt, "keys": list(fact.keys), "step": fact.step, "by_trainer": fact.by_trainer}
        self._lapses.append({**lapse, "reason": fact.reason, "outcome": "", "verdict": ""})


def schedule_rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """For a terminal; nothing where nothing was lost."""
    words = [f"{steps} steps under another {key}" for key, steps in document["steps_under"].items()]
    if document["full_rate_steps_lost"]:
        words.insert(0, f"{document['full_rate_steps_lost']:g} full-rate steps lost")
    if document["skipped_samples"]:
        tokens = f" ({document['skipped_tokens']} tokens)" if document["skipped_tokens"] is not None else ""
        words.append(f"{document['skipped_samples']} samples left out{tokens}")
    if not document["steps_thrown_away_exact"]:
        words.append(f"{lost_words(document['steps_thrown_away'], None)} thrown away")
    elif document["steps_thrown_away"]:
        words.append(f"{document['steps_thrown_away']} steps thrown away")
    rows = [("schedule", ", ".join(words))] if words else []
    for lapse in document["lapses"]:
        outcome = f"{lapse['outcome']}: {lapse['verdict']}" if lapse["outcome"] else "being watched"
        rows.append(("lapse", f"{' and '.join(lapse['keys'])} at step {lapse['step']}, {outcome}"))
    return rows


def _answered(timeline: Timeline, fact: f.OverridesAnswered, name: str, step: int) -> None:
    """From the step the trainer names; a refusal takes the change out again. One that comes after the trainer had it in force
    ends it there."""
    asked = next((segment for segment in timeline.segments if segment.name == name), None)
    if asked is None:
        return
    left = without(asked.settings, fact.not_in_force)
    if asked.is_answered:
        if fact.not_in_force:
            timeline.begin(step, left)
        return
    timeline.segments = [segment for segment in timeline.segments if segment is not asked]
    if not fact.whole:
        timeline.begin(step, left, name)
        timeline.segments[-1] = replace(timeline.segments[-1], is_answered=True)


def _surviving(branch: Branch, timeline: Timeline) -> Iterable[tuple[int, int, SettingsInForce]]:
    """First and last surviving step of each segment."""
    if branch.survives_to is None:
        return
    ends = [segment.first - 1 for segment in timeline.segments[1:]] + [branch.survives_to]
    for segment, end in zip(timeline.segments, ends, strict=True):
        first, last = max(segment.first, branch.resumed_step + 1), min(end, branch.survives_to)
        if first <= last:
            yield first, last, segment.settings


def _held(settings: SettingsInForce, first: int, last: int) -> dict[str, int]:
    """Steps each setting was in force, of these: the trainer's own `until` ends it."""
    until = dict(settings.until)
    keys = [row.key for row in BY_WORD.values() if row.is_asked(getattr(settings, row.key))]
    return {key: max(0, min(last, until.get(key, last + 1) - 1) - first + 1) for key in keys}


def _thrown_away(branch: Branch) -> int:
    kept = branch.resumed_step if branch.survives_to is None else max(branch.survives_to, branch.resumed_step)
    return max(0, branch.last_step - kept)


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    total, behind = 0, 0
    for start, end in sorted(ranges):
        total += max(0, end - max(start, behind))
        behind = max(behind, end)
    return total
