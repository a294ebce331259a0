"""Sentinel alone: start-up, memory after a million readings, and the time from a trainer's write to a decision on disk.

    make bench

Prints; asserts nothing about time. docs/costs.md has what it printed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.journal.session import take_run
from sentinel.model.attempts import SampleRange
from sentinel.model.events import ActionDone, SupervisorStarted
from sentinel.model.facts import FindingRecorded, PlanAdopted
from sentinel.model.findings import Kind
from sentinel.model.readings import Receipt, StepReading
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.supervisor.daemon import Daemon
from sentinel.supervisor.loop import run_until_over
from sentinel.telemetry.run_telemetry import RunTelemetry
from sentinel.telemetry.wake import Wake
from tests.bench.willing_world import AtOnce, StillAlive

pytestmark = pytest.mark.bench
FINDINGS = 300
PLANS = 60
HEALTHY = 12  # steps before the bad one of each run that is repaired
# Reads lines "PATH HEALTHY BAD ABOUT" and writes such a stream: BAD times a row, after HEALTHY rows, that must be decided about.
WRITER = """
import json, os, sys, time
for command in sys.stdin:
    path, healthy, bad, about = command.split()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = lambda d: os.write(fd, (json.dumps(d, separators=(",", ":")) + "\\n").encode())  # as our client spells it
    line({"kind": "start", "v": 1, "attempt": 1, "time_s": time.time(), "resume_step": 0, "world_size": 1,
          "overrides": {}, "effective": {}})
    n = 0
    for kind in (["good"] * int(healthy) + ["bad"]) * int(bad):
        n += 1
        time.sleep(0.013)
        row = {"kind": "step", "step": n, "samples": [[16*n, 16*n+16]], "loss": 2.0, "grad_norm": 1.0}
        if kind == "bad" and about == "finding":
            row |= {"skipped": 1, "grad_norm/" + str(n): "NaN"}  # another name each time: one finding a metric and episode
        elif kind == "bad":
            row["loss"] = "NaN"
        row["time_s"] = time.time()
        line(row)
    os.close(fd)
"""


def test_start_up() -> None:
    def seconds(*words: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        return time.perf_counter() - start

    bare = statistics.median(seconds("-c", "pass") for _ in range(5))
    for words in (("-m", "sentinel", "--help"), ("-c", "import sentinel.supervisor.app")):
        took = statistics.median(seconds(*words) for _ in range(5))
        print(f"start-up  {' '.join(words):32s} {took:.3f} s (a bare interpreter {bare:.3f} s; median of 5; the bar is 1 s)")


def test_memory_after_a_million_readings() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.bench.test_supervisor import feed_a_million\n"
        "feed_a_million()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(done.stdout.strip())


def peak_mib() -> float:
    """The process's own peak. (getrusage would also count the parent's, which a child inherits across fork and exec.)"""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def feed_a_million() -> None:
    engine = Engine(load_policy(shipped_policy_path("default")))
    engine.handle(0.0, SupervisorStarted(1, "h", 1, "r", ("x",), "/", "default", "d", False))
    engine.handle(0.0, ActionDone("start/1"))
    engine.handle(0.0, Receipt(1, 0.0, 0, None, 1, {}, {}))
    start = time.perf_counter()
    for step in range(1, 1_000_001):
        noise = ((step * 2654435761) % 1000 - 500) / 5000
        samples = (SampleRange(16 * step, 16 * step + 16),)
        engine.handle(float(step), StepReading(1, step, float(step), samples, {"loss": 2.0 + noise, "grad_norm": 1.0 + noise}))
    took = time.perf_counter() - start
    peak = peak_mib()
    print(f"memory    1,000,000 step readings through the engine: peak {peak:.0f} MiB (bar 150 MB), {1e6 / took:,.0f} rows/s")
    assert engine.state.incidents == ()


def test_decision_latency(tmp_path: Path) -> None:
    """Two decisions: to note a finding that needs no remedy, and to open an incident and adopt the plan that repairs it."""
    with subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, text=True) as writer:
        noted = measure(tmp_path / "noted", writer, "finding", 1, FINDINGS)
        planned = [x for n in range(PLANS) for x in measure(tmp_path / f"planned-{n}", writer, "plan", HEALTHY, 1)]
        assert writer.stdin is not None
        writer.stdin.close()
    tell("a finding noted", noted, FINDINGS)
    tell("a NaN to its plan", planned, PLANS)


class Enough(Exception):
    """Every decision was seen, or the time is up."""


def measure(run_dir: Path, writer: subprocess.Popen[str], about: str, healthy: int, bad: int) -> list[float]:
    """Seconds from each bad row's write until the decision about it is on disk, in the supervisor's own loop."""
    run_dir.mkdir(parents=True)
    stream = run_dir / "attempts" / "0001" / "metrics.jsonl"
    latencies: list[float] = []
    with take_run(run_dir) as session:
        (stream.parent / "heartbeats").mkdir(parents=True)
        engine = Engine(load_policy(shipped_policy_path("default")))
        clock = SystemClock()
        wake = Wake(run_dir)
        last = [0.0]

        class Timed:
            def append(self, at_s, facts, epoch):
                entries = session.journal.append(at_s, facts, epoch)
                now = time.time()
                latencies.extend(now - last[0] for fact in facts if is_decision(fact, about))
                return entries

            def settle(self):
                session.journal.settle()

        telemetry = RunTelemetry(run_dir, StillAlive())

        def noting(poll):
            def noted(now_s):
                readings = poll(now_s)
                last[0] = max([last[0], *(reading.time_s for reading in readings if isinstance(reading, StepReading))])
                return readings

            return noted

        telemetry.poll, telemetry.poll_steps = noting(telemetry.poll), noting(telemetry.poll_steps)
        daemon = Daemon(engine, Timed(), telemetry, AtOnce(), session.epoch)
        daemon.start(clock.now_s(), SupervisorStarted(session.epoch, "h", 1, "r", ("x",), "/", "default", "d", False))
        daemon.turn(clock.now_s())
        wake.follow(1)
        wake.rearm()
        daemon.turn(clock.now_s())
        assert writer.stdin is not None
        writer.stdin.write(f"{stream} {healthy} {bad} {about}\n")
        writer.stdin.flush()
        deadline = time.monotonic() + 60

        def look(now_s, only_steps):
            if len(latencies) >= bad or time.monotonic() > deadline:
                raise Enough
            if not only_steps:
                wake.rearm()

        with suppress(Enough):
            run_until_over(daemon, clock, wake, look)
        wake.close()
    if about == "plan":
        assert [incident.kind for incident in engine.state.incidents] == [Kind.NON_FINITE]
    return latencies


def is_decision(fact: object, about: str) -> bool:
    if about == "finding":
        return isinstance(fact, FindingRecorded)
    return isinstance(fact, PlanAdopted) and fact.incident is not None


def tell(what: str, seconds: list[float], expected: int) -> None:
    ms = sorted(1000 * x for x in seconds)
    assert len(ms) >= expected * 0.9, f"only {len(ms)} decisions"
    p99 = ms[int(0.99 * (len(ms) - 1))]
    told = f"median {statistics.median(ms):.2f} ms, p99 {p99:.2f} ms, max {ms[-1]:.2f} ms, n={len(ms)}"
    print(f"latency   from the write to the decision on disk, {what}: {told} (bar p99 10 ms)")
