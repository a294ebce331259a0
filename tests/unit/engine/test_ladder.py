"""A rung becomes a plan: what is in it, in which order, and what playbooks may say."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import Decay, SampleRange
from sentinel.model.events import ActionDone
from sentinel.model.incidents import IncidentState
from tests.builders import BATCH, Bench, build_policy

PAGE = {"page": {"severity": "critical"}, "then": "stop_now"}


def crashed(policy: Any = None) -> Bench:
    bench = Bench(policy).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60)
    return bench.exits(signal=9)


def test_a_dead_attempt_is_not_killed_again_and_a_living_one_is_killed_after_its_evidence_is_saved() -> None:
    assert crashed().plan_kinds == ["Capture", "VerifyCheckpoint", "Quarantine", "StartAttempt"]
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    assert bench.plan_kinds == ["Capture", "KillAttempt", "VerifyCheckpoint", "Quarantine", "StartAttempt"]


def test_each_action_is_decided_when_the_one_before_it_is_confirmed() -> None:
    bench = crashed()
    seen = []
    while bench.state.plan is not None:
        (key,) = bench.state.pending
        seen.append(key)
        bench.done(key)
    assert seen == ["capture/1/2", "verify/2/50", "quarantine/2", "start/2"]


def test_a_confirmation_that_comes_twice_is_the_same_as_one() -> None:
    bench = crashed()
    bench.done("capture/1/2")
    assert bench.tell(ActionDone("capture/1/2")) == ()


def test_nothing_is_resumed_from_above_the_onset_and_the_poisoned_samples_are_skipped() -> None:
    bench = Bench().launched()
    for step in range(1, 71):
        bench.step(step)
        if step % 10 == 0:
            bench.checkpoint(step)
    bench.steps(71, 78, loss=8.0)
    assert bench.resumed_from == 50
    skip = bench.incident.tries[-1].remedy.skip
    assert skip == (SampleRange((71 - 1 - 4) * BATCH, (bench.incident.detected_step + 40) * BATCH),)
    bench.launched()
    assert bench.state.overrides.skip == skip


def test_without_any_checkpoint_the_run_starts_from_scratch() -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.exits(signal=9)
    assert bench.plan_kinds == ["Capture", "Quarantine", "StartAttempt"]
    assert bench.decided(a.StartAttempt)[-1].resume is None


def test_evidence_that_cannot_be_saved_does_not_stop_the_recovery() -> None:
    bench = crashed()
    bench.fails("capture", "disk full")
    assert [key.split("/")[0] for key in bench.state.pending] == ["verify"]
    assert any("evidence could not be saved" in fact.reason for fact in bench.of(f.Noted))


def test_lost_steps_are_counted_once_for_each_launch() -> None:
    bench = crashed()
    bench.launched()
    assert bench.incident.steps_lost == 10
    bench.steps(51, 55).exits(signal=9).launched()
    assert bench.incident.steps_lost == 15


@pytest.mark.parametrize(
    ("rungs", "kinds"),
    [
        ([{"wait": {"for": "5 steps"}}, {"resume": {"from": "newest"}}, PAGE], ["failed", "pending"]),
        ([{"page": {"severity": "warning"}}, {"resume": {"from": "newest"}}, PAGE], ["paged", "pending"]),
        ([{"page": {"severity": "warning"}, "resume": {"from": "newest"}}, PAGE], ["pending"]),
    ],
    ids=["nothing to wait for", "a page that goes on", "a page beside a resume"],
)
def test_a_crash_is_treated_whatever_comes_before_the_resume(rungs: list[Any], kinds: list[str]) -> None:
    bench = crashed(build_policy(playbooks={"restart": rungs}))
    assert [t.outcome for t in bench.incident.tries] == kinds
    assert bench.resumed_from == 50
    assert bench.state.plan is not None
    assert bool(bench.decided(a.SendPage)) == ("page" in str(rungs[0]))


def test_two_pages_of_one_incident_have_different_keys() -> None:
    bench = crashed(build_policy(playbooks={"restart": [{"page": {"severity": "warning"}}, PAGE]}))
    keys = [page.key for page in bench.decided(a.SendPage)]
    assert len(keys) == len(set(keys)) == 2
    assert bench.incident.pages == tuple(keys)


def test_a_hold_stops_the_attempt_and_waits_for_a_person() -> None:
    bench = Bench(build_policy(playbooks={"numeric": [{"hold": True}, PAGE]})).launched()
    bench.steps(1, 70).steps(71, 72, loss=8.0)
    bench.done("kill/1").exits(signal=9)
    assert (bench.state.label, bench.state.ended) == ("held", "")
    bench.wants_stop()
    assert bench.state.ended == "stopped"


def test_settings_alone_are_changed_without_a_relaunch_and_judged() -> None:
    bench = Bench(build_policy(playbooks={"numeric": [{"clip_norm": 0.3, "until": "100 steps"}, PAGE]})).launched()
    bench.steps(1, 70).steps(71, 72, loss=8.0)
    (write,) = bench.decided(a.WriteOverrides)
    due = bench.incident.break_step + 100  # sentinel takes it back then; the trainer by itself four probations later
    assert (write.overrides.clip_norm, write.overrides.decay) == (0.3, (Decay("clip_norm", due, 100),))
    assert write.overrides.until == (("clip_norm", due + 4 * bench.engine.policy.spec.probation.steps),)
    assert bench.incident.tries[-1].remedy.live
    bench.done("override")
    assert bench.incident.state is IncidentState.PROBATION
    assert bench.state.overrides.clip_norm == 0.3
    bench.steps(73, 140)
    assert bench.incident.state is IncidentState.RECOVERED


def test_a_change_that_was_being_written_when_the_attempt_died_does_not_keep_the_death_from_being_treated() -> None:
    bench = Bench(build_policy(playbooks={"numeric": [{"clip_norm": 0.3}, PAGE]})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 72, loss=8.0)
    bench.exits(signal=9)
    assert [i.kind for i in bench.state.incidents] == ["spike", "crash"]
    assert bench.plan_kinds[-1] == "StartAttempt"
    assert not any(key.startswith("override") for key in bench.state.pending)


def test_a_change_that_was_being_written_when_the_attempt_hung_does_not_hide_the_hang() -> None:
    bench = Bench(build_policy(playbooks={"numeric": [{"clip_norm": 0.3}, PAGE]})).launched()
    bench.steps(1, 70).steps(71, 72, loss=8.0)
    bench.beat("forward", 72).tick(400)
    assert [i.kind for i in bench.state.incidents] == ["spike", "hang"]
    assert "KillAttempt" in bench.plan_kinds


def test_settings_of_an_earlier_rung_are_not_carried_into_the_next_of_the_same_incident() -> None:
    rungs = [
        {"rollback": {"before_onset": "4 steps"}, "lr": "0.5x"},
        {"rollback": {"further": "2x"}, "clip_norm": 0.3},
        PAGE,
    ]
    bench = Bench(build_policy(playbooks={"non_finite": rungs})).launched()
    bench.steps(1, 40).checkpoint(40)
    bench.steps(41, 50).step(51, nan)
    bench.launched()
    assert bench.state.overrides.lr_scale == 0.5
    bench.steps(41, 50).step(51, nan)
    bench.launched()
    assert (bench.state.overrides.lr_scale, bench.state.overrides.clip_norm) == (None, 0.3)


def test_a_crash_keeps_the_settings_and_skips_that_are_in_force() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    bench.launched().steps(51, 60)
    skip = bench.state.overrides.skip
    bench.exits(signal=9).launched()
    assert bench.state.overrides.skip == skip


def test_a_second_finding_while_a_recovery_is_under_way_is_recorded_and_left_alone() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).step(61, nan, param_norm=nan)
    assert len(bench.state.incidents) == 1
    assert "a recovery is already under way" in [fact.reason for fact in bench.of(f.FindingRecorded)]
