"""The journal read once for the logbook: incidents, what else a person would write down, and what each day was like.

A day ends at midnight UTC. Its goodput is what the ledger gained in it as it stood then, so a rollback that takes back the
work of the day before counts on the day of the rollback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sentinel.engine.goodput import account
from sentinel.model import facts as f
from sentinel.model.actions import PruneCheckpoint, SendPage, WriteOverrides
from sentinel.model.attempts import SettingsInForce
from sentinel.model.environment import Environment
from sentinel.model.facts import Entry, Fact
from sentinel.model.operator_requests import Acknowledge
from sentinel.model.state import RunState
from sentinel.report.chronicle.stories import Story
from sentinel.report.events import incident_of

DAY_S = 86_400
DAYS_MAX = 4000  # a clock that was once wrong by decades must not make a page of years


@dataclass(slots=True)
class Day:
    """Counts of what has no line of its own. `training_s` and `whole_s` are of the ledger, gained on this day."""

    number: int  # days since 1970
    training_s: float = 0.0
    whole_s: float = 0.0
    first_step: int = 0
    last_step: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    condemned: list[str] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    """Something with a line of its own: the fact that says it, or the incident that began."""

    at_s: float
    step: int
    fact: Fact
    story: Story | None = None
    before: SettingsInForce | None = None  # of a launch: what was in force until then


@dataclass(slots=True)
class Gathered:
    """Attributes: state, at the end; days, those on which anything was written down; stories, by incident; writes, live changes
    by their id; first_s, of the first entry; last_s and seq, of the last; attempts, how many were launched; environment, the
    first that was read."""

    state: RunState = field(default_factory=RunState)
    days: dict[int, Day] = field(default_factory=dict)
    stories: dict[int, Story] = field(default_factory=dict)
    writes: dict[str, WriteOverrides] = field(default_factory=dict)
    step: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    seq: int = 0
    attempts: int = 0
    environment: Environment | None = None


def gather(steps: Iterable[tuple[Entry, RunState]]) -> Gathered:
    """`steps`: each entry with the state it leads to (`JournalFold.read`)."""
    found = Gathered()
    for entry, state in steps:
        _close_days(found, entry.at_s)
        before = found.state.overrides
        day = _day(found, int(entry.at_s // DAY_S))  # which begins where the run stood before
        found.state = state
        found.first_s = found.first_s if found.seq else entry.at_s
        found.last_s, found.seq = entry.at_s, entry.seq
        found.step = _step_of(entry.fact, found.step)
        _take(found, day, entry, before)
    _close_days(found, found.last_s, is_end=True)
    return found


def _close_days(found: Gathered, at_s: float, is_end: bool = False) -> None:
    """The ledger at each midnight between the last entry and this one."""
    if not found.seq:
        return
    first, last = int(found.last_s // DAY_S), int(at_s // DAY_S)
    for number in range(first, min(last, first + DAYS_MAX)):
        _close(found, number, (number + 1) * DAY_S)
    if is_end:
        _close(found, last, at_s)


def _close(found: Gathered, number: int, until_s: float) -> None:
    ledger = account(found.state, until_s)
    day = _day(found, number)
    earlier = [other for other in found.days.values() if other is not day]
    day.training_s = ledger.seconds["training"] - sum(other.training_s for other in earlier)
    day.whole_s = ledger.total_s - sum(other.whole_s for other in earlier)
    day.last_step = found.step


def _day(found: Gathered, number: int) -> Day:
    if number not in found.days:
        found.days[number] = Day(number, first_step=found.step, last_step=found.step)
    return found.days[number]


def _take(found: Gathered, day: Day, entry: Entry, before: SettingsInForce) -> None:
    fact = entry.fact
    if isinstance(fact, f.AttemptLaunched):
        found.attempts += 1
    elif isinstance(fact, f.EnvironmentRead):
        found.environment = found.environment or fact.environment
    number = incident_of(fact)
    story = found.stories.get(number) if number is not None else None
    if story is not None:
        story.take(entry.at_s, fact)
    match fact:
        case f.IncidentOpened(incident=opened):
            story = found.stories[opened.id] = Story(opened, entry.at_s)
            day.counts["incidents"] += 1
            day.moments.append(Moment(entry.at_s, found.step, fact, story))
        case f.RequestAnswered(wish=Acknowledge(), granted=True, by=by) if story is not None:
            story.seen_by, story.seen_s = by, entry.at_s
        case f.ActionDecided(action=SendPage()) if story is not None:
            day.counts["pages"] += len(story.called) == 1 and story.called_s is not None
        case f.ActionDecided(action=WriteOverrides() as write):
            found.writes[write.overrides.id] = write
        case _ if _has_a_line(fact):
            day.moments.append(Moment(entry.at_s, found.step, fact, None, before))
        case _:
            _count(day, fact)


def _has_a_line(fact: Fact) -> bool:
    match fact:
        case f.RunCreated() | f.AttemptLaunched() | f.RequestAnswered() | f.StopAsked() | f.Held() | f.RunEnded():
            return True
        case f.SettingLapsed() | f.LapseJudged() | f.NodeExcluded() | f.CommandChanged() | f.ArgumentsRefused():
            return True
        case f.OverridesAnswered() | f.NumbersMissing():
            return True
        case f.NodesChecked():
            return bool(fact.sick or fact.unknown or fact.trouble)
        case f.SupervisorTookOver(epoch=epoch):
            return epoch > 1
        case f.EnvironmentRead(changes=changes):
            return bool(changes)
        case _:
            return False


def _count(day: Day, fact: Fact) -> None:
    match fact:
        case f.CheckpointCommitted():
            day.counts["checkpoints"] += 1
        case f.CheckpointCondemned(step=step, reason=reason):
            day.counts["condemned"] += 1
            day.condemned.append(f"{step}: {reason}")
        case f.ActionDecided(action=PruneCheckpoint()):
            day.counts["pruned"] += 1
        case f.CheckpointsQuarantined():
            day.counts["quarantines"] += 1
        case f.FindingRecorded(became=None):
            day.counts["findings"] += 1
        case f.SourceChanged(ok=False):
            day.counts["blind"] += 1
        case _:
            pass


_STEPS: dict[type, Callable[[Fact], int]] = {
    f.FirstStep: lambda fact: getattr(fact, "step", 0),
    f.CheckpointCommitted: lambda fact: getattr(fact, "step", 0),
    f.Restored: lambda fact: getattr(fact, "step", 0),
    f.RungTaken: lambda fact: getattr(fact, "step", 0),
    f.OverridesAnswered: lambda fact: getattr(fact, "step", 0),
    f.AttemptEnded: lambda fact: getattr(fact, "last_step", 0),
    f.ReceiptSeen: lambda fact: getattr(fact, "resumed_step", 0),
}


def _step_of(fact: Fact, known: int) -> int:
    """Where the run stands, as far as the journal says; it falls with a relaunch."""
    if isinstance(fact, f.IncidentOpened):
        return max(known, fact.incident.detected_step)
    read = _STEPS.get(type(fact))
    return known if read is None else read(fact)
