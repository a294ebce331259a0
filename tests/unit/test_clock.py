"""The session clock looks like Unix time and never runs backwards, whatever happens to the machine's own clock."""

from __future__ import annotations

import threading

import pytest

from sentinel import clock as clock_module
from sentinel.clock import Clock, SystemClock


class Hardware:
    """Stands in for the time module: wall and monotonic time as the test sets them."""

    wall_s = 1_700_000_000.0
    monotonic_s = 50.0

    def time(self) -> float:
        return self.wall_s

    def monotonic(self) -> float:
        return self.monotonic_s


@pytest.fixture
def hardware(monkeypatch: pytest.MonkeyPatch) -> Hardware:
    made = Hardware()
    monkeypatch.setattr(clock_module, "time", made)
    return made


def test_a_new_run_starts_at_the_wall_clock(hardware: Hardware) -> None:
    clock: Clock = SystemClock()
    assert clock.now_s() == 1_700_000_000.0
    hardware.monotonic_s += 2.5
    assert clock.now_s() == 1_700_000_002.5


def test_setting_the_machines_clock_moves_only_the_wall_time(hardware: Hardware) -> None:
    clock = SystemClock()
    hardware.wall_s -= 3600
    hardware.monotonic_s += 1
    assert clock.now_s() == 1_700_000_001.0
    assert clock.wall_s() == 1_700_000_000.0 - 3600


def test_a_session_never_starts_before_the_journals_last_entry(hardware: Hardware) -> None:
    assert SystemClock(floor_s=1_700_009_000.0).now_s() == 1_700_009_000.0
    assert SystemClock(floor_s=1_600_000_000.0).now_s() == 1_700_000_000.0


def test_waiting_ends_with_the_event_or_the_time() -> None:
    event = threading.Event()
    assert SystemClock().wait(event, 0.001) is False
    assert SystemClock().wait(event, -5.0) is False
    event.set()
    assert SystemClock().wait(event, float("inf")) is True
