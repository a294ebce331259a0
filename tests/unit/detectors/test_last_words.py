"""Ranks that all left with 0, and no end line: what the logs end in decides, and never the zero alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.detectors.crash import Ended, Failed, Finished
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.model.findings import Kind
from sentinel.model.readings import LogTail
from tests.unit.detectors.bank_kit import feed, make_bank, receipt, row

STEP = "step 10 | loss 2.1 | lr 3e-4"
PREEMPTION = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO PREEMPTION ***"
TIME_LIMIT = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***"


def ended(
    *lines: str, owner: int | None = None, ranks: int = 2, total: int | None = None, errors_from: int | None = None
) -> Ended:
    bank = make_bank()
    bank.receipt(replace(receipt(), total_steps=total), 0.0)
    feed(bank, [row(step, loss=2.0) for step in range(1, 11)])
    bank.log_tail(LogTail(1, owner, lines, errors_from=errors_from))
    report = ExitReport(0, tuple(RankExit(rank, 0, None, "record") for rank in range(ranks)), None)
    return bank.exit(report, finished=False, stop_requested=False, now_s=99.0, has_trained=True)


@pytest.mark.parametrize("ranks", [0, 1, 2])
@pytest.mark.parametrize("owner", [None, 0])
@pytest.mark.parametrize("line", [
    "Loss is nan, stopping training", "WARNING: loss is NaN, aborting", "[rank0]: Loss is nan, stopping",
    "2026-11-20 10:00:00 [INFO] non-finite loss at step 11: stopping",
    "Batch 11: Invalid loss, terminating training",
])  # fmt: skip
def test_a_trainer_that_stopped_itself_for_a_nan_died_of_it_whatever_its_code(line: str, owner: int | None, ranks: int) -> None:
    for total in (None, 50):
        how = ended(STEP, line, owner=owner, ranks=ranks, total=total)
        assert isinstance(how, Failed)
        assert (how.finding.kind, how.finding.onset_step) == (Kind.NON_FINITE, 11)


@pytest.mark.parametrize("line", [
    PREEMPTION, TIME_LIMIT, "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T10:00:00 ***",
    "[rank0]: Received signal SIGTERM, saving a checkpoint", "=>> PBS: job killed: walltime 86405 exceeded limit 86400",
])  # fmt: skip
def test_a_notice_of_a_preemption_is_one_although_the_ranks_left_with_0(line: str) -> None:
    how = ended(STEP, line)
    assert isinstance(how, Failed)
    assert (how.finding.kind, how.finding.outside) == (Kind.PREEMPTED, True)
    assert "exited 0" in how.finding.reason


@pytest.mark.parametrize("lines", [
    (STEP,),
    ("Loss is nan, stopping training", STEP),  # of an attempt before: training went on
    (STEP, "loss is nan, skipping this batch"),
    (STEP, "WARNING: gradient is inf, reducing the loss scale"),
    (STEP, "Training complete", PREEMPTION),
    (STEP, "RuntimeError: could not plot the curve"),
    (STEP, "NaN or Inf found in input tensor."),  # TensorBoard's writer
    (STEP, "loss is nan at step 5"),
])  # fmt: skip
def test_what_training_survived_or_came_after_its_end_says_nothing(lines: tuple[str, ...]) -> None:
    assert isinstance(ended(*lines), Finished)


@pytest.mark.parametrize(("line", "is_end"), [
    ("ERROR loss is nan", False), ("Received signal SIGUSR1, saving a checkpoint", False),
    ("loss is nan, stopping accumulation", False), ("Loss is nan, aborting this batch", False),
    ("nan loss: stopping the gradient accumulation early", False), ("loss is inf, stopping evaluation", False),
    ("loss is nan, stopping at step 11", True), ("loss is nan, exiting the training loop", True),
    ("loss is nan, stopping", True), ("Received signal SIGTERM, saving a checkpoint", True), (PREEMPTION, True),
])  # fmt: skip
def test_of_standard_error_beside_step_lines_on_standard_output_nobody_knows_when_it_was_printed(line: str, is_end: bool) -> None:
    """It is read behind standard output. Whoever says there that it ends the run is believed."""
    assert isinstance(ended(STEP, line, errors_from=1), Failed if is_end else Finished)
    assert isinstance(ended(line, errors_from=0), Failed if is_end else Finished), "nor where no step line stands"
    assert isinstance(ended(STEP, STEP, line, errors_from=1), Failed), "step lines on standard error, too"
    assert isinstance(ended(STEP, line), Failed), "one file"


def test_a_sigterm_of_a_step_that_rows_lie_behind_was_survived() -> None:
    for line in ("Received signal SIGTERM at step 5, saving a checkpoint", "[rank1]: got SIGTERM at iteration 6, going on"):
        assert isinstance(ended(STEP, line, errors_from=1), Finished)
        assert isinstance(ended(STEP, line.replace(" 5", " 10").replace(" 6", " 11"), errors_from=1), Failed)
    assert isinstance(ended(STEP, PREEMPTION, errors_from=1), Failed), "its STEP 1.0 is Slurm's"


def test_a_run_with_every_step_that_it_was_to_have_has_finished() -> None:
    assert isinstance(ended(STEP, TIME_LIMIT, total=10), Finished)
    assert isinstance(ended(STEP, "grad norm is inf", total=10), Finished)
    assert isinstance(ended(STEP, TIME_LIMIT, total=11), Failed)
