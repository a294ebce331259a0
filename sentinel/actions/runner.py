"""Carries out actions off the loop: one lane for acts, in the order they were decided, one for each route of pages, one for
deleting and one for checks of nodes that nothing waits for. So neither a hung pager nor a slow disk delays a recovery, nor one
pager another. Every exception becomes an outcome. An act that is stuck for ever can be left behind: its lane goes on with the
next one in another thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sentinel.errors import EngineDown, Fenced, GiveUp, GoesOn, NotYet, RetryLater
from sentinel.filesystem import may_pass
from sentinel.model.actions import Action, CheckNodes, LoadPolicy, PruneCheckpoint, ReadAnchor, SendPage
from sentinel.model.environment import Environment
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.model.node_checks import NodeVerdicts
from sentinel.model.readings import CheckpointRead
from sentinel.model.records import Attribution, Comparison, FoundCheckpoints, LoadedPolicy
from sentinel.model.saved import SavedNumbers

Found = (
    str
    | Comparison
    | FoundCheckpoints
    | SavedNumbers
    | CheckpointRead
    | Attribution
    | LoadedPolicy
    | NodeVerdicts
    | tuple[str, Environment]
)
Handler = Callable[[Action], Found]
StartThread = Callable[[Callable[[], None], str], threading.Thread]  # what it runs, and its name; RuntimeError where none is left
FENCED_RETRY_S = 1.0
OS_RETRY_S = 5.0  # the operating system said no, and it may pass: a full disk, no processes left


ACTS = "acts"
PAGES = "pages"
LANES = (ACTS, PAGES, "deletions", "policies", "checks")
LANES_MAX = 32  # threads; the pages of routes beyond that share the lane PAGES


@dataclass(slots=True)
class UnderWay:
    """One act as its thread carries it out."""

    key: str
    progress: int = 0
    is_abandoned: bool = False


_here = threading.local()


def progressed() -> None:
    """For a handler that reads or changes much: it has got further. Raises GiveUp once nobody waits for the act any more, so that
    one which comes back late changes nothing."""
    under_way: UnderWay | None = getattr(_here, "under_way", None)
    if under_way is None:
        return  # called outside of any lane
    under_way.progress += 1
    if under_way.is_abandoned:
        raise GiveUp("it was given up because nothing was heard of it for too long")


def lane_of(action: Action) -> str:
    if isinstance(action, SendPage):
        return f"{PAGES} {action.route}" if action.route else PAGES
    if isinstance(action, LoadPolicy):  # its file may lie on a disk that does not answer, and no repair waits for that
        return "policies"
    if isinstance(action, CheckNodes) and action.purpose != "launch":  # minutes, for which no repair waits
        return "checks"
    return "deletions" if isinstance(action, (PruneCheckpoint, ReadAnchor)) else ACTS


class ThreadRunner:
    """`handlers` maps an action's type to the function that carries it out and returns a detail, what it found, or both."""

    def __init__(
        self, handlers: Mapping[type[Action], Handler], wake: threading.Event, start: StartThread | None = None
    ) -> None:
        """`start`: starts the lanes' threads, from which everything that an action starts inherits its priority."""
        self._handlers = handlers
        self._wake = wake
        self._start = start or start_daemon
        self._outcomes: queue.SimpleQueue[ActionDone | ActionFailed] = queue.SimpleQueue()
        self._lanes = {name: _Lane(name, self._carry_out, self._start) for name in LANES}

    def submit(self, action: Action) -> None:
        name = lane_of(action)
        if name not in self._lanes and len(self._lanes) < LANES_MAX:  # a route's first page
            with suppress(RuntimeError):  # no processes left: a page that waits for another beats a loop that ends
                self._lanes[name] = _Lane(name, self._carry_out, self._start)
        self._lanes.get(name, self._lanes[PAGES]).put(action)

    def outcomes(self) -> Sequence[ActionDone | ActionFailed]:
        found: list[ActionDone | ActionFailed] = []
        while not self._outcomes.empty():
            found.append(self._outcomes.get())
        return found

    def progress(self, key: str) -> int | None:
        """How often the act said that it got further; None: it was not begun, or has ended."""
        found = next((lane.under_way for lane in self._lanes.values() if lane.is_at(key)), None)
        return None if found is None else found.progress

    def abandon(self, key: str) -> None:
        """Leave the act behind where it is stuck. What comes of it is not heard any more."""
        for lane in self._lanes.values():
            if lane.is_at(key):
                lane.abandon()

    def close(self, timeout_s: float) -> bool:
        """Take no more acts, forget those that were not begun, wait for the one under way; whether none is under way now.

        A page may go on by itself, and so may a deletion: neither changes anything that a successor acts upon.
        """
        return self._lanes[ACTS].close(timeout_s)

    def _carry_out(self, action: Action) -> None:
        under_way: UnderWay = _here.under_way
        outcome = carry_out(self._handlers, action)
        if not under_way.is_abandoned:
            self._outcomes.put(outcome)
            self._wake.set()


def carry_out(handlers: Mapping[type[Action], Handler], action: Action) -> ActionDone | ActionFailed:
    """Do one action; never raises."""
    try:
        result = handlers[type(action)](action)
        if isinstance(result, tuple):
            detail, found = result
            return ActionDone(action.key, detail, found)
        return ActionDone(action.key, result) if isinstance(result, str) else ActionDone(action.key, "", result)
    except GoesOn as later:
        return ActionFailed(action.key, str(later), later.retry_in_s, goes_on=True, unproven=isinstance(later, NotYet))
    except EngineDown as later:
        return ActionFailed(action.key, str(later), later.retry_in_s, by_engine=True)
    except RetryLater as later:
        return ActionFailed(action.key, str(later), later.retry_in_s)
    except Fenced as lost:  # the loop hears the same at its next turn, and leaves
        return ActionFailed(action.key, str(lost), FENCED_RETRY_S)
    except GiveUp as final:
        return ActionFailed(action.key, str(final), None)
    except OSError as error:
        return ActionFailed(action.key, str(error), OS_RETRY_S if may_pass(error) else None)
    except Exception as bug:  # noqa: BLE001 - a bug in one act must reach the engine, which pages; a dead lane would be silence
        return ActionFailed(action.key, f"internal error: {type(bug).__name__}: {bug}", None)


def start_daemon(run: Callable[[], None], name: str) -> threading.Thread:
    """From the thread that asks for it."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class _Lane:
    """Does one thing after the other in a daemon thread, until it is closed."""

    def __init__(self, name: str, work: Callable[[Action], None], start: StartThread) -> None:
        self._name = name
        self._start = start
        self._queue: queue.SimpleQueue[Action | None] = queue.SimpleQueue()
        self._work = work
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.under_way: UnderWay | None = None
        self._begin()

    def put(self, action: Action) -> None:
        self._queue.put(action)
        if self._thread is None:
            with suppress(RuntimeError):
                self._begin()

    def is_at(self, key: str) -> bool:
        return self.under_way is not None and self.under_way.key == key

    def abandon(self) -> None:
        assert self.under_way is not None, f"lane {self._name} does nothing that could be abandoned"
        self.under_way.is_abandoned = True
        self.under_way = self._thread = None
        with suppress(RuntimeError):  # no processes left: the next act tries again
            self._begin()

    def close(self, timeout_s: float) -> bool:
        self._is_closed.set()
        self._queue.put(None)  # wakes it
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _begin(self) -> None:
        self._thread = self._start(self._run, f"sentinel-{self._name}")

    def _run(self) -> None:
        while (action := self._queue.get()) is not None and not self._is_closed.is_set():
            self.under_way = _here.under_way = mine = UnderWay(action.key)
            self._work(action)
            if mine.is_abandoned:
                return  # another thread has the queue now
            self.under_way = None
