"""The supervisor is killed at every append to its journal and at every effect on the world, before and after, and restarted:
the invariants hold, nothing is lost or doubled, and the run ends as it would have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sentinel.model import facts as f
from sentinel.sim.run import SimulationResult
from tests.sim.kit import EVERY_SIXTH, kinds_and_states, simulate

DISASTERS = {
    "a kill": ("kill@step=110:rank=1",),
    "a hang": ("hang@step=90:rank=1",),
    "poisoned data": ("bad_data@sample=1600-1900:heals=slow",),
    "not a number": ("nan_state@step=90",),
    "a damaged checkpoint": ("bit_rot@step=100", "kill@step=110:rank=0"),
    "a crash loop": ("crash@step=100:always",),
    "a job that never starts": ("exit@step=0:always",),
    "a wrong configuration": ("exit@step=90:code=3",),
    "a dead keeper": ("keeper_kill@step=90",),
    "faults during recovery": ("bad_data@sample=1600-1900:heals=slow", "kill@step=112:attempt=2", "kill@step=90:attempt=3"),
    "a person who stops": ("stop@time=40",),
    "a setting that lapses too soon": ("ask@time=20:what=set,until=60", "unstable@step=112"),
}
LIVE = {"an unstable run": ("unstable@step=100",), "poisoned data": ("bad_data@sample=1600-1900:heals=slow",)}


def points(result: SimulationResult, *, both_sides: bool = False) -> Iterator[str]:
    """Every append and effect of the run. Before an append is after the one before it, but for the turn in between."""
    yield "supervisor_kill@journal=1:for=1,side=before"
    for place, count in (("journal", result.appends), ("effect", result.effects)):
        for at in range(1, count + 2):
            for side in ("before", "after") if both_sides or place == "effect" else ("after",):
                yield f"supervisor_kill@{place}={at}:for=1,side={side}"


def has(result: SimulationResult, kind: type[f.Fact]) -> bool:
    return any(isinstance(entry.fact, kind) for entry in result.entries)


def ended_before_the_kill(result: SimulationResult) -> bool:
    """It was over when the supervisor died in its last moments: starting it again is a person's word to go on."""
    return any(isinstance(entry.fact, f.RunEnded) and entry.epoch == 1 for entry in result.entries)


def check(undisturbed: SimulationResult, disturbed: SimulationResult, point: str) -> None:
    assert disturbed.ok, f"{point}: {disturbed.broken}"
    if ended_before_the_kill(disturbed) or (has(undisturbed, f.StopAsked) and not has(disturbed, f.StopAsked)):
        return
    assert disturbed.outcome == undisturbed.outcome, point
    assert kinds_and_states(disturbed) == kinds_and_states(undisturbed), point
    assert len(disturbed.state.attempts) == len(undisturbed.state.attempts), point


@EVERY_SIXTH
@pytest.mark.parametrize("name", DISASTERS)
def test_killed_at_any_point_the_supervisor_resumes(name: str, first: int) -> None:
    faults = DISASTERS[name]
    undisturbed = simulate(*faults)
    assert undisturbed.ok, undisturbed.broken
    for point in list(points(undisturbed, both_sides=name in ("a hang", "poisoned data")))[first::6]:
        check(undisturbed, simulate(*faults, point), point)


@EVERY_SIXTH
@pytest.mark.parametrize("name", LIVE)
def test_killed_at_any_point_of_a_live_change(name: str, first: int) -> None:
    undisturbed = simulate(*LIVE[name], policy="live")
    assert undisturbed.ok, undisturbed.broken
    for point in list(points(undisturbed))[first::6]:
        disturbed = simulate(*LIVE[name], point, policy="live")
        assert disturbed.ok, f"{point}: {disturbed.broken}"
        assert disturbed.outcome == undisturbed.outcome, point


def test_killed_again_at_the_very_next_point() -> None:
    faults = DISASTERS["poisoned data"]
    undisturbed = simulate(*faults)
    for at in range(1, undisturbed.appends):
        places = ((at, "before"), (at + 1, "after"), (at + 2, "before"))
        kills = [f"supervisor_kill@journal={place}:for=1,side={side}" for place, side in places]
        disturbed = simulate(*faults, *kills)
        assert disturbed.ok, f"{kills}: {disturbed.broken}"
        assert disturbed.outcome == "finished", kills


def test_a_long_absence_while_an_attempt_starts_trains_and_dies() -> None:
    """Found by seed 1206: the start was never confirmed, the attempt lived and died unwatched, and nobody repaired it."""
    result = simulate("crash@step=52:always", "supervisor_kill@effect=5:for=60,side=after")
    assert result.ok, result.broken
    assert result.outcome == "failed"
    assert result.pages


def test_a_checkpoint_saved_while_giving_up_is_never_resumed_from() -> None:
    """Found by seed 1076: it was committed between the decision to give up and the kill, and a person started the run again."""
    result = simulate("nan_state@step=39:always", "again@time=0:for=60")
    assert result.ok, result.broken
