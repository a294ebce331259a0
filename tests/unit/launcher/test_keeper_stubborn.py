"""Who survives SIGKILL is named in the keeper's log, once and then rarely."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.launcher.keeper_loop import STUBBORN_AFTER_S, STUBBORN_SAY_EVERY_S, Keeper
from sentinel.launcher.keeper_start import Started
from sentinel.launcher.process_tree import Process
from sentinel.run_files.attempt_files import AttemptFiles

STUCK = Process(2**22 + 5, 1, "D", 1.0)


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    monkeypatch.setattr("sentinel.launcher.keeper_loop.find_living", lambda **_: (STUCK,))
    monkeypatch.setattr("sentinel.launcher.keeper_loop.send_signal", lambda *_: True)
    wake, alarm = os.pipe()
    yield Keeper(AttemptFiles.of(tmp_path, 1), Started((), is_agentless=True), 2.0, wake, [])
    os.close(wake)
    os.close(alarm)


def test_it_is_told_after_ten_seconds_and_then_rarely(keeper: Keeper, capfd: pytest.CaptureFixture[str]) -> None:
    told = []
    for now in (100.0, 100.0 + STUBBORN_AFTER_S - 1, 100.0 + STUBBORN_AFTER_S, 200.0, 110.0 + STUBBORN_SAY_EVERY_S):
        keeper._kill(now)
        told.append(capfd.readouterr().err)
    assert [bool(words) for words in told] == [False, False, True, False, True]
    assert f"processes survive SIGKILL for 10 s: {STUCK.pid} (state D)" in told[2]


def test_an_end_takes_one_walk_over_every_process(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[object] = []
    monkeypatch.setattr("sentinel.launcher.keeper_loop.find_living", lambda **_: walks.append(None) or ())
    for quiet in ("_wait", "_reap", "_decide"):
        monkeypatch.setattr(keeper, quiet, lambda *_: None)
    keeper._has_children, keeper._kill_at = False, 0.0
    assert keeper._is_over()
    assert len(walks) == 1
    keeper._kill_at = float("inf")  # nothing is to be killed: it looks all the same
    assert keeper._is_over()
    assert len(walks) == 2
