"""A signal that asks to leave is answered where the screen waits, and never in the middle of a picture."""

from __future__ import annotations

import io
import signal

import pytest
from rich.console import Console

from sentinel.terminal.screen import Screen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_is_answered_by_the_next_wait_and_a_second_one_at_once(number: int) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    written = io.StringIO()
    with Screen(Console(file=written, force_terminal=True, width=80, height=24)) as screen:
        signal.raise_signal(number)  # as if in the middle of a picture: nothing is raised
        assert screen.wait(60.0) == "q"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert written.getvalue().endswith("\x1b[?25h\x1b[?1049l")  # the cursor, and its own screen
    assert {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)} == before
