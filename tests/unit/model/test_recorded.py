"""The names in the journal are explicit and frozen: a renamed class keeps its recorded name."""

from __future__ import annotations

from typing import get_args

import pytest

from sentinel.model.actions import Action
from sentinel.model.attempts import AttemptView
from sentinel.model.facts import Fact
from sentinel.model.operator_requests import OperatorRequest
from sentinel.model.recorded import recorded_as, recorded_name

# As journals of version 0.1 have them. Names may be added; none may change or go.
FACTS = """
ActionAbandoned ActionConfirmed ActionDecided ApprovalAsked AttemptEnded AttemptLaunched AttemptStopping Attributed BudgetRefilled
CheckpointCommitted CheckpointCondemned CheckpointsQuarantined Diagnosed EnvironmentRead FindingRecorded FirstStep GaveUp Held
IncidentMoved IncidentOpened InspectionLaunched LapseJudged NodeExcluded Noted OverridesAnswered PageRaised PageResolved
PlanAdopted PlanDropped ReceiptSeen Restored RunCreated RunEnded RungJudged RungTaken SettingLapsed SettingObserved SourceChanged
StepsLost StopAsked SupervisorTookOver WishAnswered JournalAdopted JournalSalvaged NumbersMissing RunRestored PageHeld LogMatched
"""
ACTIONS = """
Capture CompareRecords InspectSamples KillAttempt PruneCheckpoint Quarantine RequestStop SendPage SignalRanks StartAttempt
VerifyCheckpoint WriteOverrides
"""
REQUESTS = "Acknowledge Approve Change Deny Hold LeaveOut Pause Prune Readmit Remark Resolve Resume RollBack"
VIEWS = "Alive Exited NotStarted Orphaned Unseen"


@pytest.mark.parametrize(
    ("union", "names"), [(Fact, FACTS), (Action, ACTIONS), (OperatorRequest, REQUESTS), (AttemptView, VIEWS)]
)
def test_every_recorded_name_of_version_0_1_is_still_there(union: object, names: str) -> None:
    assert set(names.split()) <= {recorded_name(cls) for cls in get_args(union)}


@pytest.mark.parametrize("union", [Fact, Action, OperatorRequest, AttemptView])
def test_no_two_members_of_a_union_share_a_recorded_name(union: object) -> None:
    names = [recorded_name(cls) for cls in get_args(union)]
    assert len(names) == len(set(names))


def test_the_recorded_name_is_the_one_that_was_given_and_not_the_name_of_the_class() -> None:
    @recorded_as("FormerName")
    class NewName:
        pass

    assert recorded_name(NewName) == "FormerName"


def test_a_class_without_a_recorded_name_is_refused_with_its_name_and_the_remedy() -> None:
    class Bare:
        pass

    with pytest.raises(TypeError, match=r"Bare has no recorded name; decorate it with @recorded_as"):
        recorded_name(Bare)
