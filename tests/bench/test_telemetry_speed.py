"""How fast a backlog is read, what it costs in memory, and what a poll costs when nothing happens."""

import json
import os
import resource
import time
from pathlib import Path

import pytest

from sentinel.model.attempts import AttemptSpec, AttemptView, NotStarted
from sentinel.model.readings import StepReading
from sentinel.telemetry.heartbeats import Heartbeats
from sentinel.telemetry.lineage import read_history
from sentinel.telemetry.metrics_jsonl import MetricsStream
from sentinel.telemetry.run_telemetry import RunTelemetry

ROWS = 1_000_000
NAMES = ["loss", "grad_norm", "activation_norm", "param_norm", "update_norm", "lr", "tokens_per_s", "step_time_s", "data_time_s"]
NAMES += ["mfu", "loss_scale", "overflow", "clip_coef"]


class Nobody:
    """A launcher that costs nothing."""

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        return NotStarted(attempt)

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        raise AssertionError

    def ensure_stopped(self, attempt: int) -> AttemptView:
        raise AssertionError

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        raise AssertionError


def write_stream(path: Path, rows: int) -> int:
    path.parent.mkdir(parents=True)
    metrics = {name: 1.2345678 + index for index, name in enumerate(NAMES)}
    with path.open("w") as file:
        for step in range(1, rows + 1):
            fields = {"kind": "step", "step": step, "time_s": 1.7e9 + step, "samples": [[step * 256, step * 256 + 256]]}
            file.write(json.dumps(fields | metrics, separators=(",", ":")) + "\n")
    return path.stat().st_size


def rss_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


@pytest.mark.bench
def test_reading_a_million_lines(tmp_path: Path) -> None:
    size = write_stream(tmp_path / "attempts" / "0001" / "metrics.jsonl", ROWS)
    stream = MetricsStream(tmp_path, 1)
    before_mib = rss_mib()
    began_s, cpu_s, rows, slowest_s = time.perf_counter(), time.process_time(), 0, 0.0
    while rows == 0 or stream.has_more:
        poll_s = time.perf_counter()
        rows += sum(1 for reading in stream.poll(0.0) if type(reading) is StepReading)
        slowest_s = max(slowest_s, time.perf_counter() - poll_s)
    spent_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    assert rows == ROWS
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\n{rows} lines of {size / ROWS:.0f} bytes: {rows / spent_s:,.0f} rows/s ({rows / cpu_s:,.0f} per processor second)")
    print(f"slowest poll {slowest_s * 1e3:.0f} ms; RSS {before_mib:.0f} MiB before, {rss_mib():.0f} after, peak {peak_mib:.0f}")
    began_s = time.perf_counter()
    history = read_history(tmp_path, 2, ROWS // 2)
    print(f"history of {len(history)} steps from the middle of it: {(time.perf_counter() - began_s) * 1e3:.0f} ms")


@pytest.mark.bench
@pytest.mark.parametrize("ranks", [8, 1000])
def test_polling_heartbeats(tmp_path: Path, ranks: int) -> None:
    folder = tmp_path / "attempts" / "0001" / "heartbeats"
    folder.mkdir(parents=True)
    for rank in range(ranks):
        (folder / f"rank-{rank:05d}.json").write_text('{"step":1,"phase":"forward","time_s":1.0}')
    beats = Heartbeats(tmp_path, 1)
    began_s = time.perf_counter()
    assert len(beats.poll(0.0)) == ranks + 1
    first_s = time.perf_counter() - began_s
    cpu_s = time.process_time()
    for _ in range(100):
        assert beats.poll(0.0) == []
    unchanged_ms = (time.process_time() - cpu_s) * 10
    print(f"\n{ranks} ranks: first poll {first_s * 1e3:.2f} ms, unchanged {unchanged_ms:.3f} ms of processor time")


@pytest.mark.bench
def test_polling_a_run_in_which_nothing_happens(tmp_path: Path) -> None:
    write_stream(tmp_path / "attempts" / "0001" / "metrics.jsonl", 1000)
    for step in range(100, 1001, 10):
        folder = tmp_path / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"step": step, "attempt": 1, "cursor": step}))
    telemetry = RunTelemetry(tmp_path, Nobody())
    telemetry.follow(1)
    telemetry.poll(0.0)
    telemetry.poll(10.0)
    cpu_s = time.process_time()
    for tick in range(1000):
        telemetry.poll(11.0 + tick / 100)
    print(f"\nan idle poll of everything: {time.process_time() - cpu_s:.3f} ms of processor time")
