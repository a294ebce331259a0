"""A skip of guilty samples only, in simulated runs: what is found is skipped and nothing else; whatever keeps it from being
found, the whole window is; and a supervisor killed anywhere on the way changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model import facts as f
from sentinel.model.incidents import IncidentState
from sentinel.sim.data_order import overlap, union
from sentinel.sim.run import SimulationResult
from sentinel.sim.shape import Shape
from tests.sim.kit import EVERY_SIXTH, simulate
from tests.sim.test_crash_points import check, points

SHAPE = Shape(steps=200, step_s=0.4, startup_s=2.0, checkpoint_every=20)
BURSTS = ((1600, 1616), (1640, 1652), (1690, 1702))
POISON = tuple(f"bad_data@sample={start}-{end}:heals=never" for start, end in BURSTS)
WINDOW = 700  # samples that the plain rung would leave out here


def skipped(result: SimulationResult) -> int:
    (incident,) = result.state.incidents
    assert incident.last_try is not None
    return sum(span.end - span.start for span in incident.last_try.remedy.skip)


def run(*faults: str, shape: Shape = SHAPE, **more: object) -> SimulationResult:
    result = simulate(*POISON, *faults, policy="guilty", shape=shape, **more)
    assert result.ok, result.broken
    return result


def test_only_the_guilty_are_skipped_and_the_run_recovers() -> None:
    result = run()
    (incident,) = result.state.incidents
    assert (result.outcome, incident.state) == ("finished", IncidentState.RECOVERED)
    found = incident.attribution
    assert found is not None
    assert found.verdict == "guilty"
    spans = union((span.start, span.end) for span in found.ranges)
    poisoned = sum(end - start for start, end in BURSTS)
    assert sum(overlap(spans, start, end) for start, end in BURSTS) == poisoned, "every one of them"
    assert found.guilty <= poisoned + 3, "and hardly another"
    assert skipped(result) == found.guilty
    assert [fact.attempt for fact in (e.fact for e in result.entries) if isinstance(fact, f.InspectionLaunched)] == [2]
    assert [attempt.attempt for attempt in result.state.attempts] == [1, 3], "an inspection is none of the run's attempts"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("exit@step=0:code=1,attempt=2", "InjectedCrash"),
        ("kill@step=0:rank=1,attempt=2", "failed"),
        ("hang@step=0:rank=1,attempt=2", "not done within 2 min"),
        ("deaf@step=0:attempt=2", "trains where it was asked to inspect"),
        ("fails@action=InspectSamples:times=1,retry=0", "told to fail for good"),
    ],
)
def test_whatever_keeps_it_from_looking_the_whole_window_is_skipped(fault: str, said: str) -> None:
    result = run(fault)
    (incident,) = result.state.incidents
    assert (result.outcome, incident.state, len(result.pages)) == ("finished", IncidentState.RECOVERED, 0)
    assert incident.attribution is not None
    assert incident.attribution.verdict == "failed"
    assert said in incident.attribution.reason
    assert incident.last_try is not None
    assert "so all of samples" in incident.last_try.remedy.reason
    assert skipped(result) >= WINDOW


def test_a_spike_that_no_sample_is_guilty_of_is_skipped_whole() -> None:
    result = simulate("bit_flip@step=100:rank=1,height=2", policy="guilty", shape=SHAPE)
    assert result.ok, result.broken
    (incident,) = result.state.incidents
    assert incident.attribution is not None
    assert incident.attribution.verdict == "nobody"
    assert skipped(result) >= WINDOW
    assert result.outcome == "finished"


def test_without_a_checkpoint_nothing_is_looked_at() -> None:
    """Untrained weights find every text as bad as random bytes."""
    result = run(shape=replace(SHAPE, checkpoint_every=150))  # the first one comes after the poison
    (incident,) = result.state.incidents
    assert incident.attribution is None
    assert incident.last_try is not None
    assert "untrained weights tell nothing" in incident.last_try.remedy.reason
    assert skipped(result) >= WINDOW


def test_a_stop_does_not_wait_for_it_and_the_rung_looks_again_afterwards() -> None:
    at_s = looked_after_s() + 1.0
    result = run(f"stop@time={at_s:.2f}", "again@time=0:for=30")
    assert result.outcome == "finished"
    launched = [e.fact.attempt for e in result.entries if isinstance(e.fact, f.InspectionLaunched)]
    assert launched == [2, 3], "no number is used twice"
    assert sum(isinstance(e.fact, f.Attributed) for e in result.entries) == 1
    assert skipped(result) < WINDOW / 10


@EVERY_SIXTH
def test_killed_at_any_point_the_supervisor_resumes(first: int) -> None:
    undisturbed = run()
    for point in list(points(undisturbed, both_sides=True))[first::6]:
        disturbed = run(point)
        check(undisturbed, disturbed, point)
        assert skipped(disturbed) == skipped(undisturbed), point


def test_a_supervisor_that_was_away_for_longer_than_the_deadline_takes_the_whole_window() -> None:
    """What is there when it comes back may be the answer; the deadline is the engine's, and has passed."""
    away = f"supervisor_kill@time={looked_after_s() + 0.5:.2f}:for=200"
    result = run(away)
    assert result.outcome == "finished"
    assert skipped(result) in (skipped(run()), *range(WINDOW, 2 * WINDOW))
    assert len(result.state.attempts) == 2


def looked_after_s() -> float:
    """Seconds from the first launch to that of the inspection, when nothing else disturbs."""
    entries = run().entries
    return next(e.at_s for e in entries if isinstance(e.fact, f.InspectionLaunched)) - entries[0].at_s


@pytest.mark.parametrize("chunk", [0, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in (1, 2))])
def test_every_invariant_holds_in_drawn_disasters_under_this_policy(chunk: int) -> None:
    from tests.sim.test_seeds import BASE, run_chunk

    run_chunk("guilty", BASE + chunk * 30, 30)
