"""A trainer that does not know an argument which Sentinel has added: it is left out, and training goes on."""

from __future__ import annotations

from sentinel.model import facts as f
from sentinel.model.attempts import SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.model.operator_requests import RollBack
from sentinel.model.readings import LogTail
from tests.builders import Bench, build_policy
from tests.unit.engine.test_passing_over import PAGE, ROLLBACK, spiked

CLIPS = {**ROLLBACK, "clip_norm": 0.3}
SKIPS = {**ROLLBACK, "skip": {"from": "onset", "to": "detected"}}
ARGUMENTS = (("clip_norm", ("--clip",)), ("resume", ("--resume",)), ("skip", ("--skip-batches",)))


def bench_of(*rungs: dict[str, object]) -> Bench:
    policy = build_policy({"numeric": [*rungs, PAGE]})
    return Bench(policy, without=("live_overrides",), settable=("clip_norm",), arguments=ARGUMENTS)


def refuses(bench: Bench, words: str) -> Bench:
    """The attempt that is being launched ends before its first step, as argparse ends a program."""
    bench.launched(receipt=False)
    bench.tell(LogTail(bench.number, None, ("usage: train.py [-h]", f"train.py: error: unrecognized arguments: {words}")))
    return bench.exits(code=2)


def spike_of(bench: Bench) -> Incident:
    return next(one for one in bench.state.incidents if one.kind is Kind.SPIKE)


def test_the_rung_is_passed_over_with_the_trainers_own_words_and_the_next_is_taken() -> None:
    bench = refuses(spiked(bench_of(CLIPS, ROLLBACK)), "--clip 0.3")
    first, second = spike_of(bench).tries
    assert (first.outcome, second.outcome) == (Outcome.PASSED_OVER, Outcome.PENDING)
    assert second.remedy.rung == 1
    (judged,) = (fact for fact in bench.of(f.RungJudged) if fact.outcome is Outcome.PASSED_OVER)
    assert judged.reason == "the trainer refuses --clip: train.py: error: unrecognized arguments: --clip 0.3"
    bench.launched()
    assert bench.state.overrides.clip_norm is None
    assert [one.kind for one in bench.state.incidents] == [Kind.SPIKE], "nothing has crashed, and nobody is called"


def test_a_later_rung_that_needs_it_is_passed_over_without_a_launch() -> None:
    bench = refuses(spiked(bench_of(CLIPS, {**CLIPS, "clip_norm": 0.1}, ROLLBACK)), "--clip 0.3")
    assert [one.outcome for one in spike_of(bench).tries] == [Outcome.PASSED_OVER, Outcome.PASSED_OVER, Outcome.PENDING]
    assert spike_of(bench).tries[1].reason == "the trainer refused its argument --clip (attempt 2)"
    assert bench.state.refusal_of("setting clip_norm") == "the trainer refused its argument --clip (attempt 2)"
    assert bench.state.refusal_of("skip") == ""
    assert bench.launched().number == 3


def test_what_was_to_be_left_out_is_left_out_no_more() -> None:
    bench = refuses(spiked(bench_of(SKIPS, ROLLBACK)), "--skip-batches 51 52")
    assert bench.state.overrides.skip == ()
    assert "skip" not in bench.state.abilities
    assert spike_of(bench).tries[-1].remedy.rung == 1


def test_the_rung_is_taken_again_where_it_was_not_the_one_that_asked() -> None:
    """A person rolled it back with a clipping norm."""
    bench = bench_of(ROLLBACK)
    bench.launched().steps(1, 50).checkpoint(50)
    bench.asks(RollBack(50, SettingsInForce(clip_norm=0.3), ("clip_norm",)))
    refuses(bench, "--clip 0.3")
    assert bench.state.overrides.clip_norm is None
    bench.launched()
    assert (bench.number, bench.resumed_from) == (3, 50)
    assert bench.state.incidents == ()


def test_how_it_is_to_go_on_cannot_be_left_out_and_the_first_refusal_is_the_last() -> None:
    bench = refuses(spiked(bench_of(ROLLBACK, ROLLBACK)), "--resume /ck/step-50")
    (told,) = (one for one in bench.state.incidents if one.kind is Kind.BROKEN_JOB)
    assert told.reason.startswith("the trainer refuses --resume, by which its profile makes it go on from a checkpoint: ")
    assert told.state is IncidentState.EXHAUSTED
    assert bench.number == 2, "no third launch"


def test_an_argument_of_the_users_own_and_other_deaths_are_crashes_as_before() -> None:
    bench = refuses(spiked(bench_of(CLIPS, ROLLBACK)), "--data /nowhere")
    assert not bench.of(f.ArgumentsRefused)
    bench = spiked(bench_of(CLIPS, ROLLBACK)).launched()
    bench.tell(LogTail(bench.number, None, ("train.py: error: unrecognized arguments: --clip 0.3",)))
    bench.exits(code=2)
    assert not bench.of(f.ArgumentsRefused), "it had begun, so that it took them"


def test_the_next_supervisor_knows_it_and_a_person_who_starts_it_again_may_have_mended_it() -> None:
    bench = refuses(spiked(bench_of(CLIPS, CLIPS, PAGE)), "--clip 0.3")
    assert bench.die().state.settable == ()
    bench.arguments = (("clip_norm", ("--clip-norm",)),)
    assert bench.die().state.settable == ("clip_norm",)
