"""Carries out actions off the loop: one lane for acts, in the order they were decided, one for each route of pages and one for
deleting, so that neither a hung pager nor a slow disk delays a recovery, nor one pager another. Every exception becomes an
outcome."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from sentinel.errors import GiveUp, GoesOn, RetryLater
from sentinel.model.actions import Action, PruneCheckpoint, SendPage
from sentinel.model.environment import Environment
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.model.records import Attribution, Comparison, FoundCheckpoints, SavedNumbers

Found = str | Comparison | FoundCheckpoints | SavedNumbers | Attribution | tuple[str, Environment]
Handler = Callable[[Action], Found]
OS_RETRY_S = 5.0  # the operating system said no (full disk, no processes left): that may pass


ACTS = "acts"
PAGES = "pages"
LANES_MAX = 32  # threads; the pages of routes beyond that share the lane PAGES


def lane_of(action: Action) -> str:
    if isinstance(action, SendPage):
        return f"{PAGES} {action.route}" if action.route else PAGES
    return "deletions" if isinstance(action, PruneCheckpoint) else ACTS


class ThreadRunner:
    """`handlers` maps an action's type to the function that carries it out and returns a detail, what it found, or both."""

    def __init__(self, handlers: Mapping[type[Action], Handler], wake: threading.Event) -> None:
        self._handlers = handlers
        self._wake = wake
        self._outcomes: queue.SimpleQueue[ActionDone | ActionFailed] = queue.SimpleQueue()
        self._lanes = {name: _Lane(name, self._carry_out) for name in (ACTS, PAGES, "deletions")}

    def submit(self, action: Action) -> None:
        name = lane_of(action)
        if name not in self._lanes and len(self._lanes) < LANES_MAX:  # a route's first page
            with suppress(RuntimeError):  # no processes left: a page that waits for another beats a loop that ends
                self._lanes[name] = _Lane(name, self._carry_out)
        self._lanes.get(name, self._lanes[PAGES]).put(action)

    def outcomes(self) -> Sequence[ActionDone | ActionFailed]:
        found: list[ActionDone | ActionFailed] = []
        while not self._outcomes.empty():
            found.append(self._outcomes.get())
        return found

    def close(self, timeout_s: float) -> bool:
        """Take no more acts, forget those that were not begun, wait for the one under way; whether none is under way now.

        A page may go on by itself, and so may a deletion: neither changes anything that a successor acts upon.
        """
        return self._lanes[ACTS].close(timeout_s)

    def _carry_out(self, action: Action) -> None:
        self._outcomes.put(carry_out(self._handlers, action))
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
        return ActionFailed(action.key, str(later), later.retry_in_s, goes_on=True)
    except RetryLater as later:
        return ActionFailed(action.key, str(later), later.retry_in_s)
    except GiveUp as final:
        return ActionFailed(action.key, str(final), None)
    except OSError as error:
        return ActionFailed(action.key, str(error), OS_RETRY_S)
    except Exception as bug:  # noqa: BLE001 - a bug in one act must reach the engine, which pages; a dead lane would be silence
        return ActionFailed(action.key, f"internal error: {type(bug).__name__}: {bug}", None)


class _Lane:
    """A daemon thread that does one thing after the other, until it is closed."""

    def __init__(self, name: str, work: Callable[[Action], None]) -> None:
        self._queue: queue.SimpleQueue[Action | None] = queue.SimpleQueue()
        self._work = work
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sentinel-{name}", daemon=True)
        self._thread.start()

    def put(self, action: Action) -> None:
        self._queue.put(action)

    def close(self, timeout_s: float) -> bool:
        self._is_closed.set()
        self._queue.put(None)  # wakes it
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (action := self._queue.get()) is not None and not self._is_closed.is_set():
            self._work(action)
