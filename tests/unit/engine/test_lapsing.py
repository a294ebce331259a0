"""Settings with `until` go back to the schedule one at a time, the newest first, each watched; what brings the failure back is
put back for twice as long; and a trainer that nobody asks lapses them by itself, later."""

from __future__ import annotations

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import Decay, SettingsInForce
from sentinel.model.incidents import IncidentState
from tests.builders import Bench, build_policy

PAGE = {"page": {"severity": "critical"}, "then": "stop_now"}
PLAYBOOK = {"numeric": [{"wait": {"for": "60 steps", "until": "recovered"}}, {"rollback": {"before_onset": "20 steps"}}, PAGE]}
PROBATION = 60


def trained(to: int = 80, **policy: object) -> Bench:
    bench = Bench(build_policy(playbooks=PLAYBOOK, **policy)).launched()  # type: ignore[arg-type]
    return bench.steps(1, to)


def change(bench: Bench, key: str, value: float, until: int) -> None:
    """A person sets it for so many steps, and the trainer says that it holds."""
    assert bench.asks(w.ChangeSettings(SettingsInForce(**{key: value}), (key,), until)).granted  # type: ignore[arg-type]
    obeyed(bench)


def obeyed(bench: Bench) -> SettingsInForce:
    """The change under way is written, and the trainer answers."""
    write = bench.decided(a.WriteOverrides)[-1]
    if write.key in bench.state.pending:
        bench.done(write.key)
    bench.note("override_applied", bench.engine.detectors.newest_step, id=write.overrides.id)
    return write.overrides


def lapses(bench: Bench) -> list[tuple[str, ...]]:
    return [fact.keys for fact in bench.of(f.SettingLapsed)]


def verdicts(bench: Bench) -> list[tuple[str, str]]:
    return [(key, fact.outcome) for fact in bench.of(f.LapseJudged) for key in fact.keys]


def two_settings() -> Bench:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    change(bench, "clip_norm", 0.3, 15)
    return bench


def test_one_at_a_time_the_newest_first_each_with_a_probation() -> None:
    bench = two_settings()
    bench.steps(81, 94).tick()
    assert lapses(bench) == []
    bench.steps(95, 101).tick()
    assert lapses(bench) == [("clip_norm",)], "both are due; the newest goes first"
    written = obeyed(bench)
    assert (written.clip_norm, written.lr_scale) == (None, 0.5)
    bench.steps(102, 101 + PROBATION - 1).tick()
    assert lapses(bench) == [("clip_norm",)]
    bench.steps(101 + PROBATION, 101 + PROBATION).tick()
    assert verdicts(bench) == [("clip_norm", "proven")]
    bench.tick()
    assert lapses(bench) == [("clip_norm",), ("lr_scale",)]
    assert obeyed(bench).lr_scale is None
    bench.steps(102 + PROBATION, 102 + 2 * PROBATION).tick()
    assert verdicts(bench)[1:] == [("lr_scale", "proven")]
    assert bench.state.overrides.decay == ()


def test_the_trainers_own_lapse_lies_later_and_is_put_off_while_sentinel_cannot() -> None:
    bench = two_settings()
    spare = 4 * PROBATION
    assert dict(bench.state.overrides.until) == {"lr_scale": 100 + spare, "clip_norm": 95 + spare}
    bench.asks(w.PauseRun())
    bench.steps(81, 95 + spare - 10).tick()
    assert lapses(bench) == [], "paused: nothing is carried out"
    bench.asks(w.ResumeRun())
    bench.tick()
    assert lapses(bench) == [("clip_norm",)]
    obeyed(bench)
    start = bench.engine.detectors.newest_step
    bench.steps(start + 1, start + PROBATION).tick()
    assert verdicts(bench) == [("clip_norm", "proven")]


def test_while_anything_is_open_the_trainers_own_lapse_is_put_off() -> None:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    until = dict(bench.state.overrides.until)["lr_scale"]
    first = until - PROBATION
    bench.steps(81, first - 30)
    assert lapses(bench) == []  # no tick yet
    bench.steps(first - 29, first - 20, loss=8.0)
    assert bench.incident.state is IncidentState.OPEN
    bench.steps(first - 19, first, loss=8.0).tick()
    written = bench.decided(a.WriteOverrides)[-1].overrides
    assert written.lr_scale == 0.5
    assert dict(written.until)["lr_scale"] == first + 4 * PROBATION
    assert lapses(bench) == []


def brought_back() -> Bench:
    """A lower rate lapses at step 100, and the loss rises ten steps later."""
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 100).tick()
    obeyed(bench)
    bench.steps(101, 110).steps(111, 112, loss=8.0)
    return bench


def test_what_brings_the_failure_back_is_put_back_for_twice_as_long() -> None:
    bench = brought_back()
    assert verdicts(bench) == [("lr_scale", "failed")]
    assert bench.incident.put_back == ("lr_scale",)
    assert bench.state.overrides.decay == (Decay("lr_scale", 111 + 40, 40),)
    bench.tick()
    written = obeyed(bench)
    assert (written.lr_scale, dict(written.until)["lr_scale"]) == (0.5, 111 + 40 + 4 * PROBATION)
    assert bench.state.attempts[-1].overrides.lr_scale == 0.5


def test_a_second_finding_in_the_same_step_does_not_lose_what_was_put_back() -> None:
    bench = brought_back()
    bench.tick()
    assert bench.state.plan is not None
    bench.step(113, float("nan"))
    assert bench.state.plan is None or not bench.state.plan.is_live
    assert bench.state.overrides.lr_scale == 0.5, "it is still wanted, by a relaunch or the next write"


def test_a_relaunch_has_it_in_force_and_its_owner_stays_the_person() -> None:
    bench = brought_back()
    bench.checkpoint(50)
    bench.tick()
    obeyed(bench)
    bench.steps(113, 180, loss=8.0)
    assert bench.state.plan is not None, "patience has run out: the playbook rolls back"
    bench.launched()
    launched = bench.state.attempts[-1].overrides
    assert (launched.lr_scale, launched.owners, launched.decay) == (0.5, (("lr_scale", 0),), (Decay("lr_scale", 151, 40),))


def test_an_incident_after_the_probation_puts_nothing_back() -> None:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 100).tick()
    obeyed(bench)
    bench.steps(101, 100 + PROBATION).tick()
    bench.steps(101 + PROBATION, 120 + PROBATION).steps(121 + PROBATION, 122 + PROBATION, loss=8.0)
    assert verdicts(bench) == [("lr_scale", "proven")]
    assert bench.state.overrides.lr_scale is None


def test_a_restarted_supervisor_goes_on_with_the_probation() -> None:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 100).tick()
    obeyed(bench)
    bench.steps(101, 110)
    bench.die()
    assert bench.state.lapse is not None
    bench.steps(111, 112, loss=8.0)
    assert verdicts(bench) == [("lr_scale", "failed")]
    assert len(lapses(bench)) == 1


@pytest.mark.parametrize("way", ["refused", "silent"])
def test_a_trainer_that_does_not_take_it_back_is_left_to_its_own_until_and_the_run_goes_on(way: str) -> None:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 100).tick()
    write = bench.decided(a.WriteOverrides)[-1]
    bench.done(write.key)
    if way == "refused":
        bench.note("override_refused", 101, id=write.overrides.id, keys=["lr_scale"], reason="not now")
    else:
        bench.steps(101, 170).tick()
    assert verdicts(bench) == [("lr_scale", "refused")]
    assert bench.state.incidents == ()
    assert (bench.state.overrides.lr_scale, bench.state.overrides.decay) == (0.5, ())
    assert dict(bench.state.overrides.until) == {"lr_scale": 100 + 4 * PROBATION}
    bench.steps(171, 200).tick()
    assert len(lapses(bench)) == 1


def test_what_the_trainer_lapsed_by_itself_is_watched_too() -> None:
    bench = two_settings()
    bench.steps(81, 90)
    bench.note("override_lapsed", 91, keys=["lr_scale", "clip_norm"])
    assert lapses(bench) == [("lr_scale", "clip_norm")]
    assert (bench.state.overrides.lr_scale, bench.state.overrides.clip_norm) == (None, None)
    bench.steps(91, 99).steps(100, 101, loss=8.0)
    assert verdicts(bench) == [("lr_scale", "failed"), ("clip_norm", "failed")]
    assert (bench.state.overrides.lr_scale, bench.state.overrides.clip_norm) == (0.5, 0.3)


def test_a_setting_made_anew_in_the_probation_is_left_alone() -> None:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 100).tick()
    obeyed(bench)
    bench.steps(101, 105)
    assert bench.asks(w.ChangeSettings(SettingsInForce(lr_scale=0.8), ("lr_scale",))).granted
    obeyed(bench)
    bench.tick()
    assert verdicts(bench) == [("lr_scale", "overtaken")]
    assert bench.state.overrides.lr_scale == 0.8


def test_a_lapse_that_was_overtaken_before_it_was_written_is_still_due() -> None:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 100).tick()
    bench.fails("override/", "no such file")
    bench.tick()
    assert verdicts(bench) == [("lr_scale", "overtaken")]
    assert bench.state.overrides.lr_scale == 0.5
