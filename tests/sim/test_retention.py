"""Old checkpoints are deleted, and no run goes otherwise for it: every drill ends as it should, whoever dies meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.model import facts as f
from sentinel.model.actions import PruneCheckpoint
from sentinel.plan.retention import Retained, RetentionRule
from sentinel.plan.trust import Trust
from sentinel.policy_files.loading import load_policy
from sentinel.sim.drill import find_drill, policy_beside, shipped_drills
from sentinel.sim.drill_file import read_drill
from sentinel.sim.expected import differences
from sentinel.sim.machine import EPOCH_S
from sentinel.sim.run import SimulationResult, run_scenario, run_seed
from sentinel.sim.shape import Shape
from tests.sim.kit import SHORT, policy_named, simulate, with_retention
from tests.sim.test_crash_points import check, points

LONG = Shape(steps=340, step_s=0.4, startup_s=2.0, checkpoint_every=40)
EARLY = 17  # points before the first deletion, which test_crash_points has
DIES_LATE = "kill@step=330:rank=1"


def is_deletion(fact: f.Fact) -> bool:
    return isinstance(fact, f.ActionDecided) and isinstance(fact.action, PruneCheckpoint)


def deleted(result: SimulationResult) -> list[str]:
    return [change.to for change in result.world_changes if change.what == "prune"]


DELETING = ("sick-optimizer", "learning-rate-too-high", "supervisor-away", "reseeded-data", "guilty-samples", "slow-drift")
REACHES = 50  # steps: slow-drift is found at step 310 and dated to 266


@pytest.mark.parametrize(
    ("drills", "at_least"), [(DELETING, 40), pytest.param(shipped_drills(), 100, marks=pytest.mark.slow)], ids=["a few", "all"]
)
def test_shipped_drills_end_as_they_expect(drills: tuple[str, ...], at_least: int) -> None:
    gone = 0
    for name in drills:
        place = find_drill(Path(name))
        drill = read_drill(place)
        if drill.not_simulated:
            continue
        policy = with_retention(drill.policy_for(load_policy(policy_beside(place, drill.policy))), last=2, lookback=REACHES)
        result = run_scenario(drill.scenario, policy, drill.until_s, check_fold=False)
        assert result.ok, f"{name}: {result.broken}"
        assert differences(drill.expected, result) == (), name
        gone += len(deleted(result))
    assert gone > at_least, "nothing was tried"


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_seed_draws_no_repair_misses_what_was_deleted(seed: int) -> None:
    result = run_seed(seed, with_retention(policy_named("demo"), last=2, every_steps=100))
    assert result.ok, result.reproduce


def test_killed_at_any_point_while_checkpoints_are_deleted() -> None:
    undisturbed = simulate(DIES_LATE, policy="retaining", shape=LONG)
    assert undisturbed.ok, undisturbed.broken
    assert len(deleted(undisturbed)) >= 2
    for point in list(points(undisturbed))[EARLY:]:
        disturbed = simulate(DIES_LATE, point, policy="retaining", shape=LONG)
        check(undisturbed, disturbed, point)
        assert len(set(deleted(disturbed))) == len(deleted(disturbed)) >= 1, point


def test_what_cannot_be_deleted_holds_nothing_up() -> None:
    result = simulate("fails@action=PruneCheckpoint:times=1,retry=0", DIES_LATE, policy="retaining", shape=LONG)
    assert (result.ok, result.outcome) == (True, "finished"), result.broken
    assert not result.pages
    assert any(isinstance(e.fact, f.ActionAbandoned) and e.fact.key.startswith("prune/") for e in result.entries)
    assert not deleted(result), "it is not tried again for ten minutes"


def test_a_sick_disk_keeps_the_checkpoint_and_the_run_goes_on() -> None:
    at_s = next(e.at_s for e in simulate(policy="retaining", shape=LONG).entries if is_deletion(e.fact)) - EPOCH_S
    result = simulate(f"unreadable@time={at_s - 1:.1f}:for=30", policy="retaining", shape=LONG)
    assert (result.ok, result.outcome) == (True, "finished"), result.broken
    assert any(isinstance(e.fact, f.ActionAbandoned) for e in result.entries)
    assert not deleted(result), "it is not tried again for ten minutes"
    assert not result.state.pruned


def test_observe_only_deletes_nothing() -> None:
    result = simulate(policy="retaining", shape=LONG, observe_only=True)
    assert (result.ok, deleted(result)) == (True, []), result.broken


# The invariants notice what they are there for.


def test_one_that_keeps_only_the_newest_costs_a_rollback_and_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(
        trusts: Iterable[Trust], rule: RetentionRule, began_with: int, seen_step: int | None, as_if_read: bool = False
    ) -> tuple[Retained, ...]:
        there = sorted((t.checkpoint for t in trusts if t.word not in ("pruned", "quarantined")), key=lambda c: c.step)
        return tuple(Retained(c, c not in there[-2:], "x") for c in there)

    monkeypatch.setattr("sentinel.engine.retention.judge_retention", greedy)
    often = replace(SHORT, checkpoint_every=5, save_s=0.1)
    assert simulate(policy="retaining", shape=often).ok, "where nothing happens nobody misses anything"
    broken = simulate("bad_data@sample=2400-2700:heals=never", policy="retaining", shape=often).broken
    assert broken.startswith("retention costs no repair: attempt 2 was to resume at step "), broken
    assert broken.endswith(", which was deleted")


def test_one_that_deletes_during_a_repair_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.engine.retention.why_not_now", lambda state: "")
    broken = simulate("kill@step=245:rank=1", policy="retaining", shape=LONG).broken
    assert broken.endswith("is to be deleted while the run is not simply training"), broken
