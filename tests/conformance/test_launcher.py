"""What every launcher does, the simulated one as well: the contract of `sentinel.launcher.contract` as behaviour."""

from __future__ import annotations

import signal
import time
from dataclasses import replace

import pytest

from sentinel.errors import GiveUp
from sentinel.launcher.registry import LAUNCHERS
from sentinel.model.attempts import Alive, Exited, NotStarted, Orphaned
from tests.conformance.conftest import WORLDS
from tests.conformance.launcher_world import Job, World

TWO = Job(ranks=2)
ONE = Job()
# The first rank that leaves with 6 makes torchrun send SIGTERM to the others, which may be a moment behind.
LEAVING = Job(ranks=2, leave_with={"all": 6}, ignores_sigterm=True)


def start(world: World, job: Job, attempt: int = 1) -> Alive:
    view = world.launcher().ensure_started(world.spec(attempt, job))
    assert isinstance(view, Alive)
    world.until_running(attempt, job)
    return view


def test_every_launcher_of_the_registry_is_held_to_the_suite() -> None:
    missing = {row.kind for row in LAUNCHERS} - set(WORLDS)
    assert not missing, f"{missing}: write its world (launcher_world.World) and add it to WORLDS in tests/conformance/conftest.py"


def test_an_attempt_nobody_asked_for_is_not_started_and_stopping_it_changes_nothing(world: World) -> None:
    assert world.observe(7) == NotStarted(7)
    assert world.launcher().ensure_stopped(7) == NotStarted(7)
    assert world.launcher().signal_ranks(7, signal.SIGUSR1) == 0


@pytest.mark.kept
def test_a_started_attempt_is_alive_and_shows_its_processes(world: World) -> None:
    started = start(world, TWO)
    view = world.observe(1)
    assert isinstance(view, Alive)
    assert view.keeper_pid == started.keeper_pid
    assert sorted(view.pids) == world.living(1)
    assert len(view.pids) >= 2


def test_asking_again_starts_nothing_whoever_asks(world: World) -> None:
    first = start(world, ONE)
    again = world.launcher().ensure_started(world.spec(1, ONE))
    assert isinstance(again, Alive)
    assert again.keeper_pid == first.keeper_pid
    assert world.starts(1) == 1


def test_an_ended_attempt_is_never_started_again(world: World) -> None:
    start(world, ONE)
    world.let_leave(1)
    ended = world.until_view(1, Exited)
    assert world.launcher().ensure_started(world.spec(1, ONE)) == ended
    assert world.starts(1) == 1


def test_the_death_of_the_supervisor_leaves_training_alone_and_the_next_one_adopts_it(world: World) -> None:
    world.start_and_die(world.spec(1, TWO))
    world.until_running(1, TWO)
    assert isinstance(world.observe(1), Alive)
    assert isinstance(world.launcher().ensure_started(world.spec(1, TWO)), Alive)
    assert world.starts(1) == 1
    world.let_leave(1)
    assert world.until_view(1, Exited).report.first_failed_rank is None


def test_a_command_that_cannot_start_is_given_up_each_time_it_is_asked_for(world: World) -> None:
    for _ in range(2):
        with pytest.raises(GiveUp, match="no such program"):
            world.launcher().ensure_started(world.bad_spec(1))
    view = world.observe(1)
    assert isinstance(view, Exited)
    assert view.report.command_status is None
    assert "no such program" in view.report.reason
    assert world.launcher().ensure_stopped(1) == view


@pytest.mark.parametrize("code", [0, 3, 6, 77])
def test_a_plain_command_is_rank_zero(world: World, code: int) -> None:
    start(world, Job(leave_with={"all": code}, records=False, beats=False))
    world.let_leave(1)
    report = world.until_view(1, Exited).report
    assert [(rank.rank, rank.code, rank.signal, rank.source) for rank in report.ranks] == [(0, code, None, "reaped")]
    assert report.command_status == code
    assert report.first_failed_rank == (None if code in (0, 6) else 0)


def test_the_class_of_an_exit_comes_from_the_records_although_the_launcher_returns_one(ranked_world: World) -> None:
    start(ranked_world, LEAVING)
    ranked_world.let_leave(1)
    report = ranked_world.until_view(1, Exited).report
    assert [(rank.code, rank.signal, rank.source) for rank in report.ranks] == [(6, None, "record")] * 2
    assert report.command_status == 1
    assert report.first_failed_rank is None


def test_ranks_that_finished_are_known_to_have_finished(world: World) -> None:
    start(world, Job(ranks=2, leave_with={"all": 0}))
    world.let_leave(1)
    report = world.until_view(1, Exited).report
    assert [(rank.code, rank.signal, rank.source) for rank in report.ranks] == [(0, None, "record")] * 2
    assert report.command_status == 0
    assert report.first_failed_rank is None


def test_codes_without_records_are_known_all_the_same(ranked_world: World) -> None:
    start(ranked_world, replace(LEAVING, records=False))
    ranked_world.let_leave(1)
    report = ranked_world.until_view(1, Exited).report
    assert [(rank.code, rank.signal) for rank in report.ranks] == [(6, None), (6, None)]
    assert all(rank.source in ("reaped", "launcher") for rank in report.ranks)


def test_a_killed_rank_is_named_with_its_signal_and_takes_the_others_with_it(ranked_world: World) -> None:
    start(ranked_world, TWO)
    ranked_world.signal_rank(1, 1, signal.SIGKILL)
    report = ranked_world.until_view(1, Exited).report
    assert report.first_failed_rank == 1
    killed = report.ranks[1]
    assert (killed.rank, killed.code, killed.signal) == (1, None, signal.SIGKILL)
    assert killed.source in ("reaped", "launcher")
    assert ranked_world.living(1) == []


def test_a_rank_that_failed_is_told_from_one_that_finished(world: World) -> None:
    start(world, Job(ranks=2, leave_with={"1": 5, "all": 0}, ignores_sigterm=True))
    world.let_leave(1)
    report = world.until_view(1, Exited).report
    assert report.first_failed_rank == 1
    assert report.ranks[1].code == 5
    assert report.ranks[1].error == "left with 5"


@pytest.mark.kept
def test_survivors_that_ignore_sigterm_are_not_waited_for(ranked_world: World) -> None:
    start(ranked_world, Job(ranks=2, ignores_sigterm=True))
    killed_at = time.monotonic()
    ranked_world.signal_rank(1, 0, signal.SIGKILL)
    report = ranked_world.until_view(1, Exited).report
    assert time.monotonic() - killed_at < 15, "torchrun alone waits 30 s"
    assert report.first_failed_rank == 0
    assert ranked_world.living(1) == []


@pytest.mark.kept
def test_a_stopped_rank_is_ended_promptly(ranked_world: World) -> None:
    start(ranked_world, TWO)
    ranked_world.signal_rank(1, 1, signal.SIGSTOP)
    asked_at = time.monotonic()
    view = ranked_world.launcher().ensure_stopped(1)
    assert time.monotonic() - asked_at < 15, "SIGTERM to torchrun with a stopped rank took 31 s"
    assert isinstance(view, Exited)
    assert view.report.first_failed_rank is None, "what the supervisor ends has not failed"
    assert [rank.signal for rank in view.report.ranks] == [signal.SIGKILL] * 2
    assert ranked_world.living(1) == []


@pytest.mark.kept
def test_a_stopped_peer_of_a_killed_rank_is_ended_too(world: World) -> None:
    start(world, TWO)
    world.signal_rank(1, 0, signal.SIGSTOP)
    world.signal_rank(1, 1, signal.SIGKILL)
    report = world.until_view(1, Exited, deadline_s=15).report
    assert report.first_failed_rank == 1


@pytest.mark.kept
def test_stopping_ends_helpers_with_sessions_of_their_own_and_is_idempotent(world: World) -> None:
    start(world, Job(ranks=2, helpers=2, ignores_sigterm=True))
    assert len(world.observe(1).pids) >= 6  # type: ignore[union-attr]
    view = world.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert world.launcher().ensure_stopped(1) == view
    assert world.living(1) == []


@pytest.mark.kept
def test_what_a_command_leaves_behind_does_not_outlive_the_attempt(world: World) -> None:
    start(world, Job(helpers=1, leave_with={"all": 0}))
    world.let_leave(1)
    report = world.until_view(1, Exited).report
    assert report.ranks[0].code == 0
    assert report.first_failed_rank is None


@pytest.mark.kept
def test_a_dead_keeper_leaves_orphans_that_are_reaped_by_their_records(world: World) -> None:
    start(world, Job(ranks=2, helpers=1, ignores_sigterm=True))
    world.signal_keeper(1, signal.SIGKILL)
    orphaned = world.observe(1)
    assert isinstance(orphaned, Orphaned)
    assert len(orphaned.pids) >= 4
    assert isinstance(world.launcher().ensure_started(world.spec(1, TWO)), Orphaned), "never a second start"
    view = world.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert [rank.source for rank in view.report.ranks] == ["unknown", "unknown"]
    assert "died" in view.report.reason
    assert world.living(1) == []
    assert world.starts(1) == 1


@pytest.mark.kept
def test_a_stopped_keeper_does_not_keep_its_attempt_from_being_ended(world: World) -> None:
    start(world, TWO)
    world.signal_keeper(1, signal.SIGSTOP)
    assert isinstance(world.observe(1), Alive)
    assert isinstance(world.launcher().ensure_stopped(1), Exited)
    assert world.living(1) == []


@pytest.mark.kept
def test_a_signal_reaches_the_ranks_and_not_the_command_above_them(ranked_world: World) -> None:
    start(ranked_world, TWO)
    assert ranked_world.launcher().signal_ranks(1, signal.SIGUSR1) == 2
    ranked_world.signalled(1, 2)
    assert isinstance(ranked_world.observe(1), Alive), "SIGUSR1 ends a torchrun that gets it"


def test_attempts_do_not_disturb_each_other(world: World) -> None:
    start(world, ONE, attempt=1)
    start(world, ONE, attempt=2)
    assert isinstance(world.launcher().ensure_stopped(1), Exited)
    assert isinstance(world.observe(2), Alive)
    assert len(world.living(2)) == 1
