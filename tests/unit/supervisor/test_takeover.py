"""The lease of a supervisor on another machine is waited for, as long as was asked, and not a moment where that cannot help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentinel.errors import AlreadySupervised, UsageError
from sentinel.supervisor.systemd import Notifier
from sentinel.supervisor.takeover import LOOK_EVERY_S, ON_CLUSTER_S, Takeover, parse_takeover_wait

ELSEWHERE = AlreadySupervised("run: already supervised by pid 580 on n1", is_elsewhere=True)


class Stops:
    """Stands for StopSignals: `waits` is how long was waited, and a stop comes after `stop_after` of them."""

    def __init__(self, stop_after: int = 1000) -> None:
        self.waits: list[float] = []
        self.names: list[str] = []
        self.event: Any = self
        self._stop_after = stop_after

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if len(self.waits) >= self._stop_after:
            self.names.append("SIGTERM")
        return bool(self.names)


def waiting(stops: Any, wait_s: float) -> Takeover:
    return Takeover(Path("run"), wait_s, stops, Notifier())


def test_it_looks_again_until_the_wait_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    stops = Stops()
    takeover = waiting(stops, 5.0)
    assert [takeover.waits_for(ELSEWHERE) for _ in range(4)] == [True, True, True, False]
    assert stops.waits == [LOOK_EVERY_S, LOOK_EVERY_S, 1.0]
    said = capsys.readouterr().err
    assert said.count("waiting up to 5s for that lease (--takeover-wait)") == 1
    assert "pid 580 on n1" in said
    assert not takeover.is_broken_off


def test_a_stop_ends_the_wait() -> None:
    stops = Stops(stop_after=2)
    takeover = waiting(stops, 90.0)
    assert [takeover.waits_for(ELSEWHERE) for _ in range(2)] == [True, False]
    assert takeover.is_broken_off


@pytest.mark.parametrize(
    ("error", "wait_s"), [(AlreadySupervised("run: already supervised by pid 580"), 90.0), (ELSEWHERE, 0.0)]
)
def test_there_is_no_wait_for_this_machine_nor_unasked(error: AlreadySupervised, wait_s: float) -> None:
    stops = Stops()
    assert not waiting(stops, wait_s).waits_for(error)
    assert not stops.waits


def test_a_scheduler_may_have_moved_the_run_so_there_it_waits_by_default() -> None:
    assert parse_takeover_wait(None, {}) == 0.0
    assert parse_takeover_wait(None, {"SLURM_JOB_ID": "7"}) == ON_CLUSTER_S
    assert parse_takeover_wait("0s", {"SLURM_JOB_ID": "7"}) == 0.0
    assert parse_takeover_wait("3m", {}) == 180.0


def test_a_wait_that_is_no_duration_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--takeover-wait: 'soon' .*write it as '30s'"):
        parse_takeover_wait("soon", {})
