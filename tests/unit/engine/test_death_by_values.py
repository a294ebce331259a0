"""A trainer that ends itself because a value is no number: an incident of kind non_finite, dated, and rolled back behind."""

from __future__ import annotations

import pytest

from sentinel.model.attempts import Exited, ExitReport, RankExit
from sentinel.model.findings import Kind
from sentinel.model.readings import LauncherReading, LogTail
from tests.builders import Bench

TB = 'Traceback (most recent call last):\n  File "/opt/train/train.py", line 214, in <module>\n    main()\n'
MEGATRON = (
    TB + "RuntimeError: Rank 1, node n7, device 1, iteration {step}: Unexpected result nan (message='found NaN in local grad "
    "norm for bucket #0 in backward pass before data-parallel communication collective')"
)
WORDS = (
    MEGATRON.format(step=73),
    TB + "AssertionError: Rank 1: found Inf in local grad norm in backward pass before data-parallel communication collective.",
    TB + "ValueError: Loss is NaN",
    "Loss is nan, stopping training",
    TB + "ValueError: The loss returned in `training_step` is nan.",
    TB + "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.",
    TB + "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
)  # fmt: skip


def died(words: str, *, label: str = "[rank1]: ") -> Bench:
    bench = Bench().launched()
    for step in range(1, 71):
        bench.step(step)
        if step % 10 == 0:
            bench.checkpoint(step)
    bench.tell(LogTail(1, None, tuple(f"{label}{line}" for line in words.split("\n"))))
    ranks = tuple(RankExit(rank, 1, None, "launcher") for rank in range(2))
    bench.tell(LauncherReading(Exited(1, ExitReport(1, ranks, 0))))
    return bench


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.split("\n")[-1][:40])
def test_it_is_an_incident_of_its_values_and_not_a_crash(words: str) -> None:
    bench = died(words)
    assert (bench.incident.kind, bench.incident.blamed_rank) == (Kind.NON_FINITE, 1)
    assert bench.incident.reason.startswith("non_finite on rank 1: ")


def test_it_is_led_to_the_playbook_of_non_finite_and_not_resumed_from_the_newest_checkpoint() -> None:
    bench = died(WORDS[2])
    assert bench.incident.onset_step == 71
    assert bench.resumed_from is not None
    assert bench.resumed_from < 70


@pytest.mark.parametrize(("named", "onset"), [(73, 73), (70, 71), (3, 71)])
def test_the_step_that_the_line_names_dates_it_where_the_stream_has_not_come_so_far(named: int, onset: int) -> None:
    assert died(MEGATRON.format(step=named)).incident.onset_step == onset


def test_a_nan_that_the_stream_showed_before_dates_it() -> None:
    bench = Bench().launched()
    for step in range(1, 61):
        bench.step(step)
    for step in (61, 62):
        bench.step(step, float("nan"))
    onset = bench.incident.onset_step
    bench.tell(LogTail(1, None, tuple(MEGATRON.format(step=63).split("\n"))))
    bench.tell(LauncherReading(Exited(1, ExitReport(1, (RankExit(0, 1, None, "launcher"),), 0))))
    assert (onset, bench.incident.onset_step, len(bench.state.incidents)) == (61, 61, 1)


def test_a_nan_that_a_logger_only_warns_of_is_no_death_by_it() -> None:
    bench = died("WARNING: loss is nan, skipping this batch\n" + TB + "ValueError: bad shape")
    assert bench.incident.kind == Kind.CRASH
