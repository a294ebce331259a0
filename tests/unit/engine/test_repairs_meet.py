"""Where repairs that know nothing of each other meet: a lapse and a pause, a stop and a change being written, a rung taken again
and what it had done before."""

from __future__ import annotations

from typing import Any

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import Decay, SampleRange, SettingsInForce
from sentinel.model.events import ActionDone
from sentinel.model.incidents import Outcome
from sentinel.plan.decay import put_back
from tests.builders import Bench, build_policy
from tests.unit.engine.test_exclusion import EXCLUDE, PAGE, RULES, Cluster, starts
from tests.unit.engine.test_lapsing import PLAYBOOK, change, lapses, obeyed, trained, verdicts
from tests.unit.engine.test_sample_attribution import spiking


def writes(bench: Bench) -> list[a.WriteOverrides]:
    return bench.decided(a.WriteOverrides)


def lapsing() -> Bench:
    """A lower rate is due at step 100; its lapse is decided, and not written yet."""
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 100).tick()
    assert bench.state.plan is not None
    return bench


# A lapse, and what happens while it is written or watched.


def test_a_lapse_that_may_have_been_written_when_it_was_overtaken_is_put_back_in_any_case() -> None:
    bench = lapsing()
    lapse = writes(bench)[-1]
    bench.steps(101, 102, loss=8.0)
    assert verdicts(bench) == [("lr_scale", "failed")]
    bench.tell(ActionDone(lapse.key))  # it was: the trainer has it
    bench.tick()
    assert writes(bench)[-1] is not lapse
    assert obeyed(bench).lr_scale == 0.5


def test_an_answer_that_comes_after_it_was_put_back_does_not_take_it_away_again() -> None:
    bench = lapsing()
    lapse = writes(bench)[-1]
    bench.done(lapse.key).steps(101, 102, loss=8.0)
    assert verdicts(bench) == [("lr_scale", "failed")]
    bench.note("override_applied", 102, id=lapse.overrides.id)
    bench.tick()
    assert (obeyed(bench).lr_scale, bench.state.overrides.lr_scale) == (0.5, 0.5)


def test_in_a_pause_it_fails_too_and_is_put_back_when_the_pause_ends() -> None:
    bench = lapsing()
    obeyed(bench)
    bench.steps(101, 110)
    assert bench.asks(w.PauseRun()).granted
    bench.steps(111, 112, loss=8.0).tick()
    assert verdicts(bench) == [("lr_scale", "failed")]
    known = writes(bench)
    bench.tick()
    assert writes(bench) == known, "nothing is carried out"
    assert bench.asks(w.ResumeRun()).granted
    bench.tick()
    assert writes(bench)[-1].overrides.lr_scale == 0.5


def lapsed_by_trainer_and_put_back() -> Bench:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.steps(81, 90)
    bench.note("override_lapsed", 91, keys=["lr_scale"])
    bench.steps(91, 99).steps(100, 101, loss=8.0)
    assert verdicts(bench) == [("lr_scale", "failed")]
    return bench


def test_a_restarted_supervisor_that_hears_of_the_trainers_own_lapse_again_does_not_take_it_for_a_new_one() -> None:
    bench = lapsed_by_trainer_and_put_back()
    bench.tick()
    assert obeyed(bench).lr_scale == 0.5
    bench.steps(102, 106)
    bench.die()
    assert (bench.state.overrides.lr_scale, len(lapses(bench))) == (0.5, 1)


def test_nor_does_one_that_died_before_it_was_written_back() -> None:
    bench = lapsed_by_trainer_and_put_back()
    bench.die()
    bench.tick()
    assert (obeyed(bench).lr_scale, len(lapses(bench))) == (0.5, 1)


def test_steps_trained_again_without_it_are_not_counted_below_nothing() -> None:
    bench = trained()
    change(bench, "lr_scale", 0.5, 20)
    bench.checkpoint(80).steps(81, 100).tick()
    obeyed(bench)
    bench.steps(101, 110).exits(signal=9)
    bench.launched().steps(81, 88).steps(89, 90, loss=8.0)
    assert "(spike) on steps trained again without it: put back" in bench.of(f.LapseJudged)[-1].reason


def test_what_is_put_back_brings_no_skips_of_an_order_that_is_over() -> None:
    had = SettingsInForce(
        lr_scale=0.5, skip=(SampleRange(10, 20),), owners=(("lr_scale", 1),), decay=(Decay("lr_scale", 100, 20),)
    )
    back = put_back(SettingsInForce(data_seed=7), had, ("lr_scale",), 110, 240)
    assert (back.lr_scale, back.skip, back.decay) == (0.5, (), (Decay("lr_scale", 150, 40),))


def test_while_a_lapse_is_written_the_run_trains() -> None:
    assert lapsing().state.label == "training"


def test_a_stop_that_waited_for_a_change_goes_on_when_the_change_is_overtaken() -> None:
    bench = lapsing()
    bench.wants_stop()
    assert bench.decided(a.RequestStop) == []
    bench.steps(101, 102, loss=8.0).tick()
    assert bench.state.plan is None
    assert [stop.request for stop in bench.decided(a.RequestStop)] == ["stop_now"]
    bench.exits(code=6)
    assert bench.state.ended == "stopped"


# A rung that is taken again.


def fails_again_and_again() -> Cluster:
    """The rung that leaves n1 out has failed twice with the checkpoint of step 40, before a rank was heard from."""
    rungs: list[dict[str, Any]] = [{"resume": {"from": "newest"}}, EXCLUDE, PAGE]
    bench = Cluster(build_policy(playbooks={"restart": rungs}, rules=RULES, without=("numeric", "non_finite", "call")))
    bench.launched()
    bench.beats("n1", "n2")
    bench.steps(1, 40).checkpoint(20).checkpoint(40).steps(41, 60).exits(signal=9)
    bench.launched(receipt=False).beat("init").exits(code=1)
    return bench


def test_an_attempt_that_died_unheard_does_not_make_the_blamed_node_the_only_one() -> None:
    bench = fails_again_and_again()
    assert [one.node for one in bench.state.excluded] == ["n1"]
    bench.launched(receipt=False)
    assert starts(bench)[-1] == ("n1",)


def test_a_rung_taken_again_for_its_checkpoint_still_leaves_its_node_out() -> None:
    bench = fails_again_and_again()
    bench.launched(receipt=False).beat("init").exits(code=1)
    assert bench.resumed_from == 20, "the same rung, from the next older checkpoint"
    assert [one.outcome for one in bench.incident.tries] == [Outcome.FAILED, Outcome.FAILED, Outcome.PENDING]
    bench.launched()
    assert starts(bench)[-1] == ("n1",)
    assert len(bench.of(f.NodeExcluded)) == 1


def test_a_new_data_order_keeps_its_seed_when_the_checkpoint_is_passed_over_and_says_which() -> None:
    rungs = [PLAYBOOK["numeric"][0], {"rollback": {"before_onset": "20 steps"}, "reseed_data": True}, PAGE]
    bench = Bench(build_policy(playbooks={"numeric": rungs})).launched()
    bench.steps(1, 70).checkpoint(25).checkpoint(50).steps(71, 140, loss=8.0)
    bench.done("capture").done("kill/1").exits(signal=9)
    bench.fails("verify", "sha256 differs")
    bench.launched()
    launched = bench.state.attempts[-1]
    assert launched.resumed_step == 25
    assert f"a new data order, seed {launched.overrides.data_seed};" in launched.why


def test_a_window_that_a_stop_left_unlooked_at_is_skipped_whole_and_says_so() -> None:
    """The supervisor is killed during the stop, so the next one goes on with the plan."""
    bench = spiking()
    bench.wants_stop()
    bench.die()
    bench.launched()
    launched = bench.state.attempts[-1]
    (all_of_it,) = launched.overrides.skip
    said = f"so all of samples {all_of_it.start}..{all_of_it.end} are skipped"
    assert launched.why.endswith(f"not looked at, stopped by SIGTERM; {said}")
