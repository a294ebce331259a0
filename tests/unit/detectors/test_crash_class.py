"""Which death it was: real-looking ends of logs, in every order, and bytes that mean nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.detectors.crash import Failed
from sentinel.detectors.crash_class import Death, classify
from sentinel.detectors.crash_patterns import CrashClass, match_line
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.model.readings import LogTail
from tests.unit.detectors.bank_kit import feed, make_bank, row
from tests.unit.detectors.log_ends import (
    ASSERT,
    CHILD_FAILED,
    CUDA_OOM,
    ENOSPC,
    FELL,
    GLOO_TIMEOUT,
    ILLEGAL,
    KERNEL_OOM,
    LOADER,
    NCCL_PEER,
    NO_DEVICE,
    NO_MODULE,
    PREEMPTED,
    RESET,
    SLURM_OOM,
    SYMPTOMS,
    SYNTAX,
    TORCHRUN_TERM,
    TRACEBACK,
    USAGE,
    WATCHDOG,
    WRITER_FULL,
)


def left(rank: int, code: int | None = 1, signal: int | None = None, error: str | None = None) -> RankExit:
    if signal is not None:
        return RankExit(rank, None, signal, "reaped", error)
    return RankExit(rank, code, None, "record" if error else "launcher", error)


def died(tails: dict[int | None, str], *exits: RankExit, first: int | None = None, status: int | None = 1) -> Death | None:
    ranks = exits or tuple(left(rank) for rank in tails if rank is not None)
    blamed = next((rank for rank in ranks if rank.rank == first), ranks[0] if ranks else None)
    lines = {rank: text.split("\n") for rank, text in tails.items()}
    return classify(ExitReport(status, ranks, first), lines, blamed)


C = CrashClass


@pytest.mark.parametrize(
    ("text", "exit_", "crash", "evidence"),
    [
        (CUDA_OOM, left(0), C.OUT_OF_MEMORY, "CUDA out of memory. Tried to allocate 2.50 GiB"),
        (LOADER, left(0), C.OUT_OF_MEMORY, "DataLoader worker"),
        (TRACEBACK + "MemoryError", left(0), C.OUT_OF_MEMORY, "MemoryError"),
        (KERNEL_OOM, left(0, None, 9), C.OUT_OF_MEMORY, "Killed process 4711"),
        (SLURM_OOM, left(0, None, 9), C.OUT_OF_MEMORY, "oom_kill event"),
        ("cgroup memory.events: oom_kill rose from 0 to 1", left(0, None, 9), C.OUT_OF_MEMORY, "oom_kill rose"),
        (WATCHDOG.format(r=0, work=811), left(0, None, 6), C.COLLECTIVE_TIMEOUT, "Watchdog caught"),
        (GLOO_TIMEOUT, left(0), C.COLLECTIVE_TIMEOUT, "Timed out waiting 1800000ms"),
        (ILLEGAL, left(0), C.CUDA_ERROR, "an illegal memory access"),
        (ASSERT, left(0), C.CUDA_ERROR, "device-side assert triggered"),
        (ILLEGAL + FELL, left(0), C.LOST_GPU, "fallen off the bus"),
        (NO_DEVICE, left(0), C.LOST_GPU, "no CUDA-capable device"),
        (NO_MODULE, left(0), C.CONFIGURATION, "ModuleNotFoundError: No module named 'flash_attn'"),
        (SYNTAX, left(0), C.CONFIGURATION, "SyntaxError"),
        (USAGE, left(0, 2), C.CONFIGURATION, "the following arguments are required"),
        ("run.sh: line 3: pyhton: command not found", left(0, 127), C.CONFIGURATION, "command not found"),
        (PREEMPTED, left(0, None, 15), C.PREEMPTION, "DUE TO PREEMPTION"),
        (TORCHRUN_TERM, left(0, 1), C.PREEMPTION, "SIGTERM death signal"),
        (ENOSPC, left(0), C.DISK_FULL, "No space left on device"),
        (WRITER_FULL, left(0), C.DISK_FULL, "PytorchStreamWriter"),
        ("", left(0, None, 11), C.KILLED, ""),
        ("", left(0, None, 9), C.KILLED, ""),
        (TRACEBACK + "ValueError: bad shape", left(0), C.ERROR, "ValueError: bad shape"),
        (RESET, left(0), C.PEER_LOST, "Connection closed by peer"),
    ],
)
@pytest.mark.parametrize("where", [0, None], ids=["rank file", "launcher's file"])
def test_each_class_by_its_words(where: int | None, text: str, exit_: RankExit, crash: CrashClass, evidence: str) -> None:
    death = died({where: text}, exit_, first=0)
    assert death is not None
    assert death.crash is crash
    assert evidence in death.evidence
    assert death.retryable is (crash is not C.CONFIGURATION)
    if crash is not C.COLLECTIVE_TIMEOUT:
        assert death.rank == 0


CAUSES = {
    CUDA_OOM: C.OUT_OF_MEMORY, ILLEGAL: C.CUDA_ERROR, NO_DEVICE: C.LOST_GPU, NO_MODULE: C.CONFIGURATION, ENOSPC: C.DISK_FULL,
    TRACEBACK + "ValueError: bad shape": C.ERROR,
}  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES, ids=lambda text: CAUSES[text].value)
def test_a_cause_outranks_its_symptoms_on_every_rank_in_every_order(cause: str) -> None:
    """Whoever the launcher noticed first, in files of their own or mixed into one log."""
    others = (RESET, NCCL_PEER, WATCHDOG.format(r=9, work=811))
    for order in itertools.permutations((cause, *others)):
        guilty = order.index(cause)
        for first in (None, *range(4)):
            death = died(dict(enumerate(order)), first=first)
            assert death is not None
            assert (death.crash, death.rank) == (CAUSES[cause], guilty)
        mixed = "\n".join(f"[rank{rank}]: {line}" for rank, text in enumerate(order) for line in text.split("\n"))
        death = died({None: mixed + "\n" + CHILD_FAILED}, *(left(rank) for rank in range(4)), first=0)
        assert death is not None
        assert (death.crash, death.rank) == (CAUSES[cause], guilty)


def test_a_rank_that_its_launcher_ended_is_not_the_one_that_failed() -> None:
    """Seen with torchtitan under torchrun: both ranks raised below torch's `@record`, and one did not get to its end."""
    record = "torch/distributed/elastic/multiprocessing/errors/__init__.py"
    error = f'Traceback (most recent call last):\n  File "{record}", line 367, in wrapper\n    return f(*args, **kwargs)\n'
    error += "RuntimeError: no such reduction"
    own = "\n".join(f"[rank{rank}]: {line}" for rank in (0, 1) for line in error.split("\n"))
    torchrun = (
        "W1126 00:17:38.839 49 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 51 closing signal SIGTERM",
        "E1126 00:17:39.057 49 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0",
    )
    death = died({None: "\n".join((own, *torchrun))}, left(0), left(1, None, 15), first=0)
    assert death is not None
    assert (death.crash, death.rank, death.evidence) == (C.ERROR, 0, "RuntimeError: no such reduction")


def test_of_equal_causes_the_rank_that_failed_first_is_blamed() -> None:
    for first in range(3):
        death = died(dict.fromkeys(range(3), CUDA_OOM), first=first)
        assert death is not None
        assert death.rank == first


def test_in_one_log_without_a_first_the_earlier_cause_counts() -> None:
    text = "[rank2]: torch.OutOfMemoryError: CUDA out of memory.\n[rank1]: RuntimeError: CUDA error: unspecified launch failure"
    death = died({None: text}, left(1), left(2), first=None)
    assert death is not None
    assert (death.crash, death.rank) == (C.CUDA_ERROR, 1)  # no first known: `first` falls to rank 1
    unknown = classify(ExitReport(1, (left(1), left(2)), None), {None: text.split("\n")}, None)
    assert unknown is not None
    assert (unknown.crash, unknown.rank) == (C.OUT_OF_MEMORY, 2)


def test_a_killed_rank_outranks_the_peers_that_waited_for_it_or_lost_it() -> None:
    for text in (*SYMPTOMS, WATCHDOG.format(r=0, work=811)):
        for first in (None, 0, 1):
            death = died({0: text}, left(0), left(1, None, 9), first=first)
            assert death is not None
            assert (death.crash, death.rank) == (C.KILLED, 1)


def test_of_a_timeout_the_rank_that_lagged_behind_is_blamed_and_who_waited_is_told() -> None:
    tails: dict[int | None, str] = {rank: WATCHDOG.format(r=rank, work=809 if rank == 2 else 811) for rank in range(4)}
    death = died(tails, *(left(rank, None, 6) for rank in range(4)), first=0)
    assert death == Death(C.COLLECTIVE_TIMEOUT, death.evidence if death else "", 2, True, seen_by=0)
    even: dict[int | None, str] = {rank: WATCHDOG.format(r=rank, work=811) for rank in range(4)}
    assert getattr(died(even, first=0), "rank", 0) is None


def test_an_import_that_failed_and_was_caught_is_no_cause() -> None:
    caught = died({0: NO_MODULE + "\nfalling back to the slow path\n" + TRACEBACK + "ValueError: bad shape"})
    assert caught is not None
    assert (caught.crash, caught.retryable) == (C.ERROR, True)
    killed = died({0: NO_MODULE}, left(0, None, 11), first=0)
    assert killed is not None
    assert (killed.crash, killed.retryable) == (C.KILLED, True)
    oom = died({0: NO_MODULE + "\n" + CUDA_OOM})
    assert oom is not None
    assert oom.crash is C.OUT_OF_MEMORY


def test_a_wrapper_s_missing_command_is_no_cause_of_a_later_death() -> None:
    assert died({None: "run.sh: line 1: module: command not found"}, left(0), left(1), first=1) is None


def test_the_kernel_s_counter_speaks_only_of_a_sigkill() -> None:
    assert died({None: "cgroup memory.events: oom_kill rose from 0 to 1"}, left(0, 1), first=0) is None


def test_ranks_that_left_in_order_tell_nothing() -> None:
    assert died({0: CUDA_OOM}, left(0, 6), left(1, 1), first=1) is None


def test_a_plain_cancel_says_less_than_the_error_before_it() -> None:
    text = CUDA_OOM + "\nslurmstepd: error: *** STEP 123.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 ***"
    death = died({None: text}, left(0), first=0)
    assert death is not None
    assert death.crash is C.OUT_OF_MEMORY


def test_the_rank_s_own_record_is_read_like_its_log() -> None:
    exits = left(0, error="Connection reset by peer"), left(1, error="OutOfMemoryError: CUDA out of memory. Tried")
    death = died({}, *exits, first=0)
    assert death is not None
    assert (death.crash, death.rank) == (C.OUT_OF_MEMORY, 1)


def test_srun_names_the_task_that_the_kernel_killed() -> None:
    text = "srun: error: n1: task 3: Out Of Memory"
    death = died({None: text}, *(left(rank, None, 15) for rank in range(3)), left(3, None, 9), first=0)
    assert death is not None
    assert (death.crash, death.rank) == (C.OUT_OF_MEMORY, 3)


def test_the_finding_begins_with_the_class() -> None:
    bank = make_bank()
    feed(bank, [row(1, loss=2.0)])
    bank.log_tail(LogTail(1, 3, tuple(CUDA_OOM.split("\n"))))
    bank.log_tail(LogTail(1, 0, tuple(RESET.split("\n"))))
    how = bank.exit(ExitReport(1, (left(0), left(3)), 0), finished=False, stop_requested=False, now_s=9.0)
    assert isinstance(how, Failed)
    assert how.finding.reason.startswith("out of memory on rank 3: CUDA out of memory. Tried to allocate 2.50 GiB.")
    assert how.finding.blamed_rank == 3


@pytest.mark.parametrize(("number", "name"), [(1, "SIGHUP"), (10, "SIGUSR1"), (12, "SIGUSR2"), (15, "SIGTERM")])
def test_what_a_rank_never_dies_of_by_itself_came_from_outside(number: int, name: str) -> None:
    """Slurm's `--signal=USR1@300` reaches every task; the first of them was blamed for a crash."""
    for death in (
        died({None: "hello"}, *(left(rank, None, number) for rank in range(3)), first=0),
        died({None: "hello"}, left(0, None, 15), left(1, None, number), first=1),
        died({None: "hello"}, status=-number),
    ):
        assert death is not None
        assert (death.crash, death.evidence) == (C.PREEMPTION, f"{name} from outside")
    crash = died({None: CUDA_OOM}, left(0), left(1, None, number), first=0)
    assert crash is not None
    assert crash.crash is C.OUT_OF_MEMORY


@pytest.mark.parametrize("text", [CUDA_OOM, RESET, "ValueError: The loss returned in `step` is nan.", PREEMPTED, "hello"])
def test_the_finding_says_that_the_logs_were_searched_in_part(text: str) -> None:
    remark = "only the end of the logs was searched, and what stands further up is unknown"
    for is_cut in (True, False):
        bank = make_bank()
        feed(bank, [row(1, loss=2.0)])
        bank.log_tail(LogTail(1, 3, tuple(text.split("\n")), is_cut))
        bank.log_tail(LogTail(1, 0, ("hello",)))
        how = bank.exit(ExitReport(1, (left(0), left(3)), 0), finished=False, stop_requested=False, now_s=9.0)
        assert isinstance(how, Failed)
        assert (remark in how.finding.reason) is is_cut


def test_tails_of_another_attempt_are_not_kept_and_a_new_attempt_forgets() -> None:
    bank = make_bank()
    bank.log_tail(LogTail(7, 0, tuple(CUDA_OOM.split("\n"))))
    bank.log_tail(LogTail(1, 0, tuple(CUDA_OOM.split("\n"))))
    bank.begin_attempt(2, 1.0)
    how = bank.exit(ExitReport(1, (left(0),), 0), finished=False, stop_requested=False, now_s=9.0)
    assert isinstance(how, Failed)
    assert "memory" not in how.finding.reason


ANYTHING = st.one_of(
    st.binary(max_size=200).map(lambda data: data.decode("utf-8", "replace")),
    st.text(max_size=200),
    st.sampled_from([CUDA_OOM, NO_MODULE, RESET, PREEMPTED, FELL, "[rank99999999999]: x", "[Rank ²]", "²: x", "\x00"]),
)
EXITS = st.builds(
    RankExit, st.integers(0, 4), st.none() | st.integers(-300, 300), st.none() | st.integers(0, 70),
    st.sampled_from(["record", "reaped", "launcher", "unknown"]), st.none() | ANYTHING,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    tails=st.dictionaries(st.none() | st.integers(0, 5), st.lists(ANYTHING, max_size=6), max_size=4),
    exits=st.lists(EXITS, max_size=4).map(tuple),
    status=st.none() | st.integers(-70, 300),
)
def test_no_bytes_raise_and_the_same_bytes_say_the_same(
    tails: dict[int | None, list[str]], exits: tuple[RankExit, ...], status: int | None
) -> None:
    report = ExitReport(status, exits, None)
    first = exits[0] if exits else None
    death = classify(report, tails, first)
    assert death == classify(report, dict(reversed(tails.items())), first)
    assert death is None or death.retryable is (death.crash is not C.CONFIGURATION)


@given(st.text())
def test_every_line_is_judged(line: str) -> None:
    match_line(line)
