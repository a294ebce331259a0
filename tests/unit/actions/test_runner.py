"""Carrying out: every end of an action is an outcome, in the order asked for, and a pager that hangs delays no recovery."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sentinel.actions.runner import OS_RETRY_S, ThreadRunner, carry_out, progressed
from sentinel.errors import GiveUp, RetryLater
from sentinel.model.actions import Action, KillAttempt, PruneCheckpoint, SendPage
from sentinel.model.events import ActionDone, ActionFailed

KILL = KillAttempt("kill/1", 1)
PAGE = SendPage("page/1/1", 1, "critical", "t", "x")
DELETION = PruneCheckpoint("prune/20/d", 20, "checkpoints/step-00000020", "d", "x")
DEADLINE_S = 20.0


def raising(error: Exception) -> Callable[[Action], str]:
    def handler(action: Action) -> str:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "outcome"),
    [
        (lambda action: "exited", ActionDone("kill/1", "exited")),
        (raising(RetryLater("not yet", 2.5)), ActionFailed("kill/1", "not yet", 2.5)),
        (raising(GiveUp("never")), ActionFailed("kill/1", "never", None)),
        (raising(OSError(28, "disk full")), ActionFailed("kill/1", "[Errno 28] disk full", OS_RETRY_S)),
        (raising(OSError(5, "I/O error")), ActionFailed("kill/1", "[Errno 5] I/O error", OS_RETRY_S)),
        (raising(OSError(36, "too long")), ActionFailed("kill/1", "[Errno 36] too long", None)),
        (raising(ValueError("null byte")), ActionFailed("kill/1", "internal error: ValueError: null byte", None)),
        (raising(ZeroDivisionError("oops")), ActionFailed("kill/1", "internal error: ZeroDivisionError: oops", None)),
    ],
)
def test_every_end_is_an_outcome(handler: Callable[[Action], str], outcome: ActionDone | ActionFailed) -> None:
    assert carry_out({KillAttempt: handler}, KILL) == outcome


def test_an_action_nobody_carries_out_is_a_failure_and_not_a_dead_lane() -> None:
    outcome = carry_out({}, KILL)
    assert isinstance(outcome, ActionFailed)
    assert outcome.retry_in_s is None


def gather(runner: ThreadRunner, wake: threading.Event, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        assert wake.wait(DEADLINE_S), "nothing was done in time"
        wake.clear()
        found += [outcome.key for outcome in runner.outcomes()]
    return found


def test_acts_are_done_one_after_the_other_and_each_wakes_the_loop() -> None:
    wake = threading.Event()
    runner = ThreadRunner({KillAttempt: lambda action: "done"}, wake)
    for number in range(20):
        runner.submit(KillAttempt(f"kill/{number}", number))
    assert gather(runner, wake, 20) == [f"kill/{number}" for number in range(20)]


@pytest.mark.parametrize("slow", [PAGE, DELETION])
def test_a_page_or_a_deletion_that_hangs_holds_up_no_act(slow: Action) -> None:
    wake, released = threading.Event(), threading.Event()

    def hang(action: Action) -> str:
        released.wait(DEADLINE_S)
        return "delivered"

    runner = ThreadRunner({type(slow): hang, KillAttempt: lambda action: "done"}, wake)
    runner.submit(slow)
    runner.submit(KILL)
    assert gather(runner, wake, 1) == ["kill/1"]
    released.set()
    assert gather(runner, wake, 1) == [slow.key]


def test_an_act_that_is_left_behind_holds_up_nothing_and_changes_nothing_when_it_comes_back() -> None:
    wake, begun, released, back = threading.Event(), threading.Event(), threading.Event(), threading.Event()
    changed: list[str] = []

    def kill(action: Action) -> str:
        if action.key == "kill/2":
            return "done"
        progressed()
        begun.set()
        released.wait(DEADLINE_S)
        try:
            progressed()
            changed.append(action.key)
        finally:
            back.set()
        return "late"

    runner = ThreadRunner({KillAttempt: kill}, wake)
    runner.submit(KILL)
    runner.submit(KillAttempt("kill/2", 2))
    assert begun.wait(DEADLINE_S)
    assert (runner.progress("kill/1"), runner.progress("kill/2")) == (1, None)
    runner.abandon("kill/1")
    assert gather(runner, wake, 1) == ["kill/2"]
    released.set()
    assert back.wait(DEADLINE_S)
    assert runner.close(DEADLINE_S)
    assert changed == []
    assert list(runner.outcomes()) == []
