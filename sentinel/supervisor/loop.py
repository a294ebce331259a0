"""The loop over the real world: turn, then sleep until something is written, done, or it is time to ask every source.

Between two whole looks a turn that step lines asked for reads these, and the checkpoints before them. Steps with finite numbers
ask for one only every few steps (`telemetry/wake.py`); what a NaN asks for is decided within milliseconds. `make bench-watching`
says what it costs.
"""

from __future__ import annotations

import gc
import threading
from typing import Protocol

from sentinel.clock import Clock
from sentinel.model.amounts import time_words
from sentinel.supervisor.daemon import AWAY_S, Daemon

GARBAGE_LOOKS = (50_000, 10, 10)  # new objects between two looks for garbage, and CPython's own: a node's report is a hundred
LOOK_EVERY_S = 0.5  # hangs are judged, and every source is asked, at least this often, whatever the stream alone says meanwhile


class WasAway(Exception):
    """For so many seconds."""

    def __init__(self, seconds: float) -> None:
        away = f"sentinel did not run for {time_words(seconds)} (suspended?)"
        super().__init__(f"{away}: nothing was seen meanwhile, and it begins anew")


class NewPolicy(Exception):
    """Another policy is in force: the run is watched anew, by that."""


class LoopWake(Protocol):
    """`event` is set when somebody may have said something. `take`: clears it, and says whether it was more than step lines."""

    @property
    def event(self) -> threading.Event: ...
    def take(self) -> bool: ...


class EachTurn(Protocol):
    """What a supervisor does before every turn beside the engine. Raises Fenced when its lease is lost."""

    def __call__(self, now_s: float, only_steps: bool) -> None: ...


def spare_collector() -> None:
    """What was loaded and restored until now stays: full collections of garbage leave it out from here on. Each walked through
    all of it, 60 ms in which no other thread runs, and a NaN waits. What an earlier watch of this process left goes first; the
    first watch has none, and a run starts 60 ms earlier without that walk."""
    gc.set_threshold(*GARBAGE_LOOKS)
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def run_until_over(daemon: Daemon, clock: Clock, wake: LoopWake, each_turn: EachTurn) -> None:
    """Turn until the run is over, sleeping between turns until something is written, done, or it is time for a whole look.

    Raises:
        WasAway: this process did not run for a while (a scheduler suspended the job, a virtual machine was moved). What was not
            heard meanwhile is no silence of the ranks, which stood still as well; not where an action is under way.
        NewPolicy: somebody has applied one. No action is under way.
    """
    is_woken, looked_s = False, 0.0
    while True:
        now_s = clock.now_s()
        has_other_events = wake.take()
        only_steps = is_woken and not has_other_events and now_s - looked_s < LOOK_EVERY_S
        each_turn(now_s, only_steps)
        looked_s = looked_s if only_steps else now_s
        timeout_s = min(daemon.turn(now_s, only_steps), max(0.0, looked_s + LOOK_EVERY_S - now_s))
        if daemon.is_outdated:
            raise NewPolicy
        if daemon.is_over(clock.now_s()):
            return
        is_woken = False
        if timeout_s > 0:
            before_s = clock.now_s()
            is_woken = clock.wait(wake.event, timeout_s)
            away_s = clock.now_s() - before_s - timeout_s
            if away_s > AWAY_S and not daemon.is_acting:
                raise WasAway(away_s)
