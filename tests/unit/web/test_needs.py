"""What a run that is out of repairs needs of a person, as its page tells it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sentinel.model import facts as f
from sentinel.model.incidents import IncidentState
from sentinel.report.following import RunSnapshot
from sentinel.web.needs import needs_document
from tests.unit.told_run import state_of, told


def test_a_failed_run_names_the_cause_and_not_the_rung(tmp_path: Path) -> None:
    state = state_of([*told(91.4), (92, f.PlanDropped("out of remedies")), (93, f.RunEnded("failed", "out of remedies"))])
    last = replace(state.incidents[-1], state=IncidentState.EXHAUSTED, verdict="rung 4", reason="loss 8.6 over 2.2")
    snapshot = RunSnapshot(tmp_path / "demo", replace(state, incidents=(*state.incidents[:-1], last)), attempt_alive=False)
    needs = needs_document(snapshot)
    assert needs is not None
    assert (needs["head"], needs["cause"]) == ("The run has failed", "spike: loss 8.6 over 2.2")
    assert needs["trains"] == "Nothing of it trains now."
    assert needs["answers"][1]["command"].startswith("sentinel run ")
    assert needs_document(replace(snapshot, attempt_alive=None))["trains"].startswith("Whether")  # type: ignore[index]


def test_a_run_that_goes_on_or_has_ended_as_meant_needs_nothing(tmp_path: Path) -> None:
    for until in (42.0, 91.2, 100.0):
        assert needs_document(RunSnapshot(tmp_path, state_of(told(until)))) is None
