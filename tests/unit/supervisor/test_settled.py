"""When a reserve is made: the run trains, and nothing is being repaired."""

from __future__ import annotations

from dataclasses import replace

from sentinel.model.attempts import SettingsInForce
from sentinel.model.state import Attempt, RunState
from sentinel.supervisor.each_turn import is_settled

TRAINS = Attempt(1, 0.0, None, SettingsInForce(), "first", first_step=1)


def test_it_takes_a_step_and_no_end() -> None:
    assert is_settled(RunState(attempts=(TRAINS,)))
    assert not is_settled(RunState())
    for other in ({"first_step": None}, {"ended_s": 5.0}, {"stopping": "stop_now"}):
        assert not is_settled(RunState(attempts=(replace(TRAINS, **other),)))  # type: ignore[arg-type]
