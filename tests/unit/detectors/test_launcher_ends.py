"""What launchers end by themselves is no preemption; what they are told to end is.

torchrun's words as torch 2.13 printed them for two ranks; srun's, Open MPI's and MPICH's as public logs have them.
"""

from __future__ import annotations

import pytest

from sentinel.detectors.crash import Failed, choose_first
from sentinel.detectors.crash_class import Death, classify
from sentinel.detectors.crash_patterns import CrashClass
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.model.findings import Kind
from sentinel.model.readings import LogTail
from tests.unit.detectors.bank_kit import feed, make_bank, row

API = "torch/distributed/elastic/multiprocessing/api.py"
AGENT = "torch/distributed/elastic/agent/server/api.py"
SENT = f"W1127 03:11:08.772000 31374 {API}:1028] Sending process 31409 closing signal SIGTERM"
SENT_TO_BOTH = f"{SENT}\n{SENT.replace('31409', '31410')}"
FAILED = f"E1127 03:11:08.774000 31374 {API}:1002] failed (exitcode: {{}}) local_rank: 1 (pid: 31410) of binary: /opt/bin/python"
RECEIVED = f"W1127 03:11:26.006000 31374 {AGENT}:753] Received 15 death signal, shutting down workers"
GOT = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 31374 got signal: 15"
HANDLED = "exiting program after receiving SIGTERM."
SPAWN = "W0324 10:50:24.281000 139655644297024 torch/multiprocessing/spawn.py:145] Terminating process 31409 via signal SIGTERM"
DEEPSPEED = (
    "[2026-11-20 10:00:00,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 31409\n"
    "[2026-11-20 10:00:00,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 31410\n"
)
DEEPSPEED_CAUSE = (
    "[2026-11-20 10:00:00,100] [ERROR] [launch.py:325:sigkill_handler] ['python', 't.py'] exits with return code = {}"
)
OPEN_MPI = "mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal {}."
MPICH = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 31410 RUNNING AT n1\n=   EXIT CODE: {}\n"
CANCELLED = "slurmstepd: error: *** STEP 40341.0 ON n1 CANCELLED AT 2026-12-12T17:52:24 ***"
TASK_FAILED, TASK_KILLED = "srun: error: n2: task 1: Exited with exit code 255", "srun: error: n2: task 1: Killed"
ENDS, ENDS_OF_OLD = "srun: Terminating StepId=40341.0", "srun: Terminating job step 30399.0"
TERMINATED = "srun: error: n1: task 0: Terminated"

FOUND = RankExit(0, None, 15, "reaped")
KILLED, MISSING = RankExit(1, None, 9, "reaped"), RankExit(1, None, None, "unknown")


def died(text: str, *ranks: RankExit, first: int | None = 0, status: int | None = -9) -> Death | None:
    report = ExitReport(status, ranks, first)
    return classify(report, {None: text.split("\n")}, choose_first(report))


ONE_ENDED = {
    "torchrun": SENT,
    "torchrun, the code": f"{SENT}\n{FAILED.format(3)}",
    "torchrun, a trainer that says what it got": f"{SENT}\n{HANDLED}",
    "torchrun, a rank that says what it got": f"{SENT}\n[rank0]: {HANDLED}",
    "torch.multiprocessing": SPAWN,
    "deepspeed": DEEPSPEED + DEEPSPEED_CAUSE.format(3),
    "mpich": MPICH.format(9),
    "srun": f"{TASK_FAILED}\n{ENDS}\n{CANCELLED}\n{TERMINATED}\nsrun: Force Terminated StepId=40341.0",
    "an older srun": f"{TASK_KILLED}\n{ENDS_OF_OLD}\n{CANCELLED}\n{TERMINATED}",
    "srun above torchrun": f"{TASK_FAILED}\n{ENDS}\n{CANCELLED}\n{RECEIVED}\n{GOT}",
}


@pytest.mark.parametrize("text", ONE_ENDED.values(), ids=ONE_ENDED)
def test_a_rank_that_its_launcher_ended_was_not_preempted_and_is_not_blamed(text: str) -> None:
    """The launcher was killed before it said who had died, or never says it."""
    death = died(text, FOUND)
    assert death is not None
    assert (death.crash, death.rank) == (CrashClass.PEER_LOST, None)
    silent = died(text, FOUND, MISSING)
    assert silent is not None
    assert (silent.crash, silent.rank) == (CrashClass.PEER_LOST, 1), "every known rank but one was ended for it"


@pytest.mark.parametrize("text", ONE_ENDED.values(), ids=ONE_ENDED)
def test_a_rank_that_is_known_to_have_been_killed_is_blamed(text: str) -> None:
    for first in (0, 1, None):
        death = died(text, FOUND, KILLED, first=first)
        assert death is not None
        assert (death.crash, death.rank) == (CrashClass.KILLED, 1)


def test_an_agent_s_line_about_a_rank_that_is_not_known_blames_no_other() -> None:
    for text in (f"{SENT}\n{FAILED.format(-9)}", OPEN_MPI.format("9 (Killed)")):
        death = died(text, FOUND)
        assert death is not None
        assert (death.crash, death.rank) == (CrashClass.KILLED, None)


def test_an_error_of_the_rank_that_was_ended_is_still_the_cause() -> None:
    """It hung while it ended, its peer lost it and left first."""
    death = died(f"[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n{SENT}", FOUND, MISSING)
    assert death is not None
    assert (death.crash, death.rank) == (CrashClass.OUT_OF_MEMORY, 0)


PREEMPTED = {
    "torchrun got it": f"{RECEIVED}\n{SENT_TO_BOTH}\n{GOT}",
    "torchrun got it, and was killed": f"{RECEIVED}\n{SENT_TO_BOTH}",
    "everything got it, torchrun first": f"{RECEIVED}\n{SENT}\n{GOT}",
    "everything got it, the ranks first": f"{RECEIVED}\n{GOT}",
    "one rank got it": f"{SENT}\n{FAILED.format(-15)}",
    "two say that they got it, one was sent it": f"{SENT}\n[rank0]: {HANDLED}\n[rank1]: {HANDLED}",
    "a warning before the end": f"Received SIGUSR1, saving\n{SENT}",
    "the words never came": "hello",
    "deepspeed got it": DEEPSPEED + "[INFO] [launch.py:328:sigkill_handler] Main process received SIGTERM, exiting",
    "deepspeed was killed": DEEPSPEED,
    "one rank of deepspeed got it": DEEPSPEED + DEEPSPEED_CAUSE.format(-15),
    "one rank of Open MPI got it": OPEN_MPI.format("15 (Terminated)"),
    "one rank of MPICH got it": MPICH.format(15),
    "a cancelled step": f"{CANCELLED}\nsrun: error: n2: task 1: Killed\n{ENDS}",
    "the time was over": f"{CANCELLED.replace(' ***', ' DUE TO TIME LIMIT ***')}\n{TERMINATED}\n{ENDS}",
    "a task was told to end": f"srun: error: n2: task 1: Terminated\n{ENDS}\n{CANCELLED}\n{TERMINATED}",
    "an agent was told to end": f"{RECEIVED}\n{GOT}\n{TASK_FAILED}\n{ENDS}\n{CANCELLED}\n{TERMINATED}",
}


@pytest.mark.parametrize("text", PREEMPTED.values(), ids=PREEMPTED)
def test_a_signal_from_outside_stays_a_preemption(text: str) -> None:
    for ranks in ((FOUND,), (FOUND, RankExit(1, None, 15, "reaped"))):
        death = died(text, *ranks)
        assert death is not None
        assert death.crash is CrashClass.PREEMPTION


def test_more_ranks_that_sigterm_ended_than_the_launcher_ended_were_ended_from_outside() -> None:
    for first in (0, 1, None):
        death = died(SENT, FOUND, RankExit(1, None, 15, "reaped"), first=first)
        assert death is not None
        assert death.crash is CrashClass.PREEMPTION


@pytest.mark.parametrize("text", [DEEPSPEED + DEEPSPEED_CAUSE.format(1), f"{TASK_FAILED}\n{ENDS}", SENT])
def test_where_nothing_was_ended_by_sigterm_the_exit_code_speaks_as_before(text: str) -> None:
    assert died(text, RankExit(0, 1, None, "launcher"), RankExit(1, 1, None, "launcher"), first=1, status=1) is None


def test_a_rank_that_stopped_in_order_has_not_died() -> None:
    """torchrun ends the others for a rank that leaves with 6, which is a stop; none dies of a rank that leaves with 0."""
    death = died(SENT, FOUND, RankExit(1, 6, None, "record"))
    assert death is not None
    assert death.crash is CrashClass.PREEMPTION
    finished = died(SENT, FOUND, RankExit(1, 0, None, "record"))
    assert finished is not None
    assert (finished.crash, finished.rank) == (CrashClass.PEER_LOST, None)


def test_where_the_order_of_two_logs_is_not_known_an_agent_s_word_counts() -> None:
    tails = {None: [TASK_FAILED, ENDS, CANCELLED, TERMINATED], "node-1.err": [RECEIVED, GOT]}
    death = classify(ExitReport(1, (), None), tails, None)
    assert death is not None
    assert death.crash is CrashClass.PREEMPTION


@pytest.mark.parametrize(
    ("ranks", "blamed", "start"), [((FOUND,), None, "lost its peers: "), ((FOUND, MISSING), 1, "lost its peers on rank 1: ")]
)
def test_the_finding_is_a_crash(ranks: tuple[RankExit, ...], blamed: int | None, start: str) -> None:
    bank = make_bank()
    feed(bank, [row(1, loss=2.0)])
    bank.log_tail(LogTail(1, None, (SENT,)))
    report = ExitReport(-9, ranks, 0, "rank 0 was ended by signal 15 (SIGTERM); 1 of its processes were killed")
    how = bank.exit(report, finished=False, stop_requested=False, now_s=9.0)
    assert isinstance(how, Failed)
    assert (how.finding.kind, how.finding.blamed_rank, how.finding.retryable) == (Kind.CRASH, blamed, True)
    assert how.finding.reason.startswith(start + SENT)
