"""The engine and an inspection: asked for before the launch, given up when it takes too long, never waited for by a stop."""

from __future__ import annotations

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import SampleRange
from sentinel.model.events import ActionDone
from sentinel.model.records import Attribution
from sentinel.policy.schema import Policy
from tests.builders import NUMERIC, Bench, build_policy

WITHIN_S = 120.0


def policy(**skip: str) -> Policy:
    wait, first, *rest = NUMERIC
    first = {**first, "skip": {**first["skip"], "only": "guilty", "within": "2m"}}
    return build_policy(playbooks={"numeric": [wait, first, *rest]})


def spiking() -> Bench:
    """Up to the inspection: the attempt is dead, the checkpoint verified."""
    bench = Bench(policy()).launched()
    bench.steps(1, 70).checkpoint(25).checkpoint(50)
    bench.steps(71, 78, loss=8.0)
    for prefix in ("capture", "kill/1"):
        bench.done(prefix)
    bench.exits(signal=9).done("verify")
    assert list(bench.state.pending) == ["inspect/2"]
    return bench


def answer(bench: Bench, found: Attribution) -> None:
    bench.tell(ActionDone("inspect/2", "", found))


def guilty(bench: Bench) -> Attribution:
    (action,) = bench.decided(a.InspectSamples)
    return Attribution("guilty", "2 of 700 samples are guilty", 2, action.suspect, (SampleRange(1130, 1132),), 2, 700)


def test_it_asks_for_the_window_and_for_good_samples_before_it() -> None:
    bench = spiking()
    (action,) = bench.decided(a.InspectSamples)
    (samples,) = action.samples
    assert action.resume is not None
    assert (action.resume.step, action.attempt, action.within_s) == (50, 2, WITHIN_S)
    assert samples.start == action.suspect.start - 256
    assert action.overrides.skip == (), "without the rung's own skip"
    assert bench.state.next_attempt == 3
    assert bench.plan_kinds == [
        "Capture", "KillAttempt", "VerifyCheckpoint", "InspectSamples", "KillAttempt", "Quarantine", "StartAttempt",
    ]  # fmt: skip


def test_the_guilty_alone_are_skipped_and_what_was_done_says_so() -> None:
    bench = spiking()
    answer(bench, guilty(bench))
    assert list(bench.state.pending) == ["kill/2"], "nothing of it lives when training does"
    bench.launched()
    assert bench.state.overrides.skip == (SampleRange(1130, 1132),)
    last = bench.incident.tries[-1]
    assert (last.remedy.skip, last.attempt, last.remedy.rollback_to_step) == ((SampleRange(1130, 1132),), 3, 50)
    assert "2 of 700 samples are guilty; skip samples 1130..1132" in last.remedy.reason
    assert [attempt.attempt for attempt in bench.state.attempts] == [1, 3]
    assert len(bench.state.restarts_s) == 1, "looking is no restart"


def test_too_late_an_answer_changes_nothing() -> None:
    bench = spiking()
    (action,) = bench.decided(a.InspectSamples)
    bench.tick(WITHIN_S - 5)
    assert "inspect/2" in bench.state.pending
    bench.tick(6)
    assert list(bench.state.pending) == ["kill/2"]
    answer(bench, guilty(bench))
    bench.launched()
    assert bench.state.overrides.skip == (action.suspect,)
    assert bench.incident.attribution is not None
    assert bench.incident.attribution.reason == "the inspection was not done within 2 min"


def test_the_deadline_outlives_the_supervisor() -> None:
    bench = spiking()
    bench.die(down_s=WITHIN_S + 1)
    bench.tick()
    assert list(bench.state.pending) == ["kill/2"]


def test_a_failure_is_no_crash_of_the_run() -> None:
    bench = spiking().fails("inspect", "the inspection (attempt 2) failed: RuntimeError")
    bench.launched()
    assert [i.kind for i in bench.state.incidents] == ["spike"]
    assert bench.state.without_progress == 0
    (action,) = bench.decided(a.InspectSamples)
    assert bench.state.overrides.skip == (action.suspect,)


def test_a_stop_ends_it_at_once_and_the_rung_looks_again_under_another_number() -> None:
    bench = spiking()
    bench.wants_stop()
    assert list(bench.state.pending) == ["kill/2"]
    bench.done("kill/2")
    assert bench.state.ended == "stopped"
    assert bench.of(f.Attributed) == []
    bench.die()
    bench.done("capture").done("verify")
    assert list(bench.state.pending) == ["inspect/3"]


def test_what_was_found_is_not_asked_for_twice() -> None:
    bench = spiking()
    answer(bench, guilty(bench))
    bench.wants_stop()
    bench.done("kill/2")
    assert bench.state.ended == "stopped"
    bench.die().launched()
    assert bench.state.overrides.skip == (SampleRange(1130, 1132),)
    assert len(bench.decided(a.InspectSamples)) == 1


def test_a_damaged_checkpoint_is_passed_over_before_anything_is_looked_at() -> None:
    bench = Bench(policy()).launched()
    bench.steps(1, 70).checkpoint(25).checkpoint(50)
    bench.steps(71, 78, loss=8.0)
    bench.done("capture").done("kill/1").exits(signal=9)
    bench.fails("verify", "sha256 differs").done("capture").done("verify")
    (action,) = bench.decided(a.InspectSamples)
    assert action.resume is not None
    assert action.resume.step == 25


def test_a_wider_window_of_a_later_rung_is_skipped_whole() -> None:
    bench = spiking()
    answer(bench, guilty(bench))
    bench.launched().steps(51, 70)
    bench.steps(71, 78, loss=8.0)
    bench.launched()
    assert len(bench.decided(a.InspectSamples)) == 1
    widest = max(span.end - span.start for span in bench.state.overrides.skip)
    assert widest > 700
