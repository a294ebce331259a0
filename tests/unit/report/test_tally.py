"""What is counted of a run: it only grows, is the same whoever folds the journal, and is about what was decided and done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sentinel.engine import evolve
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import INCIDENTS_KEPT, RunState
from sentinel.report.tally import ACTIONS, NAMES_MAX, OTHER, Durations, Tally
from tests.unit.told_run import at, entries_of, told


def count(entries: Sequence[f.Entry], tally: Tally | None = None, state: RunState | None = None) -> tuple[Tally, RunState]:
    tally, state = tally or Tally(), state or RunState()
    for entry in entries:
        tally.take(state, entry)
        state = evolve(state, entry.at_s, entry.fact)
    return tally, state


def counted(*facts: f.Fact, after: float = 42) -> Tally:
    """The told run up to `after`, and these facts."""
    return count(entries_of([*told(after), *((after + 1 + n, fact) for n, fact in enumerate(facts))]))[0]


def page(stage: a.Stage = "trigger", route: str = "pagerduty", incident: int = 1) -> a.SendPage:
    return a.SendPage(f"page/{incident}/1/{stage}/{route}", incident, "critical", "a title", "a text", stage, route)


def test_a_run_is_counted_as_it_was_told() -> None:
    tally = counted(after=1e9)
    assert tally.opened == {"crash": 1, "spike": 1}
    assert tally.closed == {("crash", "recovered"): 1, ("spike", "recovered"): 1}
    assert tally.findings == {("spike", "info"): 1, ("spike", "warning"): 1}
    assert tally.actions == {("start_attempt", "confirmed"): 2, ("kill_attempt", "confirmed"): 1}
    assert (tally.steps_lost, tally.takeovers, tally.ranks) == (66, 1, 0)
    assert tally.recovery["crash"].sum_s == 12.0
    assert tally.recovery["spike"].counts[2] == 1, "fourteen seconds lie between five and fifteen"
    assert counted(after=34).ranks == 2


def test_it_goes_on_counting_where_it_stood() -> None:
    """A journal read in one piece, or looked at after every entry."""
    entries = entries_of(told())
    whole, _ = count(entries)
    tally, state = Tally(), RunState()
    for entry in entries:
        tally, state = count([entry], tally.copy(), state)
    assert tally == whole


def test_a_copy_does_not_grow() -> None:
    tally, state = count(entries_of(told(42)))
    seen = tally.copy()
    count(entries_of(told())[len(told(42)) :], tally, state)
    assert seen == count(entries_of(told(42)))[0] != tally


def test_an_incident_that_nobody_touched_has_healed() -> None:
    benign = f.IncidentMoved(1, IncidentState.RECOVERED, "it went by", benign=True)
    assert counted(benign).closed == {("crash", "healed"): 1}
    assert counted(replace(benign, to=IncidentState.EXHAUSTED, benign=None)).closed == {("crash", "exhausted"): 1}


def test_an_incident_that_the_state_has_forgotten_is_still_counted() -> None:
    facts: list[f.Fact] = []
    for number in range(2, INCIDENTS_KEPT + 50):
        hang = Incident(number, Kind.HANG, "critical", "Hang", "restart", 2, None, 9, 9, at(50), at(51), "silent")
        facts.append(f.IncidentOpened(hang))
        facts.append(f.IncidentMoved(number, IncidentState.RECOVERED, "well"))
    tally = counted(*facts)
    assert tally.opened["hang"] == tally.closed["hang", "recovered"] == INCIDENTS_KEPT + 48
    assert sum(tally.detection["hang"].counts) == INCIDENTS_KEPT + 48
    assert "hang" not in tally.recovery, "none of them was followed by a step past its break"


def test_a_call_that_was_answered_first_is_no_route_that_could_not_deliver() -> None:
    sent = page()
    tally = counted(f.ActionDecided(sent), f.ActionAbandoned(sent.key, "no longer wanted, acknowledged by ada", withdrawn=True))
    assert (tally.delivered, tally.undelivered) == ({("trigger", "pagerduty"): 0}, {("trigger", "pagerduty"): 0})
    assert tally.actions["send_page", "dropped"] == 1
    assert ("send_page", "abandoned") not in tally.actions


def test_a_delivery_that_is_given_up_is_counted_and_was_zero_before() -> None:
    sent = page(route="")
    assert counted(f.ActionDecided(sent)).undelivered == {("trigger", "terminal"): 0}
    tally = counted(f.ActionDecided(sent), f.ActionAbandoned(sent.key, "refused"))
    assert tally.undelivered == {("trigger", "terminal"): 1}
    assert tally.delivered == {("trigger", "terminal"): 0}
    assert tally.actions["send_page", "abandoned"] == 1


def test_what_a_dropped_plan_had_begun_is_counted_as_dropped() -> None:
    kill, later = a.KillAttempt("kill/2", 2), a.SignalRanks("tell/2", 2)
    tally = counted(f.PlanAdopted(1, (kill, later)), f.ActionDecided(kill), f.PlanDropped("a person wants otherwise"))
    assert tally.actions["kill_attempt", "dropped"] == 1
    assert ("signal_ranks", "dropped") not in tally.actions, "it was never decided"
    assert counted(f.ActionConfirmed("of nothing")).actions == counted().actions


def test_a_source_is_remembered_when_it_sees_again() -> None:
    blind = f.SourceChanged("nvml", False, "gone")
    assert counted(blind).blind == {"nvml": True}
    assert counted(blind, f.SourceChanged("nvml", True, "back")).blind == {"nvml": False}
    assert counted(blind, f.SupervisorTookOver(2, "here", 8, "demo", "d" * 64, False)).blind == {"nvml": False}


def test_names_are_bounded() -> None:
    facts = [f.SourceChanged(f"source {n}", False, "gone") for n in range(NAMES_MAX + 30)]
    pages = [f.ActionDecided(page(route=f"route {n}", incident=n)) for n in range(2 * INCIDENTS_KEPT)]
    tally = counted(*facts, *pages)
    assert len(tally.blind) == len(tally.delivered) == NAMES_MAX + 1
    assert tally.blind[OTHER]


def test_durations_are_put_where_they_fit() -> None:
    spent = Durations().with_one(1.0).with_one(1.1).with_one(1e6)
    assert (spent.counts[0], spent.counts[1], spent.counts[-1]) == (1, 1, 1)


def test_every_action_has_a_name_of_its_own() -> None:
    assert len(set(ACTIONS.values())) == len(ACTIONS)
    assert ACTIONS[a.SendPage] == "send_page"
