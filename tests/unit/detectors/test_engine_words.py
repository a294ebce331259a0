"""Slurm's own words for a launch that it did not start. The lines are as srun and sbatch print them (the sources are named in
`sentinel.detectors.engine_words`); job ids and node names are made up."""

from __future__ import annotations

import pytest

from sentinel.detectors.crash import choose_first
from sentinel.detectors.crash_class import Tails, classify
from sentinel.detectors.crash_patterns import CrashClass
from sentinel.detectors.engine_words import find_refusal
from sentinel.model.attempts import ExitReport, RankExit

PASSING = [
    "srun: error: Unable to confirm allocation for job 71: Unexpected message received",
    "srun: error: Unable to confirm allocation for job 71: Unable to contact slurm controller (connect failure)",
    "srun: error: Unable to create step for job 71: Requested nodes are busy",
    "srun: error: Unable to create step for job 71: Job/step already completing or completed",
    "srun: error: Unable to create step for job 71: Socket timed out on send/recv operation",
    "srun: error: Unable to create job step: Required node not available (down, drained or reserved)",
    "srun: error: Unable to allocate resources: Zero Bytes were transmitted or received",
    "srun: error: Task launch for StepId=71.2 failed on node n2: Communication connection failure",
    "srun: error: Task launch for 2332.5 failed on node n2: Transport endpoint is not connected",
    "srun: error: Application launch failed: Can't find an address, check slurm.conf",
    "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
    "sbatch: error: Batch job submission failed: Resource temporarily unavailable",
]
LASTING = [
    "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified",
    "srun: error: Unable to create step for job 71: Requested node configuration is not available",
    "srun: error: Unable to confirm allocation for job 71: Invalid job id specified",
    "srun: error: Task launch for StepId=71.0 failed on node n2: Unable to satisfy cpu bind request",
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)",
]
REMARKS = [
    "srun: Job 71 step creation temporarily disabled, retrying (Requested nodes are busy)",
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    "srun: error: n2: task 1: Killed",
    "srun: error: Timed out waiting for job step to complete",
]


@pytest.mark.parametrize("line", PASSING)
def test_trouble_that_passes_is_known_also_with_what_slurm_says_behind_it(line: str) -> None:
    assert find_refusal([line]) == line
    behind = ["srun: Job step aborted", "", "slurmstepd-n1: error: *** STEP 71.0 ***"]
    assert find_refusal(["a module was loaded", line, *behind]) == line


@pytest.mark.parametrize("line", LASTING + REMARKS)
def test_what_a_retry_cannot_help_and_what_srun_only_remarks_is_none(line: str) -> None:
    assert find_refusal([line]) == ""


@pytest.mark.parametrize("behind", ["ImportError: No module named 'apex'", "step 1 loss 9.2", "bash: python: command not found"])
def test_a_program_that_printed_something_later_was_started(behind: str) -> None:
    assert find_refusal([PASSING[0], behind]) == ""
    assert find_refusal([PASSING[0], behind, "srun: error: n1: task 0: Exited with exit code 1"]) == ""


@pytest.mark.parametrize(
    "later", [*LASTING, "srun: error: n1: task 0: Exited with exit code 1", "srun: error: n1: tasks 0-3: Out Of Memory"]
)
def test_a_later_launch_of_the_same_command_that_fails_for_good_is_no_trouble_that_passes(later: str) -> None:
    assert find_refusal([PASSING[2], later]) == ""
    assert find_refusal([PASSING[2], later, "srun: Terminating StepId=71.3"], is_alone=True) == ""
    assert find_refusal([later, PASSING[2]]) == PASSING[2]
    assert find_refusal([PASSING[6], "srun: error: n1: task 0: Killed"]) == PASSING[6], "srun ends what it had begun to launch"
    assert find_refusal([PASSING[6], "srun: error: Application launch failed: Unspecified error"]) == PASSING[6]


def test_alone_means_that_nothing_else_was_ever_printed() -> None:
    assert find_refusal(["step 400 loss 2.1", PASSING[0]], is_alone=True) == ""
    assert find_refusal(["srun: job 71 queued and waiting for resources", PASSING[0]], is_alone=True) == PASSING[0]
    assert find_refusal([]) == ""


def test_the_first_of_several_is_the_word() -> None:
    lines = [PASSING[6], "srun: error: Application launch failed: Communication connection failure", "srun: Job step aborted"]
    assert find_refusal(lines) == PASSING[6]


def test_where_ranks_had_begun_the_crash_has_its_class_and_blames_no_rank() -> None:
    tails: Tails = {None: (PASSING[6], "srun: Job step aborted")}
    report = ExitReport(1, (RankExit(0, 1, None, "record", "connection closed by peer", lost_peers=True),), None)
    death = classify(report, tails, choose_first(report))
    assert death is not None
    assert (death.crash, death.rank, death.is_outside(report)) == (CrashClass.ENGINE, None, True)
