"""A launcher that reaches other nodes through their agents: what it asks of them, and what their word proves."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.client.run_layout import agent_orders_path
from sentinel.launcher.by_agents import LauncherWithAgents
from sentinel.launcher.elsewhere import find_unproven
from sentinel.model.agents import AgentAnswer, AgentReport, EndedOnNode, RankOnNode, kill_id
from sentinel.model.attempts import Alive, AttemptSpec, RankElsewhere, SettingsInForce
from sentinel.run_files.agent_files import ReportFile
from sentinel.run_files.agent_orders import OrderBook, read_orders
from sentinel.run_files.attempt_files import AttemptFiles
from tests.bench.willing_world import StillAlive

REPORT = AgentReport("n2", "b", "l", 1, ranks=(RankOnNode(1, 3, 82),))


class OneSignal(StillAlive):
    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        return 1


def launcher(run_dir: Path, *, signals_all: bool = False) -> LauncherWithAgents:
    return LauncherWithAgents(OneSignal(), run_dir, OrderBook(run_dir, 1), signals_all=signals_all)


def spec(attempt: int) -> AttemptSpec:
    return AttemptSpec(attempt, ("train",), "/", None, SettingsInForce(), launch="w")


def test_without_agents_nothing_is_asked(tmp_path: Path) -> None:
    subject = launcher(tmp_path)
    assert isinstance(subject.ensure_started(spec(1)), Alive)
    subject.ensure_stopped(1)
    assert subject.signal_ranks(1, 15) == 1
    assert not agent_orders_path(tmp_path).exists()


def test_a_start_cleans_other_nodes_and_a_stop_ends_the_very_launch_there(tmp_path: Path) -> None:
    ReportFile(tmp_path, "n2").write(REPORT)
    subject = launcher(tmp_path)
    subject.ensure_started(spec(2))
    files = AttemptFiles.of(tmp_path, 2)
    files.make_folders()
    files.spec.write_text('{"launch": "w"}')
    subject.ensure_stopped(2)
    subject.ensure_stopped(2)  # asked again it is the same
    clean, kill = read_orders(tmp_path).orders
    assert (clean.word, clean.attempt, clean.spares) == ("clean", 2, socket.gethostname())
    assert (kill.id, kill.word, kill.launch, kill.spares) == (kill_id(2, "w"), "kill", "w", socket.gethostname())


def test_orders_that_cannot_be_written_hold_up_no_stop(tmp_path: Path) -> None:
    ReportFile(tmp_path, "n2").write(REPORT)
    agent_orders_path(tmp_path).mkdir()
    assert isinstance(launcher(tmp_path).ensure_stopped(1), Alive)


def answering(run_dir: Path, count: int) -> threading.Thread:
    """An agent that answers the first order it sees."""

    def answer() -> None:
        while not (orders := read_orders(run_dir).orders):
            pass
        done = AgentAnswer(orders[0].id, "done", "", count)
        ReportFile(run_dir, "n2").write(replace(REPORT, turn=2, answers={done.id: done}))

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return thread


def test_a_signal_counts_the_ranks_that_agents_have_sent_it_to(tmp_path: Path) -> None:
    ReportFile(tmp_path, "n2").write(REPORT)
    thread = answering(tmp_path, 8)
    assert launcher(tmp_path).signal_ranks(1, 15) == 9
    thread.join()
    order = read_orders(tmp_path).orders[0]
    assert (order.word, order.attempt, order.signal) == ("signal", 1, 15)


def test_a_launcher_that_reaches_every_rank_asks_no_agent_to_signal(tmp_path: Path) -> None:
    ReportFile(tmp_path, "n2").write(REPORT)
    assert launcher(tmp_path, signals_all=True).signal_ranks(1, 15) == 1
    assert launcher(tmp_path).signal_ranks(7, 15) == 1  # of which no agent has a rank
    assert not agent_orders_path(tmp_path).exists()


# What an agent's word proves


@pytest.fixture
def files(tmp_path: Path) -> AttemptFiles:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    beat = {"step": 3, "phase": "backward", "pid": 82, "host": "n2", "boot_id": "b"}
    (files.heartbeats / "rank-00003.json").write_text(json.dumps(beat))
    return files


def unproven(files: AttemptFiles, report: AgentReport | None) -> tuple[RankElsewhere, ...]:
    if report is not None:
        ReportFile(files.run_dir, report.node).write(report)
    return find_unproven(files, "n1", frozenset())


def test_a_rank_that_the_agent_of_its_node_saw_end_has_ended(files: AttemptFiles) -> None:
    left = (RankElsewhere(3, "n2", 82),)
    assert unproven(files, None) == left
    assert unproven(files, REPORT) == left
    assert unproven(files, replace(REPORT, ranks=())) == left  # silence proves nothing
    assert unproven(files, replace(REPORT, ranks=(), has_left=True)) == left
    assert unproven(files, replace(REPORT, ranks=(), ended=(EndedOnNode(1, 3, 82),))) == ()
    assert unproven(files, replace(REPORT, ranks=(), ended=(EndedOnNode(1, 3, 7),))) == left  # an earlier process of it


def test_one_that_an_agent_never_saw_is_not_known_to_have_ended_by_its_end_of_all_that_it_sees(files: AttemptFiles) -> None:
    """It may stand in a process namespace of its own."""
    answer = AgentAnswer(kill_id(1, "w"), "done", "0 processes ended, nothing is left")
    assert unproven(files, replace(REPORT, ranks=(), answers={answer.id: answer})) == (RankElsewhere(3, "n2", 82),)


def test_the_agent_of_another_boot_of_the_node_proves_nothing(files: AttemptFiles) -> None:
    assert unproven(files, replace(REPORT, boot_id="c", ranks=(), ended=(EndedOnNode(1, 3, 82),))) != ()
