"""Until when sentinel has its machine: what says so, which of them holds, and what is refused with a remedy."""

from __future__ import annotations

import pytest

from sentinel.engine import Engine
from sentinel.errors import UsageError
from sentinel.model.events import Deadline
from sentinel.supervisor.deadline import VARIABLE, parse_time_limit, read_end, refuse_too_late
from tests.builders import Bench, build_policy

NOW_S = 1_000_000.0
PLAIN = build_policy()


def test_without_a_limit_there_is_no_deadline() -> None:
    assert read_end(None, PLAIN, {}, NOW_S).on_session_clock(5.0, NOW_S) is None


def test_the_earliest_holds_and_is_told_by_its_name() -> None:
    policy = build_policy(run={"deadline": "3h"})
    slurm = {VARIABLE: str(int(NOW_S) + 7200)}
    assert read_end(None, policy, {}, NOW_S).by == "the policy's run.deadline, 3h"
    assert read_end(None, policy, slurm, NOW_S).by == VARIABLE
    end = read_end(3600.0, policy, slurm, NOW_S)
    assert (end.by, end.unix_s, end.counts_from_start) == ("--time-limit 1h", NOW_S + 3600, True)


def test_it_is_told_on_the_session_s_clock_which_may_be_ahead_of_the_machine_s() -> None:
    end = read_end(3600.0, PLAIN, {}, NOW_S)
    assert end.on_session_clock(NOW_S + 500.0, NOW_S + 60.0) == Deadline(NOW_S + 500.0 + 3540.0, "--time-limit 1h", True)


def test_an_end_that_lies_back_is_passed_over_and_that_is_said() -> None:
    end = read_end(None, PLAIN, {VARIABLE: str(int(NOW_S) - 3600)}, NOW_S)
    deadline = end.on_session_clock(1.0, NOW_S)
    assert deadline is not None
    assert deadline.at_s is None
    assert "lies 1 h back" in deadline.remark


@pytest.mark.parametrize("text", ["soon", "-5", "1e9", "9" * 13, "2026-11-23T10:00:00"])
def test_what_is_no_unix_time_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(UsageError, match=f"(?s){VARIABLE}=.*Unix seconds.*env -u {VARIABLE}"):
        read_end(None, PLAIN, {VARIABLE: text}, NOW_S)


@pytest.mark.parametrize("text", ["335", "soon", "-1h", "0s", ""])
def test_a_time_limit_without_a_unit_or_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--time-limit: .*write"):
        parse_time_limit(text)
    assert parse_time_limit("335h") == 335 * 3600.0
    assert parse_time_limit(None) is None


def test_a_limit_that_leaves_no_time_is_refused_where_it_stands() -> None:
    with pytest.raises(UsageError, match=r"--time-limit 5m: leaves no time to train: the stop begins 10m before"):
        read_end(300.0, PLAIN, {}, NOW_S)
    assert read_end(300.0, build_policy(run={"deadline_margin": "1m"}), {}, NOW_S).unix_s == NOW_S + 300
    with pytest.raises(ValueError, match="deadline 5m leaves no time to train"):
        build_policy(run={"deadline": "5m"})


def test_too_late_is_refused_where_nothing_trains_and_training_that_lives_is_adopted() -> None:
    bench = Bench()
    late = Deadline(bench.now_s + 60.0, VARIABLE)
    with pytest.raises(UsageError, match=r"60 s are left, which is no time to train \(nothing was saved yet"):
        refuse_too_late(late, Engine(PLAIN), bench.now_s)
    bench.launched().steps(1, 5)
    refuse_too_late(late, bench.engine, bench.now_s)
    refuse_too_late(Deadline(bench.now_s + 601.0, VARIABLE), Engine(PLAIN), bench.now_s)
    refuse_too_late(None, Engine(PLAIN), bench.now_s)
