"""Endings: finished, stopped, failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentinel.detectors.crash import Ended, Ending, Failed, Finished, Stopped, judge_exit
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.model.findings import Finding, Kind
from tests.unit.detectors.bank_kit import feed, make_bank, receipt, row


def left(rank: int, code: int | None = None, signal: int | None = None, error: str | None = None) -> RankExit:
    return RankExit(rank, code, signal, "record" if code is not None else "reaped", error)


def ended(
    *ranks: RankExit,
    status: int | None = 1,
    first: int | None = None,
    finished: bool = False,
    stop: bool = False,
    nan: bool = False,
    keeper_signal: int | None = None,
    total_steps: int | None = None,
    **said: Any,
) -> Ended:
    bank = make_bank()
    bank.receipt(replace(receipt(), total_steps=total_steps), 0.0)
    feed(bank, [row(step, loss=float("nan") if nan and step >= 8 else 2.0) for step in range(1, 11)])
    report = ExitReport(status, ranks, first, keeper_signal=keeper_signal)
    return bank.exit(report, finished=finished, stop_requested=stop, now_s=99.0, **said)


def failure(how: Ended) -> Finding:
    assert isinstance(how, Failed)
    return how.finding


def test_the_end_line_and_zeros_are_finished() -> None:
    assert isinstance(ended(left(0, 0), left(1, 0), status=0, finished=True), Finished)
    assert isinstance(ended(left(0, 0), left(1, 0), status=0), Finished)
    assert isinstance(ended(status=0), Finished)


ROW = "iteration 120/ 120 | lm loss: 2.61 |"


@pytest.mark.parametrize(
    ("lines", "has_every_step", "is_shown"),
    [
        ((ROW, "[after training is done] datetime: 2026-11-27 12:00:00"), False, True),
        ((ROW, "Training completed"), False, True),
        (("Training completed", ROW), False, False),  # an earlier one
        ((ROW, "done with the log"), False, False),
        ((ROW,), True, True),
        ((), False, False),
    ],
)
def test_what_shows_an_end_with_0_to_be_a_finish(lines: tuple[str, ...], has_every_step: bool, is_shown: bool) -> None:
    ending = Ending(1, 120, 99.0, finished=False, stop_requested=False, has_every_step=has_every_step)
    how = judge_exit(ExitReport(0, (), None), ending, lambda _: "critical", {None: lines})
    assert isinstance(how, Finished)
    assert how.is_shown is is_shown


@pytest.mark.parametrize(("shown", "why"), [
    ({"keeper_signal": 15}, "their keeper got SIGTERM and told them; every rank exited 0, without an end line"),
    ({"end_reason": "stopped_on_request"}, "the stream's end line says stopped_on_request, and every rank exited 0"),
    ({"total_steps": 50}, "every rank exited 0 at step 10, without an end line and at least 39 steps early"),
])  # fmt: skip
def test_zeros_of_ranks_that_were_stopped_are_not_finished(shown: dict[str, Any], why: str) -> None:
    """Many trainers save on SIGTERM and leave with 0: the run was over for good."""
    found = failure(ended(left(0, 0), left(1, 0), status=0, **shown))
    assert (found.kind, found.retryable, found.outside) == (Kind.PREEMPTED, True, True)
    assert found.reason.endswith(why)


@pytest.mark.parametrize("shown", [
    {"total_steps": 10}, {"total_steps": 11}, {"total_steps": 50, "is_blind": True}, {"total_steps": 50, "finished": True},
    {"keeper_signal": 15, "finished": True},
])  # fmt: skip
def test_zeros_that_nothing_speaks_against_are_finished(shown: dict[str, Any]) -> None:
    """A log of every tenth step ends before the last one, and a stream that was not read to its end shows nothing."""
    assert isinstance(ended(left(0, 0), left(1, 0), status=0, **shown), Finished)


def test_one_that_may_end_early_has_finished_and_how_early_is_told() -> None:
    bank = make_bank()
    bank.receipt(replace(receipt(), total_steps=50, may_end_early=True), 0.0)
    for step in (9, 10):
        bank.step(row(step, loss=2.0), float(step))
    how = bank.exit(ExitReport(0, (left(0, 0),), None), finished=False, stop_requested=False, now_s=99.0)
    assert isinstance(how, Finished)
    assert how.reason == "every rank exited 0 at step 10, without an end line and at least 39 steps early"
    assert not how.is_shown


def test_what_a_command_had_left_running_is_told_where_only_zeros_say_that_the_run_has_finished() -> None:
    """It may have been a helper, or the training itself: a script that starts it in the background and ends."""
    bank = make_bank()
    bank.receipt(receipt(), 0.0)
    for count, words in ((0, ""), (1, "a process"), (2, "2 processes")):
        report = ExitReport(0, (left(0, 0),), None, left_behind=count)
        how = bank.exit(report, finished=False, stop_requested=False, now_s=99.0)
        assert isinstance(how, Finished)
        assert how.reason.startswith("every rank exited 0, without an end line")
        assert (f"the command had left {words} running, which sentinel ended" in how.reason) is bool(words)


def test_a_crash_after_the_end_line_is_finished_and_told() -> None:
    how = ended(left(0, 0), left(1, None, 11), finished=True)
    assert isinstance(how, Finished)
    assert "SIGSEGV" in how.reason


def test_sixes_are_stopped_though_the_command_says_one() -> None:
    assert ended(left(0, 6), left(1, 6), stop=True) == Stopped(True, "stop was requested; ranks exited 6")


def test_killed_after_a_requested_stop_is_stopped_but_not_saved() -> None:
    how = ended(left(0, None, 9), left(1, None, 9), status=-9, stop=True)
    assert isinstance(how, Stopped)
    assert not how.saved


def test_a_stop_that_sentinel_did_not_ask_for_is_preempted_whether_the_ranks_saved_or_not() -> None:
    saved = failure(ended(left(0, 6), left(1, 6)))
    assert (saved.kind, saved.severity, saved.onset_step, saved.detected_step) == (Kind.PREEMPTED, "warning", None, 10)
    assert saved.retryable
    assert saved.outside, "no checkpoint is to blame"
    assert "stopped after a checkpoint" in saved.reason
    for killed in (
        failure(ended(left(0, None, 15), left(1, None, 15), first=0)),
        failure(ended(left(0, None, 15), left(1, None, 15))),  # who came first is not known, and nobody died of anything else
        failure(ended(status=-15)),
        failure(ended(left(0, 143))),
    ):
        assert killed.kind is Kind.PREEMPTED
        assert "SIGTERM" in killed.reason
        assert killed.blamed_rank is None, "who was stopped first did nothing wrong"


def test_a_keeper_that_was_told_to_end_everything_was_preempted_unless_sentinel_told_it() -> None:
    bank = make_bank()
    feed(bank, [row(step) for step in range(1, 11)])
    report = ExitReport(-9, (left(0, None, 9), left(1, None, 9)), None, "stopped by request", keeper_signal=15)
    finding = failure(bank.exit(report, finished=False, stop_requested=False, now_s=99.0))
    assert finding.kind is Kind.PREEMPTED
    assert "their keeper got SIGTERM" in finding.reason
    assert isinstance(bank.exit(report, finished=False, stop_requested=True, now_s=99.0), Stopped)


def test_ranks_terminated_because_another_died_are_no_preemption() -> None:
    assert failure(ended(left(0, None, 15), left(1, 1), first=1)).kind is Kind.CRASH
    assert failure(ended(left(0, None, 15), left(1, None, 9))).kind is Kind.CRASH


def test_a_killed_rank_is_a_crash_with_the_signal_s_name() -> None:
    finding = failure(ended(left(0, None, 15), left(1, None, 9), first=1))
    assert (finding.kind, finding.blamed_rank, finding.onset_step, finding.detected_step) == (Kind.CRASH, 1, None, 10)
    assert "rank 1 was killed by SIGKILL" in finding.reason
    assert finding.retryable


def test_without_a_first_rank_the_one_that_was_not_merely_terminated_is_blamed() -> None:
    assert failure(ended(left(0, None, 15), left(1, 1, error="RuntimeError: boom"), left(2, None, 15))).blamed_rank == 1


def test_nobody_is_blamed_where_every_rank_that_failed_lost_its_peers() -> None:
    lost = replace(left(0, 1, error="Connection closed by peer"), lost_peers=True)
    found = failure(ended(lost, RankExit(1, None, None, "unknown"), RankExit(2, None, None, "unknown")))
    assert found.blamed_rank is None
    assert "which rank went first is unknown; rank 0 exited 1 (Connection closed by peer) because it lost its" in found.reason
    assert failure(ended(lost, left(1, 1, error="ValueError: x"))).blamed_rank == 1, "an error of its own is a cause"
    assert failure(ended(lost, RankExit(1, None, None, "unknown"), first=1)).blamed_rank == 1, "the one that is silent"


@pytest.mark.parametrize(("code", "word"), [(3, "configuration"), (4, "data")])
def test_configuration_and_data_errors_are_not_retried(code: int, word: str) -> None:
    finding = failure(ended(left(0, code, error="KeyError: 'lr'"), left(1, None, 15)))
    assert not finding.retryable
    assert finding.kind is Kind.CRASH
    assert word in finding.reason
    assert "KeyError" in finding.reason


def test_five_is_non_finite_with_the_onset_the_stream_showed() -> None:
    finding = failure(ended(left(0, 5), left(1, 5), nan=True))
    assert (finding.kind, finding.severity, finding.onset_step) == (Kind.NON_FINITE, "critical", 8)


def test_five_without_a_trace_in_the_stream_dates_to_the_step_that_was_not_reported() -> None:
    assert failure(ended(left(0, 5))).onset_step == 11


def test_without_ranks_the_command_s_status_speaks() -> None:
    assert "killed by SIGKILL" in failure(ended(status=-9)).reason
    assert "exited 2" in failure(ended(status=2)).reason
    assert "unknown" in failure(ended(status=None)).reason


def test_an_unknown_signal_keeps_its_number() -> None:
    assert "signal 63" in failure(ended(left(0, None, 63))).reason


def test_a_missing_library_is_certain_only_before_the_run_has_made_a_step() -> None:
    lost = left(0, 1, error="ImportError: libfoo.so: cannot open shared object file: Stale file handle")
    bank = make_bank()
    bank.begin_attempt(1, 0.0)
    for trained in (False, True):
        how = bank.exit(ExitReport(1, (lost,), 0), finished=False, stop_requested=False, now_s=99.0, has_trained=trained)
        finding = failure(how)
        assert finding.retryable is trained
        assert "import or configuration error on rank 0" in finding.reason
        assert ("a relaunch cannot help" in finding.reason) is not trained
