"""The nodes of a large run, and the supervisor that is measured: each is a process of its own. See `test_agents_bench`.

The nodes tell of their ranks by a file of an agent on each, or without agents by a heartbeat file of each rank.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sentinel.client.heartbeat_file import HeartbeatFile
from sentinel.client.run_layout import attempt_folder, rank_file
from sentinel.client.strict_json import dumps
from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.journal.session import take_run
from sentinel.model.agents import AgentReport, BeatOnNode, RankOnNode
from sentinel.model.events import SupervisorStarted
from sentinel.model.facts import PlanAdopted
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.run_files.agent_files import ReportFile
from sentinel.run_files.agent_orders import OrderBook
from sentinel.supervisor.daemon import Daemon
from sentinel.supervisor.loop import run_until_over, spare_collector
from sentinel.telemetry.agents import Agents
from sentinel.telemetry.run_telemetry import RunTelemetry
from sentinel.telemetry.wake import Wake
from tests.bench.willing_world import AtOnce, StillAlive

NODES, RANKS, SECONDS = (int(os.environ.get(name, default)) for name, default in (("NODES", 2048), ("RANKS", 8), ("SECONDS", 60)))
WARM_S = 10.0  # until every file was met; what comes after that is measured
BAD = 5.0  # seconds before the end


def write_agents(run_dir: Path) -> None:
    """A report of each node's agent, once a second."""
    files = [ReportFile(run_dir, f"n{node}") for node in range(NODES)]

    def write(node: int, turn: int) -> None:
        rows = tuple(row(rank, turn, node) for rank in range(RANKS * node, RANKS * (node + 1)))
        files[node].write(AgentReport(f"n{node}", f"boot-{node}", f"life-{node}", turn, ranks=rows))

    write_nodes(run_dir, write)


def write_heartbeats(run_dir: Path) -> None:
    """A heartbeat file of each rank, once a second, with what the client writes into it."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each stays open, as in its rank
    folder = attempt_folder(run_dir, 1) / "heartbeats"
    files = [HeartbeatFile(rank_file(folder, rank)) for rank in range(NODES * RANKS)]

    def write(node: int, turn: int) -> None:
        for rank in range(RANKS * node, RANKS * (node + 1)):
            beat = {"step": turn, "phase": "forward", "time_s": float(turn), "pid": 4000 + rank, "host": f"n{node}"}
            files[rank].write(beat | {"boot_id": f"boot-{node}", "stack_signal": 39, "busy_step": turn - 1, "busy_s": 0.01})

    write_nodes(run_dir, write)


def write_nodes(run_dir: Path, write: Callable[[int, int], None]) -> None:
    """The nodes, spread over each second, and rank 0's stream: as long as it is not killed. `write`: a node, in a turn."""
    deadline_s = time.monotonic() + 60.0
    while not (run_dir / "attempts" / "0001" / "heartbeats").is_dir():
        assert time.monotonic() < deadline_s, "the supervisor has not begun"
        time.sleep(0.01)
    began_s, turn = time.monotonic(), 0
    stream = os.open(run_dir / "attempts" / "0001" / "metrics.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line(stream, kind="start", v=1, attempt=1, resume_step=0, world_size=NODES * RANKS, overrides={}, effective={})
    is_bad = False
    while True:
        turn += 1
        wants_bad = time.monotonic() - began_s > SECONDS - BAD and not is_bad
        is_bad = is_bad or wants_bad
        loss = "NaN" if wants_bad else 2.0
        line(stream, kind="step", step=turn, samples=[[16 * turn, 16 * turn + 16]], loss=loss, grad_norm=1.0)
        for node in range(NODES):
            write(node, turn)
            if node % 64 == 0:
                pause_s = began_s + turn - 1 + node / NODES - time.monotonic()
                time.sleep(max(0.0, pause_s))


def row(rank: int, step: int, node: int) -> object:
    beat = BeatOnNode(step, "forward", float(step), 39, step - 1, 0.01, f"n{node}")
    return RankOnNode(1, rank, 4000 + rank, "runs", "futex_wait_queue", beat)


def line(handle: int, **fields: object) -> None:
    os.write(handle, (dumps(fields | {"time_s": time.time()}) + "\n").encode())


def measure(run_dir: Path, with_agents: bool) -> None:
    """In a process of its own, which is the supervisor's. Its last line is what it found, as JSON."""
    plans: list[float] = []
    turns: list[float] = []
    heard: set[int] = set()
    with take_run(run_dir) as session:
        (run_dir / "agents").mkdir()
        (run_dir / "attempts" / "0001" / "heartbeats").mkdir(parents=True)
        engine = Engine(load_policy(shipped_policy_path("default")))
        clock, wake = SystemClock(), Wake(run_dir)

        class Timed:
            def append(self, at_s, facts, epoch):
                entries = session.journal.append(at_s, facts, epoch)
                plans.extend(time.time() for fact in facts if isinstance(fact, PlanAdopted) and fact.incident is not None)
                return entries

            def settle(self):
                session.journal.settle()

        agents = Agents(run_dir, OrderBook(run_dir, session.epoch)) if with_agents else None
        daemon = Daemon(engine, Timed(), RunTelemetry(run_dir, StillAlive(), agents=agents), AtOnce(), session.epoch)
        turn = daemon.turn

        def timed(now_s, only_steps=False):
            began = time.perf_counter()
            try:
                return turn(now_s, only_steps)
            finally:
                turns.append(time.perf_counter() - began)

        daemon.turn = timed
        spare_collector()
        daemon.start(clock.now_s(), SupervisorStarted(session.epoch, "h", 1, "r", ("x",), "/", "default", "d", False))
        timed(clock.now_s())
        wake.follow(1)
        began = [time.monotonic(), 0.0, 0.0]  # the start; the start of the measurement, and the processor time then

        def look(now_s, only_steps):
            passed_s = time.monotonic() - began[0]
            if not began[1] and passed_s > WARM_S:
                began[1], began[2] = time.monotonic(), time.process_time()
                turns.clear()
            if plans or passed_s > SECONDS + 30.0:
                raise Enough
            if not only_steps:
                wake.rearm()

        with suppress(Enough):
            run_until_over(daemon, clock, wake, look)
        share = (time.process_time() - began[2]) / (time.monotonic() - began[1])
        heard |= engine._live.hosts.keys()
        tell(share, turns, plans, len(heard), run_dir)


class Enough(Exception):
    """The NaN was decided about, or the time is up."""


def tell(share: float, turns: list[float], plans: list[float], heard: int, run_dir: Path) -> None:
    ordered = sorted(turns)
    p99 = ordered[int(0.99 * (len(ordered) - 1))]
    lines = (run_dir / "attempts" / "0001" / "metrics.jsonl").read_text().splitlines()
    bad_s = next(json.loads(text)["time_s"] for text in lines if '"NaN"' in text)
    status = Path("/proc/self/status").read_text().splitlines()
    peak_kb = int(next(text for text in status if text.startswith("VmHWM")).split()[1])
    found = {"share": share, "peak_mb": peak_kb * 1024 / 1e6, "p99_s": p99, "turns": len(turns), "heard": heard}
    print(json.dumps(found | {"plan_s": plans[0] - bad_s if plans else None}))
