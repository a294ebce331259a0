"""For every test: a property is about values. How long an example takes on a machine that is busy is no finding."""

import gc
import signal
from collections.abc import Iterator

import pytest

try:
    from hypothesis import settings
except ModuleNotFoundError:  # `make gpu` runs two rooms of tests that have none, on a machine where nothing can be installed
    pass
else:
    settings.register_profile("suite", deadline=None, print_blob=True, max_examples=50)
    settings.load_profile("suite")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell without job control: all that the tests start, and interrupt, would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all is collected: nothing of it is thrown away (a third of the time, 6.1 s to 4.3 s, 2026-11-26)


def pytest_collection_finish() -> None:
    """What was imported and collected lives as long as the process: the garbage collector need not walk it again and again. It
    walks less often, too: simulated runs make millions of small values that die by themselves (5 % of their time, 2026-11-24)."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A signal that a test leaves blocked is one that every program of a later test never hears: that one would wait for ever."""
    yield
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    assert not blocked, f"{item.nodeid} left signals blocked: {blocked}"
