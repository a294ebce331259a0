"""A supervisor whose lease may be another's by now does nothing more, wherever it stood, and has to take the run anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel.actions.runner import carry_out
from sentinel.errors import Fenced, LeaseOverdue, RetryLater
from sentinel.journal.run_file import PolicyReference, RunFile
from sentinel.journal.session import RunSession, take_run
from sentinel.launcher.by_agents import LauncherWithAgents
from sentinel.launcher.command import CommandLauncher, CommandSettings
from sentinel.launcher.kubernetes.calls import RealKube
from sentinel.launcher.slurm.calls import ClientPlace, RealCalls
from sentinel.model.actions import ACTIONS, KillAttempt, SendPage
from sentinel.model.attempts import AttemptSpec, SettingsInForce
from sentinel.model.events import ActionFailed
from sentinel.run_files.agent_orders import OrderBook, read_orders
from sentinel.supervisor.each_turn import keep_up
from sentinel.supervisor.handlers import build_handlers

SPEC = AttemptSpec(1, ("true",), "/", None, SettingsInForce())


def overdue() -> None:
    raise LeaseOverdue("too late")


def untouched(*_: object, **__: object) -> Any:
    pytest.fail("it acted")


def test_no_handler_is_begun_but_a_page(tmp_path: Path) -> None:
    run = RunFile("r", ("true",), "/", PolicyReference("default.yaml", "d", "default"), "local", "2026-11-20T00:00:00+00:00")
    launcher: Any = SimpleNamespace(ensure_started=untouched, ensure_stopped=untouched, signal_ranks=untouched)
    with take_run(tmp_path) as session:
        handlers = build_handlers(tmp_path, launcher, session.lease, run, lambda page: "called", frozenset())
        session.lease._held_s -= 3600.0
        nothing: Any = None
        for kind in ACTIONS:
            if kind is not SendPage:
                with pytest.raises(LeaseOverdue):
                    handlers[kind](nothing)
        assert handlers[SendPage](nothing) == "called"
        failed = carry_out(handlers, KillAttempt.of(3))
        assert isinstance(failed, ActionFailed)
        assert failed.retry_in_s is not None, "it is no bug, and the loop leaves at its next turn"


def test_one_that_was_taken_over_hears_it_as_no_bug(tmp_path: Path) -> None:
    def fenced(_: object) -> str:
        raise Fenced("epoch 2 took it")

    failed = carry_out({KillAttempt: fenced}, KillAttempt.of(3))
    assert isinstance(failed, ActionFailed)
    assert (failed.reason, failed.retry_in_s) == ("epoch 2 took it", 1.0)


def turned(session: RunSession) -> None:
    quiet: Any = SimpleNamespace(
        follow=untouched, rearm=lambda: None, keep=lambda *_: None, turned=lambda: None, look=lambda *_: None, events=[],
        take_reload=lambda: False, after_turns=lambda look, _: look,
        engine=SimpleNamespace(watched=0, state=SimpleNamespace(attempt=None, plan=None)),
    )  # fmt: skip
    keep_up(session, quiet, quiet, quiet, quiet, quiet, quiet, quiet, "policy")(1e9, False)


def test_the_loop_ends_at_its_first_turn_after_it_was_stopped_for_too_long(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        turned(session)
        session.lease._held_s -= 3600.0
        with pytest.raises(LeaseOverdue):
            turned(session)


def test_a_disk_that_says_no_is_borne_until_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RetryLater("no room", 1.0)

    with take_run(tmp_path) as session:
        monkeypatch.setattr(session.lease, "_write", refuse)
        monkeypatch.setattr(session.lease, "_stamp", refuse)
        turned(session)


# -- right before the world is changed -----------------------------------------------------------------------------------


def test_agents_are_ordered_nothing(tmp_path: Path) -> None:
    inner: Any = SimpleNamespace(ensure_started=untouched, ensure_stopped=untouched, signal_ranks=untouched)
    launcher = LauncherWithAgents(inner, tmp_path, OrderBook(tmp_path, 1), signals_all=False, hold=overdue)
    spec: Any = None
    for act in (lambda: launcher.ensure_started(spec), lambda: launcher.ensure_stopped(1), lambda: launcher.signal_ranks(1, 15)):
        with pytest.raises(LeaseOverdue):
            act()
    assert read_orders(tmp_path).orders == ()


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("srun", "scancel", "kubectl"):
        (tmp_path / name).write_text(f"#!/bin/sh\n: >{tmp_path}/ran\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path / "ran"


def test_slurm_starts_and_ends_no_step(no_programs: Path, tmp_path: Path) -> None:
    calls = RealCalls(5.0, 5.0, hold=overdue)
    for act in (lambda: calls.cancel("71.3"), lambda: calls.start(["srun"], ClientPlace("/", {}, tmp_path, 0))):
        with pytest.raises(LeaseOverdue):
            act()
    assert not no_programs.exists()


def test_kubernetes_creates_and_deletes_no_jobset(no_programs: Path) -> None:
    kube = RealKube(5.0, hold=overdue)
    for act in (lambda: kube.create("training", "{}"), lambda: kube.delete("training", "s-big-1", "77")):
        with pytest.raises(LeaseOverdue):
            act()
    assert not no_programs.exists()


def test_the_commands_of_a_user_start_and_stop_nothing(tmp_path: Path) -> None:
    ran, run_dir = tmp_path / "ran", tmp_path / "run"
    run_dir.mkdir()
    settings = CommandSettings(start=f": >{ran}", status="echo none", stop=f": >{ran}")
    launcher = CommandLauncher(run_dir, settings, supervises=True, hold=overdue)
    for act in (lambda: launcher.ensure_started(SPEC), lambda: launcher.ensure_stopped(1)):
        with pytest.raises(LeaseOverdue):
            act()
    assert not ran.exists()
