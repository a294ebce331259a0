"""How long the keeper waits for what only a launcher can tell: while the launcher lives, and never beyond the bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sentinel.launcher import keeper_loop
from sentinel.launcher.keeper_loop import GRACE_S, LAUNCHER_GRACE_S, STARVED_MAX_S, Keeper
from sentinel.launcher.keeper_start import Started
from sentinel.launcher.process_tree import Process
from sentinel.run_files.attempt_files import AttemptFiles

TORCHRUN = Process(2**22 + 5, 1, "S", 1.0)


@dataclass
class Ranks:
    """What the keeper asks of the ranks: one of two was seen, and SIGTERM ended it."""

    are_ends_known: bool = False
    ranks: set[int] = field(default_factory=lambda: {0})

    def lost(self) -> str:
        return "rank 0 was ended by signal 15 (SIGTERM)"

    def are_all_gone(self) -> bool:
        return True

    def is_word_due(self) -> bool:
        return False

    def are_all_ends_known(self) -> bool:
        return self.are_ends_known

    def needs_table(self) -> bool:
        return not self.are_ends_known

    def failed_order(self) -> tuple[int, ...]:
        return (0,)


class Unlost(Ranks):
    """None was ever seen to fail."""

    def lost(self) -> None:  # type: ignore[override]
        return None

    def needs_table(self) -> bool:
        return False


@pytest.fixture
def killed() -> list[int]:
    return []


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: list[int]) -> Iterator[Keeper]:
    monkeypatch.setattr(keeper_loop, "find_living", lambda **_: (TORCHRUN,))
    monkeypatch.setattr(keeper_loop, "send_signal", lambda process, number: bool(killed.append(process.pid)) or True)
    wake, alarm = os.pipe()
    keeper = Keeper(AttemptFiles.of(tmp_path, 1), Started((), is_agentless=False), GRACE_S, wake, [])
    monkeypatch.setattr(type(keeper._command), "pid", TORCHRUN.pid)
    yield keeper
    os.close(wake)
    os.close(alarm)


def look(keeper: Keeper, at_s: float) -> None:
    keeper._decide(at_s)
    if keeper._kill_at <= at_s:
        keeper._kill(at_s)


def test_a_living_torchrun_that_may_print_its_table_is_waited_for_as_long_as_the_bound_allows(
    keeper: Keeper, killed: list[int]
) -> None:
    keeper.ranks = Ranks()  # type: ignore[assignment]
    for at_s in (0.0, LAUNCHER_GRACE_S + 0.1, GRACE_S, GRACE_S + LAUNCHER_GRACE_S - 0.01):
        look(keeper, 100.0 + at_s)
        assert not killed, at_s
    look(keeper, 100.0 + GRACE_S + LAUNCHER_GRACE_S)
    assert killed == [TORCHRUN.pid], "the table never came"


def test_a_torchrun_without_a_processor_is_waited_for_as_much_longer(
    keeper: Keeper, killed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.ranks = Ranks()  # type: ignore[assignment]
    look(keeper, 100.0)
    starved_s = 7.0  # before the killing: that counts for nothing
    monkeypatch.setattr(keeper_loop, "read_starved_s", lambda pid: starved_s)
    look(keeper, 100.0 + GRACE_S)
    starved_s += 3.0
    look(keeper, 100.0 + GRACE_S + LAUNCHER_GRACE_S + 2.9)
    assert not killed
    look(keeper, 100.0 + GRACE_S + LAUNCHER_GRACE_S + 3.0)
    assert killed == [TORCHRUN.pid]


def test_a_torchrun_that_starves_for_ever_is_not_waited_for_as_long(
    keeper: Keeper, killed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.ranks = Ranks()  # type: ignore[assignment]
    look(keeper, 100.0)
    look(keeper, 100.0 + GRACE_S)
    monkeypatch.setattr(keeper_loop, "read_starved_s", lambda pid: 1e6)
    look(keeper, 100.0 + GRACE_S + LAUNCHER_GRACE_S + STARVED_MAX_S)
    assert killed == [TORCHRUN.pid]


def test_a_torchrun_that_has_nothing_to_tell_is_not_waited_for(keeper: Keeper, killed: list[int]) -> None:
    keeper.ranks = Ranks(are_ends_known=True)  # type: ignore[assignment]
    look(keeper, 100.0)
    assert killed == [TORCHRUN.pid]


def test_what_a_torchrun_that_ended_left_behind_gets_no_longer_than_before(keeper: Keeper, killed: list[int]) -> None:
    keeper.ranks = Ranks()  # type: ignore[assignment]
    keeper._command_status = 1
    look(keeper, 100.0)
    assert keeper._kill_at == 100.0 + LAUNCHER_GRACE_S


@pytest.mark.parametrize(("status", "asked", "count"), [(0, [], 1), (1, [], 0), (0, [15], 0)])
def test_what_a_command_that_ended_well_had_left_running_is_counted(
    keeper: Keeper, killed: list[int], status: int, asked: list[int], count: int
) -> None:
    """It may have been the training: a script that starts it in the background and ends."""
    keeper.ranks = Unlost()  # type: ignore[assignment]
    keeper._command_status = status
    look(keeper, 100.0)
    keeper._stop_signals += asked
    look(keeper, 100.0 + GRACE_S)
    assert set(killed) == {TORCHRUN.pid}
    assert keeper._left_behind() == count
