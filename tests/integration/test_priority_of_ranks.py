"""`sentinel run` stands back, and what it launches does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAINER = """
import os, sys
told = open("/proc/self/stat").read().rpartition(")")[2].split()
blocked = next(line for line in open("/proc/self/status") if line.startswith("SigBlk")).split()[1]
parent = os.getppid()
supervisors = []
for pid in filter(str.isdecimal, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")
    except OSError:
        continue
    if b"run" in words and sys.argv[2].encode() in words:
        nice = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[16]
        supervisors.append((nice, sorted(os.sched_getaffinity(int(pid)))))
open(sys.argv[1], "w").write(repr((told[16], sorted(os.sched_getaffinity(0)), int(blocked, 16), supervisors[:1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority belongs to the process")
def test_ranks_have_the_priority_and_the_processors_that_sentinel_was_started_with(tmp_path: Path) -> None:
    seen, script, run_dir = tmp_path / "seen", tmp_path / "train.py", tmp_path / "run"
    script.write_text(TRAINER)
    cpus = sorted(os.sched_getaffinity(0))
    argv = [sys.executable, "-m", "sentinel", "run", "--run-dir", str(run_dir), "--nice", "4", "--pin", str(cpus[0])]
    argv += ["--no-tensorboard", "--", sys.executable, str(script), str(seen), str(run_dir)]
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    assert seen.read_text() == repr((str(nice), cpus, 0, [(str(min(19, nice + 4)), cpus[:1])]))
