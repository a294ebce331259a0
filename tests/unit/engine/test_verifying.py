"""How a checkpoint is verified before a resume, what is expected of it, and who may go by that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import Vouched
from sentinel.model.events import ActionDone
from sentinel.model.readings import CheckpointRead, CheckpointReading
from sentinel.model.saved import BadTensor, How, ReadBack, SavedNumbers, SavedValues
from sentinel.plan.trust import judge_trust
from sentinel.plan.verifying import VOUCHED_S
from sentinel.policy.schema import Checkpoints
from tests.builders import Bench, build_policy

TB = 10**12
DIGEST = "1-60"


def crashed(how: How = "full", size: int = 0, *readings: CheckpointRead) -> Bench:
    """One that died at step 70, of which checkpoints of steps 20, 40 and 60 are known."""
    bench = Bench(policy=build_policy(checkpoints=Checkpoints(verify=how)))
    bench.launched().steps(1, 20).checkpoint(20).steps(21, 40).checkpoint(40).steps(41, 60)
    bench.tell(CheckpointReading(60, "checkpoints/step-00000060", 1, 60 * 8, DIGEST, size))
    for reading in readings:
        bench.tell(reading)
    bench.steps(61, 70).exits(signal=9)
    return bench


def saved(read: ReadBack | None, digest: str = DIGEST, *bad: BadTensor) -> SavedNumbers:
    return SavedNumbers(digest, "3 files match", values=SavedValues(1, 5000, bad), read=read)


def read(how: How = "full", seconds: float = 100.0) -> ReadBack:
    return ReadBack(how, 3, TB, 3, TB, seconds=seconds)


def asked(bench: Bench) -> a.VerifyCheckpoint:
    return bench.decided(a.VerifyCheckpoint)[-1]


def started(bench: Bench) -> a.StartAttempt:
    return bench.decided(a.StartAttempt)[-1]


def verified(bench: Bench, found: SavedNumbers) -> Bench:
    bench.done("capture")
    bench.tell(ActionDone(bench.key("verify/2/60"), "", found))
    return bench


@pytest.mark.parametrize("how", ["full", "sampled", "remembered"])
def test_the_policy_says_how_and_the_journal_what_was_read(how: How) -> None:
    bench = crashed(how).done("capture")
    assert asked(bench).how == how
    bench.tell(ActionDone(bench.key("verify/2/60"), "", saved(read(how))))
    facts = bench.of(f.CheckpointVerified)
    assert facts == [f.CheckpointVerified(60, DIGEST, read(how), "verify/2/60")]
    assert decode_fact(*encode_fact(facts[0])) == facts[0]


def test_nothing_is_expected_before_anything_was_measured() -> None:
    bench = crashed(size=TB).done("capture")
    assert asked(bench).expected_s is None
    assert asked(bench).words == "verify every byte of the checkpoint of step 60"


def behind(seconds: float = 500.0) -> CheckpointRead:
    return CheckpointRead(60, DIGEST, saved(read("remembered", seconds)))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("full", "verify every byte of the checkpoint of step 60, about 8 min 20 s (1.0 TB at 2.0 GB/s)"),
        ("sampled", "verify the checkpoint of step 60, in samples where it is remembered, about 31 s (62.5 GB at 2.0 GB/s)"),
        ("remembered", "verify the checkpoint of step 60, reading what is not remembered"),
    ],
)
def test_what_is_expected_follows_from_the_size_and_the_rate_of_an_earlier_reading(how: How, words: str) -> None:
    assert asked(crashed(how, TB, behind()).done("capture")).words == words


def test_the_rate_of_a_resume_counts_more_than_that_behind_training() -> None:
    bench = verified(crashed("full", TB, behind()), saved(read(seconds=250.0)))
    bench.launched().steps(61, 75).exits(signal=9)
    bench.done("capture")
    assert asked(bench).words.endswith(", about 4 min 10 s (1.0 TB at 4.0 GB/s)")


def test_a_launch_carries_the_word_that_its_checkpoint_was_verified_for_it() -> None:
    bench = verified(crashed(), saved(read()))
    bench.done("quarantine")
    assert started(bench).vouched == Vouched(60, DIGEST, "full")


@pytest.mark.parametrize("found", [saved(None), saved(read(), "another manifest")])
def test_no_word_is_given_for_what_was_not_verified_or_is_another_manifest(found: SavedNumbers) -> None:
    bench = verified(crashed(), found).done("quarantine")
    assert started(bench).vouched is None


def test_no_word_is_given_for_what_was_verified_long_ago_or_for_another_launch() -> None:
    bench = verified(crashed(), saved(read()))
    bench.now_s += VOUCHED_S + 1
    bench.done("quarantine")
    assert started(bench).vouched is None
    again = verified(crashed(), saved(read())).launched()
    again.steps(61, 75).exits(signal=9)
    again.done("capture")
    again.tell(ActionDone(again.key("verify/3/60"), "nobody says how"))
    again.done("quarantine")
    assert started(again).vouched is None


def test_the_word_outlives_the_supervisor() -> None:
    bench = verified(crashed(), saved(read()))
    bench.die(1.0)
    bench.done("quarantine")
    assert started(bench).vouched == Vouched(60, DIGEST, "full")


# Behind training.


def test_what_was_read_behind_training_is_on_record_once() -> None:
    bench = Bench().launched().steps(1, 20)
    bench.checkpoint(20, digest=DIGEST)
    found = replace(behind(), step=20)
    assert bench.tell(found) == (f.CheckpointVerified(20, DIGEST, read("remembered", 500.0)),)
    assert bench.tell(found) == ()
    trust = judge_trust(bench.state, 60)[-1]
    assert (trust.word, trust.reason) == ("verified", "read behind training: 3 files hold")


BAD = BadTensor("m.safetensors", "w", 5000, 3, 0, True)


@pytest.mark.parametrize(
    ("reading", "evidence", "says"),
    [
        (CheckpointRead(60, DIGEST, None, "shard: sha256 is 0bad…"), "bytes", "shard: sha256"),
        (CheckpointRead(60, DIGEST, saved(read(), DIGEST, BAD)), "numbers", "3 of 5,000 values of m.safetensors (w)"),
    ],
)
def test_damage_found_behind_training_is_condemned_and_passed_over(reading: CheckpointRead, evidence: str, says: str) -> None:
    bench = crashed("remembered", TB, reading)
    condemned = bench.of(f.CheckpointCondemned)
    assert [(one.step, one.damaged, one.evidence) for one in condemned] == [(60, True, evidence)]
    assert condemned[0].reason.startswith(says)
    assert bench.resumed_from == 40


@pytest.mark.parametrize("reading", [CheckpointRead(60, "another", None, "bad"), CheckpointRead(50, DIGEST, None, "bad")])
def test_a_reading_of_what_is_not_there_any_more_says_nothing(reading: CheckpointRead) -> None:
    bench = crashed("remembered", TB, reading)
    assert bench.of(f.CheckpointCondemned) == []
    assert bench.resumed_from == 60
