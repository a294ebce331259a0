"""Checkpoints that are passed over: for their numbers, for the trainer's refusal, for failures that come again."""

from __future__ import annotations

from math import nan

import pytest

from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.events import ActionDone
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import LogTail
from sentinel.model.saved import BadTensor, SavedNorm, SavedNumbers, SavedValues
from sentinel.plan.trust import judge_trust
from tests.builders import RESTART, Bench, build_policy

ROWS = tuple((step, 30.0) for step in range(1, 80))
OUTSIDE = {
    "out of memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "lost GPU": "RuntimeError: No CUDA GPUs are available",
    "import": "ModuleNotFoundError: No module named 'flash_attn'",
    "disk full": "OSError: [Errno 28] No space left on device",
    "preemption": "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO PREEMPTION ***",
    "timeout": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)",
    "peer": "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:4711",
}


def crashed(bench: Bench | None = None) -> Bench:
    bench = bench or Bench()
    bench.launched().steps(1, 20).checkpoint(20).steps(21, 40).checkpoint(40).steps(41, 60).checkpoint(60).steps(61, 70)
    return bench.exits(signal=9)


def told(norm: float, step: int = 60, **numbers: float) -> SavedNumbers:
    return SavedNumbers(
        "d", "3 files match", (("param_norm", norm), *numbers.items()), SavedNorm(step, norm, ROWS), SavedNorm(40, 30.0, ROWS)
    )


def foreign(*bad: BadTensor) -> SavedNumbers:
    """Of a trainer whose manifests tell no numbers: its files were looked into."""
    return SavedNumbers("d", "3 files match", values=SavedValues(1, 5000, bad))


def word(bench: Bench, step: int) -> str:
    trust = {trust.checkpoint.step: trust for trust in judge_trust(bench.state, 60)}[step]
    return f"{trust.word}: {trust.reason}"


# Its numbers.


@pytest.mark.parametrize(
    ("saved", "says"), [(told(27.0), "param_norm 27, recorded 30 at step 61"), (told(nan), "param_norm of its state is nan")]
)
def test_numbers_that_do_not_hold_pass_it_over_like_damage_with_value_and_expectation(saved: SavedNumbers, says: str) -> None:
    bench = crashed().done("capture")
    bench.tell(ActionDone(bench.key("verify/2/60"), "d", saved))
    assert bench.resumed_from == 40
    assert word(bench, 60).startswith(f"damaged: {says}")
    assert [fact.evidence for fact in bench.of(f.CheckpointCondemned)] in (["norm"], ["numbers"])
    bench.done("capture")
    bench.tell(ActionDone(bench.key("verify/2/40"), "d", told(30.0, 40)))
    assert word(bench, 40) == "verified: 3 files match; param_norm 30, recorded 30 at step 41 (at most 0.15 apart was expected)"
    bench.launched()
    assert bench.state.attempts[-1].resumed_step == 40
    assert [t.remedy.words for t in bench.incident.tries] == [("resume",)], "the same rung, from the next older one"


def test_a_checkpoint_with_nan_in_its_weights_is_passed_over_though_its_manifest_tells_nothing() -> None:
    bench = crashed().done("capture")
    bench.tell(ActionDone(bench.key("verify/2/60"), "d", foreign(BadTensor("m.safetensors", "w", 5000, 3, 0, True))))
    assert bench.resumed_from == 40
    assert word(bench, 60).startswith("damaged: 3 of 5,000 values of m.safetensors (w) are not finite")
    assert [fact.evidence for fact in bench.of(f.CheckpointCondemned)] == ["numbers"]
    bench.done("capture")
    bench.tell(ActionDone(bench.key("verify/2/40"), "d", foreign()))
    assert word(bench, 40).startswith("verified: 3 files match; its manifest tells no numbers; all 5,000 values of its tensors")


def test_when_none_holds_a_person_is_called() -> None:
    bench = crashed()
    for step in (60, 40, 20):
        bench.done("capture")
        bench.tell(ActionDone(bench.key(f"verify/2/{step}"), "d", told(nan, step)))
    assert bench.state.ended == "failed"
    assert len(bench.state.attempts) == 1
    bench.done("page").die()
    assert bench.resumed_from == 60, "a person may have mended it: it is looked at again"


def test_what_was_verified_is_said_after_a_restart_of_the_supervisor_too() -> None:
    bench = crashed().done("capture")
    bench.tell(ActionDone(bench.key("verify"), "d", told(30.0)))
    bench.die()
    assert word(bench, 60).startswith("verified: 3 files match; param_norm 30")


def test_a_moved_checkpoint_is_listed_as_quarantined() -> None:
    bench = crashed().done("capture").fails("verify/2/60", "sha256 differs")
    bench.launched()
    assert word(bench, 60).startswith("quarantined: moved aside: ")


# The trainer's refusal.


def test_what_the_trainer_passed_over_is_not_asked_for_again_until_it_is_saved_anew() -> None:
    bench = crashed()
    bench.launched(receipt=False).receipt(resume_step=40)
    bench.note("resumed_older", 40, passed_over=[{"step": 60, "reason": "its weights are not those of its manifest"}])
    assert word(bench, 60) == "damaged: the trainer passed it over: its weights are not those of its manifest"
    for passed_over in (None, 60, [60], [{"step": "x"}], [{}], [{"step": 60}]):
        bench.note("resumed_older", 40, passed_over=passed_over)
    assert len(bench.of(f.CheckpointCondemned)) == 1
    bench.steps(41, 50).exits(signal=9)
    assert bench.resumed_from == 40
    bench.launched().steps(41, 60).checkpoint(60)
    assert word(bench, 60).startswith("candidate")
    bench.note("resumed_older", 40, passed_over=[{"step": 60, "reason": "read again by another supervisor"}])
    assert word(bench, 60).startswith("candidate")


# Failures that come again.


def fails_to_load(bench: Bench, line: str = "", code: int = 1) -> Bench:
    bench.launched(receipt=False)
    if line:
        bench.tell(LogTail(bench.number, 0, (line,)))
    return bench.exits(code=code)


def test_one_that_two_attempts_die_loading_is_passed_over_and_the_rung_is_taken_again() -> None:
    bench = crashed()
    fails_to_load(bench, "_pickle.UnpicklingError: invalid load key, '\\x00'.")
    assert bench.resumed_from == 60, "once may be chance"
    fails_to_load(bench, "_pickle.UnpicklingError: invalid load key, '\\x00'.")
    assert bench.resumed_from == 40
    condemned = bench.of(f.CheckpointCondemned)[-1]
    assert (condemned.step, condemned.damaged, condemned.evidence) == (60, False, "failures")
    assert word(bench, 60).startswith(
        "suspect: attempts 2 and 3, which resumed from it, failed alike (crash) before their first step"
    )
    bench.launched().steps(41, 140)
    assert bench.incident.state is IncidentState.RECOVERED
    assert [t.remedy.rung for t in bench.incident.tries] == [0, 1, 1]


@pytest.mark.parametrize("line", OUTSIDE.values(), ids=OUTSIDE)
def test_a_cause_outside_never_blames_it(line: str) -> None:
    bench = crashed()
    for _ in range(2):
        fails_to_load(bench, line)
    assert bench.of(f.CheckpointCondemned) == []
    assert all(finding.finding.outside for finding in bench.of(f.FindingRecorded))


@pytest.mark.parametrize(("signal", "blames"), [(9, False), (15, False), (11, True), (6, True)])
def test_a_signal_of_its_own_may_come_from_what_was_loaded_and_one_from_outside_never(signal: int, blames: bool) -> None:
    bench = crashed()
    for _ in range(2):
        bench.launched(receipt=False).beat("init").exits(signal=signal)
    assert bool(bench.of(f.CheckpointCondemned)) is blames


def test_a_node_that_kills_every_load_costs_one_checkpoint_and_no_more() -> None:
    bench = crashed()
    for _ in range(3):
        fails_to_load(bench)
    assert [fact.step for fact in bench.of(f.CheckpointCondemned)] == [60]
    assert bench.state.attempts[-1].resumed_step == 40
    assert bench.state.ended == "failed", "without_progress calls a person"
    assert len(bench.decided(a.StartAttempt)) == 4


def test_with_a_budget_without_end_it_still_stops_at_one() -> None:
    rungs = [{"resume": {"from": "newest"}}] * 8 + RESTART[-1:]
    policy = build_policy({"restart": rungs}, budget={"without_progress": 50, "backoff": "1s..1m"}, rules=only_crash())
    bench = crashed(Bench(policy))
    for _ in range(8):
        fails_to_load(bench)
    assert [fact.step for fact in bench.of(f.CheckpointCondemned)] == [60]


def only_crash() -> list[dict[str, object]]:
    return [{"alert": "Crash", "on": "crash", "labels": {"severity": "critical"}, "playbook": "restart"}]


def test_it_must_come_soon_after_the_resume() -> None:
    bench = crashed()
    for _ in range(2):
        bench.launched().steps(61, 75)
        bench.exits(code=1)
    assert bench.of(f.CheckpointCondemned) == []


def test_values_that_are_no_number_right_after_it_count_as_well() -> None:
    """The ladder would go back to the same one again, for none lies as far before the onset as it asks."""
    rungs = [{"rollback": {"before_onset": "1 step"}}] * 3 + RESTART[-1:]
    bench = Bench(build_policy({"non_finite": rungs})).launched()
    bench.steps(1, 20).checkpoint(20).steps(21, 40).checkpoint(40).steps(41, 59).step(60, nan)
    for _ in range(2):
        assert bench.resumed_from == 40
        bench.launched().steps(41, 42).step(43, nan)
    assert bench.resumed_from == 20
    assert bench.of(f.CheckpointCondemned)[-1].reason.startswith(
        "attempts 2 and 3, which resumed from it, failed alike (non_finite)"
    )


def test_observe_only_passes_nothing_over() -> None:
    bench = Bench(observe_only=True).launched()
    bench.steps(1, 20).checkpoint(20).exits(code=1)
    assert bench.of(f.CheckpointCondemned) == []


def test_a_person_who_starts_the_run_again_has_it_tried_again() -> None:
    bench = crashed()
    for _ in range(3):
        fails_to_load(bench)
    assert word(bench, 40).startswith("verified")
    bench.done("page").die()
    assert bench.resumed_from == 40


def test_a_supervisor_that_dies_anywhere_decides_the_same() -> None:
    def journal(dies_after: int) -> list[f.CheckpointCondemned]:
        bench = crashed()
        bench.told, bench.dies_after = 0, dies_after
        for _ in range(2):
            fails_to_load(bench)
        return bench.of(f.CheckpointCondemned)

    assert all(journal(after) == journal(0) for after in range(1, 14))


# The journal.


def test_old_journals_load() -> None:
    old = decode_fact("CheckpointCondemned", '{"step":60,"reason":"sha256 differs","damaged":true}')
    assert old == f.CheckpointCondemned(60, "sha256 differs", True, "")
    kind, body = encode_fact(f.CheckpointCondemned(60, "x", False, "failures"))
    assert decode_fact(kind, body) == f.CheckpointCondemned(60, "x", False, "failures")
