"""The same trainer and the same faults under torchrun, NVRx's ft_launcher and Sentinel (cold, direct, warm), in turn.

    python -m tests.compare [--repeats 5] [--faults kill,hang,nan,poison] [--systems torchrun,…] [--write FILE]

Two ranks on the CPU, preset micro. Every system gets the trainer as it is, with what it offers by default and restarts allowed.
ft_launcher runs where it is installed, or lies in $NVRX (pip install --no-deps --target $NVRX nvidia-resiliency-ext
defusedxml pynvml).

A killed or stopped rank: seconds from the signal to the first step beyond those that were there. NaN and poison: the loss that
the run ends at, less that of a run that nobody hurt.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import psutil

from tests.compare.table import NAMES, Cell, Outcome, page

ROOT = Path(__file__).resolve().parents[2]
POLICY = ROOT / "tests" / "chaos" / "policy.yaml"
STRUCK_FROM = 60  # the step from which a signal may come
FAULT_STEP, STEPS = 240, 400  # of a fault in the numbers, and of the run that has it
ENDLESS = 1_000_000
WITHIN_S = {"kill": 60.0, "hang": 60.0, "nan": 240.0, "poison": 240.0}
BATCH = 16
LOOK_S = 0.01
TRAINER = ["-m", "trainer", "--preset", "micro", "--set", "data.seq_len=128", f"data.batch_size={BATCH}", "checkpoint.every=20"]
FAULTS = {
    "kill": [], "hang": [], "none": [],
    "nan": ["--fault", f"nan_state@step={FAULT_STEP}"],
    "poison": ["--fault", f"bad_data@sample={FAULT_STEP * BATCH}-{(FAULT_STEP + 20) * BATCH}"],
}  # fmt: skip


@dataclass
class Run:
    """One system with the trainer under it, in a folder of its own."""

    system: str
    folder: Path
    fault: str

    def start(self) -> Run:
        steps = ENDLESS if self.fault in ("kill", "hang") else STEPS
        trainer = [*TRAINER, "parallel.threads=1", f"schedule.steps={steps}", *FAULTS[self.fault]]
        environment = os.environ | {"COMPARE_RUN": str(self.folder), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        if self.system == "torchrun-own":
            environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("NVRX", ""))))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(trainer), cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        return self

    def command(self, trainer: list[str]) -> list[str]:
        agent = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node=2"]
        alone = [*trainer, "--out-dir", str(self.folder / "run"), "--resume"]
        if self.system.startswith("torchrun"):
            return [*agent, "--max-restarts", "3", *alone]
        if self.system == "ft_launcher":
            place = f"--rdzv-endpoint=127.0.0.1:{free_port()}"
            words = ["--nnodes", "1", "--nproc-per-node", "2", "--max-restarts", "3", "--rdzv-backend=c10d", place]
            return [sys.executable, "-m", "nvidia_resiliency_ext.fault_tolerance.launcher", *words, *alone]
        words = ["run", "--run-dir", str(self.folder / "run"), "--policy", str(POLICY), "--listen", "off", "--no-tensorboard"]
        switch = [f"--{self.system}"] if self.system in ("warm", "direct") else []
        return [sys.executable, "-m", "sentinel", *words, *switch, "--", *agent, "--max-restarts", "0", *trainer]

    def steps(self, from_attempt: int = 0) -> list[tuple[float, int, float]]:
        """(time, step, loss) of every step reported so far, as they were written; from one of Sentinel's attempts on. Others know
        none."""
        found = []
        for path in sorted(self.folder.glob("run/**/metrics.jsonl")):
            if not path.parent.name.isdecimal() or int(path.parent.name) >= from_attempt:
                for line in path.read_text(errors="replace").splitlines():
                    with suppress(ValueError):
                        row = json.loads(line)
                        if row.get("kind") == "step":
                            found.append((float(row["time_s"]), int(row["step"]), float(row["loss"])))
        return sorted(found)

    def furthest(self) -> int:
        return max((step for _, step, _ in self.steps()), default=0)

    def is_ready(self) -> bool:
        """It trains, and where a reserve is to be there, it is."""
        if self.system == "warm":
            with suppress(OSError, ValueError):
                standing = json.loads((self.folder / "run/warm.json").read_text())
                return self.furthest() >= STRUCK_FROM and standing["state"] == "ready"
            return False
        return self.furthest() >= STRUCK_FROM

    def rank(self, number: int) -> int:
        """The process that trains as this rank: a warm one that waits has no attempt yet."""
        for process in psutil.process_iter():
            with suppress(OSError):
                entries = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
                supervised = self.system in ("cold", "direct", "warm")
                has_turn = not supervised or any(entry.startswith(b"SENTINEL_ATTEMPT=") for entry in entries)
                if has_turn and {f"RANK={number}".encode(), f"COMPARE_RUN={self.folder}".encode()} <= set(entries):
                    return process.pid
        raise RuntimeError(f"{self.system}: rank {number} is not there")

    def end(self) -> None:
        """Whatever still carries the run's variable is killed, until nothing does."""
        mark = f"COMPARE_RUN={self.folder}".encode()
        for _ in range(50):
            left = 0
            for process in psutil.process_iter():
                with suppress(OSError, psutil.Error):
                    if process.pid != os.getpid() and mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                        left += 1
                        process.kill()
            if not left:
                break
            time.sleep(LOOK_S)
        self.process.wait()


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def comes_about(ready: Callable[[], bool], within_s: float) -> bool:
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        if ready():
            return True
        time.sleep(0.1)
    return False


def strike(run: Run) -> Outcome:
    """Kill or stop rank 1, and wait for new ground."""
    if not comes_about(run.is_ready, 120.0):
        return Outcome(None, "it did not come up")
    pid, before = run.rank(1), run.furthest()
    struck_s = time.time()
    os.kill(pid, signal.SIGKILL if run.fault == "kill" else signal.SIGSTOP)
    found: list[float] = []

    def is_back() -> bool:
        newer = [at for at, step, _ in run.steps(from_attempt=2) if step > before + 2 and at > struck_s + 0.3]
        found[:] = newer[:1]
        return bool(newer) or run.process.poll() is not None

    comes_about(is_back, WITHIN_S[run.fault])
    if found:
        return Outcome(found[0] - struck_s)
    left = run.process.poll()
    return Outcome(None, f"it left with {left}" if left is not None else f"not within {WITHIN_S[run.fault]:.0f} s")


def train(run: Run) -> Outcome:
    """Train to the end; the last loss."""
    comes_about(lambda: run.process.poll() is not None, WITHIN_S.get(run.fault, 240.0))
    rows = run.steps()
    last = [loss for _, step, loss in rows if step == STEPS]
    if run.process.poll() != 0 or not last:
        return Outcome(None, f"it left with {run.process.poll()} at step {run.furthest()}")
    return Outcome(last[-1])


def measure(system: str, fault: str) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="compare-") as place:
        run = Run(system, Path(place), fault).start()
        try:
            return (strike if fault in ("kill", "hang") else train)(run)
        finally:
            run.end()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--faults", default="kill,hang,nan,poison")
    parser.add_argument("--systems", default=",".join(NAMES))
    parser.add_argument("--write", type=Path)
    parser.add_argument("--record", type=Path, help="outcomes are appended here; the table has all of them")
    given = parser.parse_args()
    systems, faults = given.systems.split(","), given.faults.split(",")
    cells = {(system, fault): Cell(system, fault) for system in systems for fault in faults}
    for line in given.record.read_text().splitlines() if given.record is not None and given.record.exists() else ():
        row = json.loads(line)
        cell = cells.setdefault((row["system"], row["fault"]), Cell(row["system"], row["fault"]))
        cell.outcomes.append(Outcome(row["value"], row["why"]))
    unhurt = measure("cold", "none").value if given.repeats and {"nan", "poison"} & set(faults) else None
    for repeat in range(given.repeats):
        for fault, system in product(faults, systems):
            outcome = measure(system, fault)
            if fault in ("nan", "poison") and outcome.value is not None:
                outcome = Outcome(outcome.value - unhurt) if unhurt is not None else Outcome(None, "no unhurt run")
            cells[system, fault].outcomes.append(outcome)
            print(f"{fault} {repeat + 1} {system}: {outcome}  load {os.getloadavg()[0]:.1f}", flush=True)
            if given.record is not None:
                with given.record.open("a") as file:
                    file.write(json.dumps({"fault": fault, "system": system, "value": outcome.value, "why": outcome.why}) + "\n")
    if given.write is not None:
        given.write.write_text(page(list(cells.values())), encoding="utf-8")
    for cell in cells.values():
        known = [one.value for one in cell.outcomes if one.value is not None]
        words = f"median {statistics.median(known):.2f}" if known else "never"
        print(cell.fault, cell.system, words, len(known), "of", len(cell.outcomes))


if __name__ == "__main__":
    main()
