"""What the demonstration on a cluster asks, and that it can fail. The demonstration itself is `make cluster-demo`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from sentinel.sim.real_faults import parse_real_fault
from tests.cluster.demo import RANK, REFERENCE_STEPS, SPARE, STEPS_MIN, TRAINS, complaints, main, overlaps, strikes, train_words

STEPS = REFERENCE_STEPS
ALL = range(1, STEPS + 1)
NODES = {1: {"n1", TRAINS}, 2: {"n1", TRAINS}, 3: {"n1", SPARE}, 4: {"n1", SPARE}, 5: {"n1", SPARE}}


def incidents(**changed: Any) -> list[dict[str, Any]]:
    """As they are when all holds; `changed`: of the second, the node that was lost."""
    found = []
    for number, strike in enumerate(strikes(STEPS), 1):
        one = {"id": number, "benign": False, "kind": strike.kinds[0], "state": "recovered", "remedies": [{}] * strike.remedies}
        one |= {"blamed_rank": RANK if strike.node else None, "blamed_node": strike.node}
        found.append(one | (changed if number == 2 else {}))
    return found


def test_a_demonstration_in_which_all_holds_leaves_nothing_to_say() -> None:
    assert complaints(incidents(), ALL, STEPS, NODES, 0) == []
    assert complaints([*incidents(kind="crash"), {"benign": True}], ALL, STEPS, NODES, 0) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kind": "spike"}, "asked"),
        ({"state": "open"}, "incident 2 is open"),
        ({"blamed_node": "n1"}, "node n1"),
        ({"blamed_rank": None}, "rank None"),
        ({"remedies": [{}, {}]}, "2 remedies, 1 asked"),
    ],
)
def test_an_incident_that_is_not_as_it_should_be_is_named(changed: dict[str, Any], words: str) -> None:
    (only,) = complaints(incidents(**changed), ALL, STEPS, NODES, 0)
    assert words in only


def test_an_incident_too_few_a_lost_step_a_wrong_node_and_a_bad_end_are_named() -> None:
    assert "asked" in complaints(incidents()[:3], ALL, STEPS, NODES, 0)[0]
    assert complaints(incidents(), range(1, STEPS), STEPS, NODES, 0) == [f"{STEPS - 1} of {STEPS} steps survive"]
    (on_the_dead,) = complaints(incidents(), ALL, STEPS, NODES | {5: {"n1", TRAINS}}, 0)
    assert on_the_dead.startswith("attempts trained on")
    assert complaints(incidents(), ALL, STEPS, NODES, 1) == ["the run left with 1, 0 asked"]


def test_two_attempts_at_once_are_named_but_for_the_step_that_lost_its_node() -> None:
    seen = [frozenset({"0 s-a-1"}), frozenset({"0 s-a-2"}), frozenset({"0 s-a-2", "1 s-a-3"})]
    assert overlaps(seen, "s-a-2") == []
    assert overlaps(seen, "s-a-1") == ["steps of two attempts at once: ['s-a-2', 's-a-3']"]


def test_the_trainer_understands_every_fault_of_it() -> None:
    words = train_words(STEPS)
    faults = [word for before, word in pairwise(words) if before == "--fault"]
    assert [parse_real_fault(fault).kind for fault in faults] == ["kill", "hang", "bad_data"]


@pytest.mark.parametrize("steps", [STEPS_MIN - 1, 0])
def test_too_few_steps_are_refused_with_the_reason(steps: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--steps", str(steps)])
    assert f"--steps {steps}: must be {STEPS_MIN} or above" in capsys.readouterr().err
