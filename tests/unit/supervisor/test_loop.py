"""The loop over the real world: when it turns, what for, and when it takes its own absence for one."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from sentinel.errors import Fenced
from sentinel.model.attempts import Exited
from sentinel.model.readings import EndReading, LauncherReading, Receipt
from sentinel.supervisor.daemon import TICK_S, Daemon
from sentinel.supervisor.loop import LOOK_EVERY_S, WasAway, run_until_over, spare_collector
from tests.builders import read_step, report_of
from tests.fakes import GivenWake, ManualClock
from tests.unit.supervisor.daemon_kit import Loop, Story


def test_the_loop_turns_until_the_run_is_over_and_sleeps_no_longer_than_a_tick() -> None:
    loop, story = Loop(), Story()
    loop.daemon = Daemon(loop.engine, loop.log, loop.telemetry, loop.runner, 1, story)
    loop.start().runner.done("start/1")
    finished = LauncherReading(Exited(1, report_of(code=0)))
    loop.telemetry.batches += [[Receipt(1, 0.0, 0, None, 2, {}, {})], [read_step(1, 1), read_step(1, 2)], [], []]
    loop.telemetry.batches.append([EndReading(1, 2, "finished"), finished])
    kept: list[float] = []
    run_until_over(loop.daemon, loop.clock, GivenWake(), lambda now_s, only_steps: kept.append(now_s))
    assert loop.engine.state.ended == "finished"
    assert story.steps == [1, 2]
    assert len(kept) == story.turns == 5
    assert max(loop.clock.waited) <= TICK_S


class Suspended(ManualClock):
    """The process is stopped while it waits."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        del event
        self.advance(timeout_s + 3600.0)
        return False


def test_a_loop_that_did_not_run_for_a_while_begins_anew_and_judges_no_silence() -> None:
    loop = Loop().launched()
    before = len(loop.log.entries)
    with pytest.raises(WasAway, match=r"did not run for 1 h"):
        run_until_over(loop.daemon, Suspended(loop.clock.now_s()), GivenWake(), lambda now_s, only_steps: None)
    assert len(loop.log.entries) == before, "an hour of silence, which nobody heard"


def test_with_an_action_under_way_it_goes_on() -> None:
    loop, turns = Loop().start(), []

    def each_turn(now_s: float, only_steps: bool) -> None:
        turns.append(now_s)
        if len(turns) == 3:
            raise Fenced("enough")

    with pytest.raises(Fenced):
        run_until_over(loop.daemon, Suspended(loop.clock.now_s()), GivenWake(), each_turn)
    assert loop.daemon.is_acting


class Written(ManualClock):
    """Somebody has written by the time the wait begins, `pace_s` later than the turn before; `other`: not only step lines, in
    these waits."""

    def __init__(self, now_s: float, wake: GivenWake, pace_s: float, other: frozenset[int] = frozenset()) -> None:
        super().__init__(now_s)
        self._wake, self._pace_s, self._other = wake, pace_s, other

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waited.append(timeout_s)
        self.advance(min(self._pace_s, timeout_s))
        self._wake.other = len(self.waited) in self._other
        return True


def rounds(pace_s: float, turns: int, other: frozenset[int] = frozenset()) -> list[bool]:
    """Whether each turn of a loop that is woken every `pace_s` seconds was for step lines alone."""
    loop, wake, seen = Loop().launched(), GivenWake(), list[bool]()

    def each_turn(now_s: float, only_steps: bool) -> None:
        if len(seen) == turns:
            raise Fenced("enough")
        seen.append(only_steps)

    with pytest.raises(Fenced):
        run_until_over(loop.daemon, Written(loop.clock.now_s(), wake, pace_s, other), wake, each_turn)
    return seen


def test_step_lines_alone_are_read_alone_between_whole_looks() -> None:
    a_second = rounds(0.05, 41)
    assert a_second[0] is False
    assert a_second.count(False) in (4, 5), "two whole looks a second"
    assert rounds(LOOK_EVERY_S, 5) == [False] * 5, "a slow trainer's lines find a whole look due"


class WrittenOnce(ManualClock):
    """Somebody has written `after_s` after the wait began, and nobody afterwards."""

    def __init__(self, now_s: float, after_s: float) -> None:
        super().__init__(now_s)
        self._after_s = after_s

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        is_first = not self.waited
        self.waited.append(timeout_s)
        self.advance(self._after_s if is_first else timeout_s)
        return is_first


def test_a_turn_for_step_lines_does_not_put_off_the_whole_look() -> None:
    loop, wake = Loop().launched(), GivenWake()
    clock = WrittenOnce(loop.clock.now_s(), after_s=0.8 * LOOK_EVERY_S)
    turns: list[tuple[float, bool]] = []

    def each_turn(now_s: float, only_steps: bool) -> None:
        turns.append((now_s - loop.clock.now_s(), only_steps))
        if len(turns) == 3:
            raise Fenced("enough")

    with pytest.raises(Fenced):
        run_until_over(loop.daemon, clock, wake, each_turn)
    assert [only_steps for _, only_steps in turns] == [False, True, False]
    assert turns[2][0] == pytest.approx(LOOK_EVERY_S)


def test_any_other_word_is_a_whole_look_at_once() -> None:
    assert rounds(0.05, 6, other=frozenset({2, 4})) == [False, True, False, True, False, True]


class Cycle:
    """It refers to itself, as a watch that was given up may."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_loaded_is_not_collected_through_again_and_what_an_earlier_watch_left_goes() -> None:
    try:
        left = weakref.ref(Cycle())
        spare_collector()
        assert left() is None
        assert len(gc.get_objects()) < gc.get_freeze_count() / 10
        left = weakref.ref(Cycle())
        gc.freeze()
        spare_collector()
        assert left() is None
    finally:
        gc.unfreeze()
