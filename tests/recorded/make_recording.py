"""How the recorded run was made: real processes, a person's commands, stopped before its end.

    python tests/recorded/make_recording.py PLACE       # an empty directory, with the commit of README.md on PYTHONPATH

It is kept to show what was done, not to be run again: a recording made with newer code would prove nothing (see README.md). Two
ranks train on the CPU, slowly on purpose, so that a person's commands come at known steps. PLACE gets `run` (the run directory),
`corpus` and `policy.yaml`; `shown.write_expected` was called beside them afterwards, with the same code.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEADLINE_S = 90.0
FAULTS = (
    "slow@step=1:rank=0,for=0.05:always",
    "slow@step=1:rank=1,for=0.05:always",
    "kill@step=110:rank=1",
    "bad_data@sample=1520-1600",
    "nan_state@step=330",
    "hang@step=470:rank=1",
)
SIZES = (
    "model.width=8", "model.layers=1", "schedule.steps=600", "data.path=corpus", "data.batch_size=8", "data.seq_len=32",
    "checkpoint.every=20", "parallel.threads=1", "evaluation.every=100", "evaluation.batches=2",
    "telemetry.layers=false",
)  # fmt: skip
COMMAND = [
    "python", "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2",
    "--max-restarts", "0", "-m", "trainer", "--preset", "micro", "--kernels", "torch", "--set", *SIZES,
    *(word for fault in FAULTS for word in ("--fault", fault)),
]  # fmt: skip


def wait_for(what: str, ready: Callable[[], Any]) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if ready():
            return
        time.sleep(0.05)
    raise SystemExit(f"no {what} within {DEADLINE_S:.0f} s")


def main(place: Path) -> None:
    run_dir = place / "run"
    shutil.copy(HERE / "policy.yaml", place)
    shutil.copytree(HERE / "corpus", place / "corpus")
    words = ["run", "--run-dir", "run", "--policy", "policy.yaml", "--listen", "off", "--no-tensorboard", "--", *COMMAND]
    supervisor = subprocess.Popen([sys.executable, "-m", "sentinel", *words], cwd=place, stdin=subprocess.DEVNULL)
    try:
        operate(run_dir)
    finally:
        if supervisor.poll() is None:
            supervisor.terminate()
    print("sentinel run ended with", supervisor.wait())
    make_small(run_dir)


def make_small(run_dir: Path) -> None:
    """Take away what nothing reads again: tensors in quarantine (their manifests stay), and what SQLite leaves beside a journal
    that was looked at while it was closed."""
    for tensors in (run_dir / "quarantine").rglob("*.distcp"):
        tensors.unlink()
    wal = run_dir / "sentinel.db-wal"
    assert not wal.exists() or not wal.stat().st_size, "every fact is in the file itself"
    for name in ("sentinel.db-wal", "sentinel.db-shm"):
        (run_dir / name).unlink(missing_ok=True)


def operate(run_dir: Path) -> None:
    """What a person does, and when."""

    def sentinel(*words: str, may_refuse: bool = False) -> None:
        print("$ sentinel", *words, "run", flush=True)
        subprocess.run([sys.executable, "-m", "sentinel", *words, str(run_dir)], check=not may_refuse)

    def status() -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "sentinel", "status", str(run_dir), "--json"], capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def step() -> int:
        """The newest step of the newest attempt."""
        newest = max((run_dir / "attempts").glob("*/metrics.jsonl"), default=None)
        lines = newest.read_text().splitlines() if newest is not None else []
        return max((json.loads(line).get("step", 0) for line in lines[-3:-1]), default=0)

    def incident(number: int, *states: str) -> bool:
        text = subprocess.run(
            [sys.executable, "-m", "sentinel", "incidents", str(run_dir), "--json"], capture_output=True, text=True, check=False
        ).stdout
        found = json.loads(text or "[]")
        return len(found) >= number and (not states or found[number - 1]["state"] in states)

    wait_for("step 15", lambda: step() >= 15)
    sentinel("set", "lr=0.9x", "until=30 steps")
    subprocess.run([sys.executable, "-m", "sentinel", "note", str(run_dir), "a lower rate for the first steps"], check=True)
    wait_for("the crash", lambda: incident(1))
    sentinel("ack", "1")
    wait_for("its repair", lambda: incident(1, "recovered"))
    wait_for("the spike", lambda: incident(2))
    wait_for("its repair", lambda: incident(2, "recovered"))
    sentinel("set", "clip_norm=0.7")
    sentinel("pause")
    sentinel("resume")
    wait_for("the broken weights", lambda: incident(3))
    wait_for("the question", lambda: status().get("pages"))
    sentinel("ack", "3")
    sentinel("approve", "3")
    wait_for("its repair", lambda: incident(3, "recovered"))
    wait_for("the hang", lambda: incident(4))
    wait_for("its repair", lambda: incident(4, "recovered"))
    sentinel("resolve", "4", may_refuse=True)  # it has recovered meanwhile: refused, and recorded
    sentinel("skip", "4640-4660")
    wait_for("step 525", lambda: step() >= 525)
    attempts = len(list((run_dir / "attempts").iterdir()))
    sentinel("rollback", "--to", "520", "--set", "weight_decay=0.05")
    wait_for("another attempt", lambda: len(list((run_dir / "attempts").glob("*/metrics.jsonl"))) > attempts)
    wait_for("step 540", lambda: 540 <= step() < 600)
    sentinel("stop")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
