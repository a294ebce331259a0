"""What survives, by the rule of the boards and by the lineage that the journal tells, over whole simulated runs."""

from __future__ import annotations

from sentinel.report.lineage import Branch, Lineage
from sentinel.sim.run import run_seed
from sentinel.tensorboard.survivors import Begun, bounds
from tests.sim.kit import policy_named


def test_the_newest_is_whole_and_a_start_from_scratch_leaves_nothing_of_the_others() -> None:
    assert bounds([]) == {}
    assert bounds([Begun(1, 0), Begun(2, 100), Begun(3, 0)]) == {1: 0, 2: 0, 3: None}
    assert bounds([Begun(1, 0), Begun(2, 100), Begun(3, 200)]) == {1: 100, 2: 200, 3: None}


def test_it_is_the_lineage_of_the_journal() -> None:
    branches = [branch for seed in range(1, 17) for branch in _checked_branches(seed)]
    assert any(branch.survives_to is None for branch in branches), "no abandoned branch was drawn: this shows nothing"
    assert sum(branch.parent is not None for branch in branches) > 10


def _checked_branches(seed: int) -> list[Branch]:
    """The attempts of a simulated run; each survives as far by the rule as by the journal."""
    result = run_seed(seed, policy_named("demo"))
    lineage = Lineage()
    for entry in result.entries:
        lineage.take(entry.fact)
    branches = lineage.branches()
    kept = bounds([Begun(attempt.attempt, attempt.resumed_step) for attempt in result.state.attempts])
    assert list(kept) == [branch.attempt for branch in branches]
    for branch in branches[:-1]:
        bound = kept[branch.attempt]
        assert bound is not None
        survives = min(bound, branch.last_step) > branch.resumed_step
        if branch.survives_to is None or not survives:
            assert not survives, branch
            assert branch.survives_to is None or branch.survives_to <= branch.resumed_step, branch
        else:
            assert min(branch.survives_to, branch.last_step) == min(bound, branch.last_step), branch
    assert not branches or kept[branches[-1].attempt] is None
    return branches
