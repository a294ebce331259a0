"""A trainer that only repeats what it was asked: graded as such, and found out by its own stream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model import facts as f
from sentinel.model.attempts import SampleRange
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import Receipt, StepReading
from sentinel.paging.case_words import tried
from sentinel.report.documents import incident_document
from tests.builders import BATCH, Bench, build_policy, read_step


def relaunched() -> Bench:
    """Rolled back to step 50; samples around the onset are to be left out from there on."""
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    return bench.launched(receipt=False)


def slower() -> Bench:
    """At half the learning rate, too."""
    rung = {"rollback": {"before_onset": "20 steps"}, "lr": "0.5x"}
    bench = Bench(build_policy({"numeric": [rung, {"page": {}, "then": "stop_now"}]})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    return bench.launched(receipt=False)


def grades(bench: Bench) -> dict[str, str]:
    attempt = bench.state.attempt
    assert attempt is not None
    return {proof.key: proof.grade for proof in attempt.proofs}


def liar_steps(bench: Bench, first: int, last: int, **metrics: float) -> None:
    for step in range(first, last + 1):
        bench.now_s += 1.0
        bench.says(read_step(bench.number, step, **metrics))  # every sample in its turn, whatever was asked


def test_a_trainer_that_reads_back_is_believed_and_one_that_repeats_is_not() -> None:
    assert grades(relaunched().receipt()) == {"skip": "read_back"}
    assert grades(relaunched().receipt(reads_back=False)) == {"skip": "asserted"}


@pytest.mark.parametrize("reads_back", [False, True])
def test_the_first_sample_that_was_to_be_left_out_is_a_mismatch(reads_back: bool) -> None:
    bench = relaunched().receipt(reads_back=reads_back)
    first = bench.state.overrides.skip[0].start
    liar_steps(bench, 51, first // BATCH)
    assert bench.state.incidents[-1].kind != "override_mismatch"
    liar_steps(bench, first // BATCH + 1, first // BATCH + 3)
    found = [i for i in bench.state.incidents if i.kind == "override_mismatch"]
    assert len(found) == 1, "once"
    assert f"trained on the samples {first}.." in found[0].reason
    assert grades(bench)["skip"] == "contradicted"
    assert bench.incident.id == found[0].id


def test_and_it_stays_one_incident_for_the_supervisors_after() -> None:
    bench = relaunched().receipt(reads_back=False)
    liar_steps(bench, 51, 80)
    bench.die().die()
    assert sum(i.kind == "override_mismatch" for i in bench.state.incidents) == 1
    assert len(bench.of(f.SettingObserved)) == 1


def test_a_stream_that_jumps_over_the_samples_shows_what_was_only_said() -> None:
    bench = relaunched().receipt(reads_back=False)
    bench.steps(51, 90)
    assert grades(bench) == {"skip": "observed"}
    assert all(i.kind != "override_mismatch" for i in bench.state.incidents)
    (seen,) = bench.of(f.SettingObserved)
    assert seen.step == bench.state.overrides.skip[0].start // BATCH + 1
    assert bench.state.incidents[0].tries[-1].is_proven("skip"), "and the try has it"


def test_what_is_left_out_right_behind_the_resume_point_is_counted_from_the_row_at_it() -> None:
    bench = relaunched()
    (skip,) = bench.state.overrides.skip
    row = StepReading(1, 50, 0.0, (), {"loss": 2.0, "consumed_samples": 50 * 8.0, "skipped_samples": 80.0})
    bench.receipt(reads_back=False, reckoned=True, history=(row,))
    counts = {"consumed_samples": (skip.end + 9) * 8.0, "skipped_samples": 80.0 + (skip.end - skip.start) * 8.0}
    bench.says(StepReading(bench.number, skip.end + 9, 0.0, (), {"loss": 2.0, **counts}))
    assert grades(bench) == {"skip": "observed"}


def told(bench: Bench, reckoned: bool = False) -> tuple[int, int, int]:
    """The one range that is to be left out, after a receipt that names one more on each side; and the step it begins from."""
    (skip,) = bench.state.overrides.skip
    bench.receipt(reads_back=False, reckoned=reckoned, skip=[[skip.start - 1, skip.end + 1]])
    return skip.start, skip.end, skip.start // BATCH


@pytest.mark.parametrize(("more_before", "more_behind", "grade"), [(1, 0, "observed"), (0, 1, "observed"), (2, 0, "asserted")])
def test_a_trainer_whose_arguments_mean_a_batch_more_may_leave_out_a_batch_more(
    more_before: int, more_behind: int, grade: str
) -> None:
    bench = relaunched()
    start, end, step = told(bench)
    for number, span in enumerate([(start - 8, start - more_before), (end + more_behind, end + 8)], start=step):
        bench.says(StepReading(bench.number, number, 0.0, (SampleRange(*span),), {"loss": 2.0}))
    assert grades(bench) == {"skip": grade}


@pytest.mark.parametrize(
    ("before", "more", "grade"),
    [(None, 1.0, "observed"), (40.0, 1.0, "observed"), (40.0, 0.0, "contradicted"), (None, None, "asserted")],
)
def test_rows_of_every_tenth_step_show_by_counts_what_was_left_out(before: float | None, more: float | None, grade: str) -> None:
    """`before`: samples that it has left out, by the row in front of the range. `more`: the share of the range behind it."""
    bench = relaunched()
    start, end, _ = told(bench, reckoned=True)
    behind = None if more is None else (before or 0.0) + more * (end - start) * 8.0
    for step, count in ((start - 6, before), (end + 4, behind)):  # a sample index is a batch, and step n trains batch n - 1
        counted = {} if count is None else {"skipped_samples": count}
        bench.says(StepReading(bench.number, step, 0.0, (), {"loss": 2.0, "consumed_samples": step * 8.0, **counted}))
    assert grades(bench) == {"skip": grade}
    found = [fact.finding.kind for fact in bench.of(f.FindingRecorded)]
    assert ("override_mismatch" in found) is (grade == "contradicted")


def from_zero(bench: Bench, first: int, last: int, skip: range) -> None:
    """Steps of a loop under a profile that calls its first step 0, and leaves out what it is asked to: step n trains batch n, and
    its row is reckoned to be of batch n - 1."""
    for step in range(first, last + 1):
        if step not in skip:
            bench.now_s += 1.0
            bench.says(StepReading(bench.number, step, 0.0, (SampleRange(step - 1, step),), {"loss": 2.0}))


@pytest.mark.parametrize(("obeys", "grade"), [(True, "asserted"), (False, "contradicted")])
def test_a_loop_that_counts_from_zero_unsaid_is_no_liar_and_one_that_lies_is_found_out(obeys: bool, grade: str) -> None:
    bench = relaunched()
    attempt = bench.state.attempt
    assert attempt is not None
    assert attempt.resume is not None
    (skip,) = attempt.overrides.skip
    said = {"skip": [[skip.start, skip.end]]}
    bench.says(Receipt(bench.number, bench.now_s, attempt.resume.step - 1, None, 1, said, {}, cursor=49, profile="mine"))
    noted = [fact.reason for fact in bench.of(f.Noted) if fact.about == "resume"]
    assert "if it calls its first step 0, the profile has to say so (metrics: {first_step: 0})" in noted[0]
    from_zero(bench, skip.start - 5, skip.end + 5, range(skip.start, skip.end) if obeys else range(0))
    assert grades(bench)["skip"] == grade
    found = [fact.finding.kind for fact in bench.of(f.FindingRecorded)]
    assert ("override_mismatch" in found) is (not obeys)


def test_rows_without_samples_show_nothing() -> None:
    bench = relaunched().receipt(reads_back=False)
    for step in range(51, 91):
        bench.now_s += 1.0
        reading = read_step(bench.number, step)
        bench.says(type(reading)(reading.attempt, step, reading.time_s, (), reading.metrics))
    assert grades(bench) == {"skip": "asserted"}


def shown_before(bench: Bench, *, every: int = 1, rate: float = 1e-3) -> int:
    """The receipt, behind rows that show this rate in every so many; the step from which it goes on."""
    attempt = bench.state.attempt
    assert attempt is not None
    assert attempt.overrides.lr_scale == 0.5
    resumed = attempt.resume.step if attempt.resume else 0
    steps = range(max(1, resumed - 20), resumed + 1)
    rows = [read_step(1, step, **({"lr": rate} if step % every == 0 else {})) for step in steps]
    bench.receipt(reads_back=False, history=tuple(rows))
    return resumed


def mismatches(bench: Bench) -> list[str]:
    return [i.reason for i in bench.state.incidents if i.kind == "override_mismatch"]


@pytest.mark.parametrize(
    ("rates", "grade"),
    [
        ((5e-4,), "observed"),
        ((1e-3,), "asserted"),  # it may be what the checkpoint held
        ((1e-3, 5e-4), "observed"),
        ((1e-3, 1e-3), "contradicted"),
        ((8e-4, 8e-4), "asserted"),
    ],
)
@pytest.mark.parametrize("every", [1, 10])
def test_a_learning_rate_is_compared_with_what_it_was_before(rates: tuple[float, ...], grade: str, every: int) -> None:
    bench = slower()
    resumed = shown_before(bench, every=every)
    for number, rate in enumerate(rates, start=1):
        for step in range(resumed + (number - 1) * every + 1, resumed + number * every):
            bench.step(step)
        bench.step(resumed + number * every, lr=rate)
    assert grades(bench)["lr_scale"] == grade
    found = mismatches(bench)
    assert len(found) == (grade == "contradicted")
    if found:
        assert "the learning rate is 0.001" in found[0]
        assert "asked for 0.5x" in found[0]


@pytest.mark.parametrize(("settable", "grade"), [(("lr_scale",), "observed"), (None, "contradicted")])
def test_what_was_passed_as_an_argument_is_in_force_behind_its_until_too(settable: tuple[str, ...] | None, grade: str) -> None:
    """At half the rate until step 99 or so, an argument that stays; and at half the rate again, for what comes at 301. Without a
    profile the trainer has lapsed it, so that its rate was the whole one."""
    rung = {"rollback": {"before_onset": "20 steps"}, "lr": "0.5x", "until": "20 steps"}
    policy = build_policy({"numeric": [rung, {"page": {}, "then": "stop_now"}]})
    bench = Bench(policy, settable=settable, without=("live_overrides",)).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    resumed = shown_before(bench.launched(receipt=False))
    for step in range(resumed + 1, 301):
        bench.step(step, lr=5e-4)
    assert grades(bench)["lr_scale"] == "observed"
    bench.checkpoint(270)
    for step in range(301, 309):
        bench.step(step, 8.0, lr=5e-4)
    bench.launched(receipt=False)
    assert (bench.resumed_from, bench.number) == (270, 3)
    bench.receipt(reads_back=False, history=tuple(read_step(2, step, lr=5e-4) for step in range(260, 271)))
    for step in range(271, 276):
        bench.step(step, lr=5e-4)
    assert grades(bench)["lr_scale"] == grade
    assert bool(mismatches(bench)) == (grade == "contradicted")


def test_a_rate_whose_own_factor_is_not_known_shows_nothing() -> None:
    bench = slower()
    attempt = bench.state.attempt
    assert attempt is not None
    resumed = attempt.resume.step if attempt.resume else 0
    history = tuple(read_step(7, step, lr=1e-3) for step in range(max(1, resumed - 20), resumed + 1))
    bench.receipt(reads_back=False, history=history)
    bench.step(resumed + 1, lr=1e-3)
    bench.step(resumed + 2, lr=1e-3)
    assert grades(bench)["lr_scale"] == "asserted"


def test_pages_and_documents_say_how_it_is_known() -> None:
    bench = relaunched().receipt(reads_back=False)
    incident = bench.state.incidents[0]
    assert incident.state is IncidentState.PROBATION
    assert "(samples left out: said or passed as an argument, and not seen)" in tried(incident)[-1]
    last = incident_document(incident)["remedies"][-1]
    words = "samples left out: said or passed as an argument, and not seen"
    assert last["proofs"] == [{"key": "skip", "grade": "asserted", "words": words}]
    believed = relaunched().receipt().state.incidents[0]
    assert "samples left out" not in tried(believed)[-1]


def began(bench: Bench, *steps: int, **metrics: float) -> list[str]:
    """Why the trainer does not run as asked, where its first rows are of these steps."""
    for step in steps:
        bench.now_s += 1.0
        bench.says(StepReading(bench.number, step, bench.now_s, (), {"loss": 2.0, **metrics}))
    return [i.reason for i in bench.state.incidents if i.kind == "override_mismatch"]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((1, 2, 3), "its first step is 1, and its receipt says that it went on from step 50"),
        ((49, 51), "its first step is 49, "),
        ((400, 401, 402), "its first steps are 400 and 401, and its receipt says that it went on from step 50"),
    ],
)
def test_a_trainer_that_claims_another_step_than_it_begins_at_is_found_out_once(steps: tuple[int, ...], words: str) -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.exits(signal=9).launched()
    (reason,) = began(bench, *steps)
    assert words in reason
    assert bench.state.giving_up == "stop_now"
    bench.die()
    assert len(began(bench, steps[-1] + 1)) == 1, "and by the next supervisor not again"


@pytest.mark.parametrize("steps", [(51, 52), (50, 51), (60, 70), (100, 110), (53, 54), (51, 51, 52)])
def test_rows_of_every_tenth_step_and_a_few_that_are_missing_are_no_other_beginning(steps: tuple[int, ...]) -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    assert began(bench.exits(signal=9).launched(), *steps) == []


def test_what_is_left_out_and_lost_lines_hide_where_a_trainer_begins() -> None:
    bench = relaunched().receipt()
    assert bench.state.overrides.skip
    assert began(bench, 400, 401) == [], "nobody knows how many steps the skipped samples are"
    lost = Bench().launched()
    lost.steps(1, 50).checkpoint(50)
    lost.exits(signal=9).launched()
    lost.note("lines_lost", 399, lines=349, first_step=51, last_step=399, file="metrics.jsonl", errno="ENOSPC", reason="full")
    assert began(lost, 400, 401) == []


def test_a_jump_that_what_is_left_out_cannot_explain_is_found_beside_a_skip() -> None:
    bench = relaunched().receipt()
    liar_steps(bench, 400, 402)
    assert "its first steps are 400 and 401" in bench.incident.reason


def test_a_skip_is_watched_for_also_when_no_incident_is_open() -> None:
    bench = relaunched().receipt()
    first = bench.state.overrides.skip[0].start
    bench.steps(51, 300)
    bench.checkpoint(300).exits(signal=9).launched()
    bench.steps(301, 400)
    assert not bench.state.open_incidents
    liar_steps(bench, 401, 402)
    bench.says(replace(read_step(bench.number, 403), samples=(SampleRange(first, first + BATCH),)))
    assert bench.incident.kind == "override_mismatch", "it goes back to what was to be left out"
