"""What viewers of the page cost: ten of them, asking as the page does, at a run of 100,000 steps with 55 metrics that goes on.

The site is a process of its own, so that what is measured is the serving and neither the viewers nor the trainer.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.unit.told_run import write_run

pytestmark = pytest.mark.bench
STEPS = 100_000
VIEWERS = 10
SECONDS = 20.0
STEPS_PER_S = 10
CHOSEN = "loss,grad_norm,activation_norm/,loss_scale,lr"
LAYERS = [
    f"{name}/block-{layer}" for name in ("activation_norm", "grad_norm", "param_norm", "update_ratio") for layer in range(12)
]
NAMES = ("loss", "grad_norm", "lr", "loss_scale", "param_norm", "tokens_per_s", "step_time_s", *LAYERS)


def line(step: int) -> str:
    values = {name: 1.0 + (step % 97) * 1e-3 + place * 1.2345678e-5 for place, name in enumerate(NAMES)}
    return (
        json.dumps({"kind": "step", "step": step, "time_s": 1.7e9 + step, "samples": [[step * 16, step * 16 + 16]], **values})
        + "\n"
    )


class Viewer(threading.Thread):
    """As the page asks: how the run stands and the curves each second, the ledger now and then."""

    def __init__(self, port: int, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.over = over
        self.cursor, self.answers, self.slowest_s, self.received = "", 0, 0.0, 0

    def get(self, path: str) -> Any:
        start = time.perf_counter()
        self.connection.request("GET", f"/api/runs/run{path}")
        body = self.connection.getresponse().read()
        self.slowest_s = max(self.slowest_s, time.perf_counter() - start)
        self.answers, self.received = self.answers + 1, self.received + len(body)
        return json.loads(body)

    def refresh(self, turn: int) -> None:
        self.get("")
        since = f"&since={self.cursor}" if self.cursor else ""
        self.cursor = self.get(f"/curves?metrics={CHOSEN}{since}")["cursor"]
        if turn % 5 == 0:
            self.get("/ledger")

    def run(self) -> None:
        turn, deadline = 0, time.monotonic() + 600.0
        while not self.over.is_set() and time.monotonic() < deadline:
            self.refresh(turn)
            turn += 1
            time.sleep(1.0)


@contextmanager
def serving(run_dir: Path) -> Iterator[tuple[psutil.Process, int]]:
    words = [sys.executable, "-m", "sentinel", "web", str(run_dir), "--listen", "0"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        yield psutil.Process(child.pid), int(child.stderr.readline().split()[1].rstrip("/").rpartition(":")[2])
    finally:
        child.kill()
        child.wait(20)


def busy_s(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return spent.user + spent.system


def test_ten_viewers(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    stream = run_dir / "attempts" / "0002" / "metrics.jsonl"
    stream.parent.mkdir(parents=True)
    with stream.open("w") as file:
        file.write(json.dumps({"kind": "start", "v": 1, "attempt": 2, "resume_step": 100, "steps": 2 * STEPS}) + "\n")
        file.writelines(line(step) for step in range(101, STEPS + 1))
    with serving(run_dir) as (process, port):
        idle_s = busy_s(process)
        first = Viewer(port, threading.Event())
        start, deadline = time.perf_counter(), time.monotonic() + 600.0
        first.refresh(0)
        size_mb = stream.stat().st_size / 1e6
        print(f"\n{STEPS} steps of {len(NAMES)} metrics, {size_mb:.0f} MB; first answer within {first.slowest_s:.2f} s")
        while time.monotonic() < deadline:
            said = first.get("/curves?metrics=loss")["curves"].get("loss", {}).get("2", {"step": [0]})
            if said["step"][-1] > STEPS - 1000:
                break
            time.sleep(1.0)
        print(
            f"all curves drawn after {time.perf_counter() - start:.0f} s, for {busy_s(process) - idle_s:.1f} s of the processor"
        )
        over, step = threading.Event(), STEPS
        viewers = [Viewer(port, over) for _ in range(VIEWERS)]
        for viewer in viewers:
            viewer.refresh(0)
            viewer.slowest_s = 0.0
            viewer.start()
        before, end = busy_s(process), time.monotonic() + SECONDS
        with stream.open("a") as file:
            while not over.is_set() and time.monotonic() < end:
                step += 1
                file.write(line(step))
                file.flush()
                time.sleep(1.0 / STEPS_PER_S)
        spent = busy_s(process) - before
        over.set()
        for viewer in viewers:
            viewer.join(30.0)
        answers = sum(viewer.answers for viewer in viewers)
        print(f"{VIEWERS} viewers, {answers / SECONDS:.0f} answers/s: {spent / SECONDS:.2%} of one core")
        slowest_ms = max(viewer.slowest_s for viewer in viewers) * 1e3
        print(f"slowest answer {slowest_ms:.0f} ms; memory {process.memory_info().rss / 2**20:.0f} MiB")
        for viewer in (first, *viewers):
            with closing(viewer.connection):
                pass
