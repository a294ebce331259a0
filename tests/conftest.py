"""For every test: a property is about values. How long an example takes on a machine that is busy is no finding."""

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

try:
    from hypothesis import settings
except ModuleNotFoundError:  # `make gpu` runs two rooms of tests that have none, on a machine where nothing can be installed
    pass
else:
    settings.register_profile("suite", deadline=None, print_blob=True, max_examples=50)
    settings.load_profile("suite")

TESTS = Path(__file__).parent
PRIORITY = pytest.StashKey[tuple[int, int]]()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell without job control: all that the tests start, and interrupt, would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all is collected: nothing of it is thrown away (a third of the time, 6.1 s to 4.3 s, 2026-11-26)


WAITING = ("conformance", "integration", "recorded")  # their tests start processes, and wait for them


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that wait are dealt evenly among those that compute, so that each worker has some of both at any time. In the order
    of their names they would come all at once, and a third of the processors would stand idle meanwhile."""
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    waiting = [path for path in modules if path.relative_to(TESTS).parts[0] in WAITING]
    others = [path for path in modules if path not in waiting]
    tests_before = itertools.accumulate((len(modules[path]) for path in others), initial=0)
    places = [(number / len(waiting), path) for number, path in enumerate(waiting)]
    places += [(before / len(items), path) for before, path in zip(tests_before, others, strict=False)]
    items[:] = [item for _, path in sorted(places) for item in modules[path]]


def pytest_collection_finish() -> None:
    """What was imported and collected lives as long as the process: the garbage collector need not walk it again and again. It
    walks less often, too: simulated runs make millions of small values that die by themselves (5 % of their time, 2026-11-24)."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[PRIORITY] = _priority()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What a test leaves changed in this process holds for every later test: a signal that it blocked is one that no program of
    theirs ever hears, and behind a lower priority they wait for all other workers."""
    yield
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    before, left = item.stash[PRIORITY], _priority()
    if left != before:
        with suppress(OSError):  # root alone gets a priority back
            os.sched_setscheduler(0, before[0], os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, before[1])
    assert not blocked, f"{item.nodeid} left signals blocked: {blocked}"
    assert left == before, f"{item.nodeid} left scheduling policy and priority {left}; it found {before}"


def _priority() -> tuple[int, int]:
    return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
