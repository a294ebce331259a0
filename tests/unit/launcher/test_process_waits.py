"""What a process waits for, asked of real ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sentinel.launcher.process_waits import read_starved_s

SHORT = "import time\nends = time.process_time() + 0.3\nwhile time.process_time() < ends: pass\nprint(flush=True)\ninput()\n"


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel does not count it")
def test_two_processes_on_one_processor_starve_for_as_long_as_the_other_computes() -> None:
    here = str(min(os.sched_getaffinity(0)))
    command = ["taskset", "-c", here, sys.executable, "-c", SHORT]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in both:
            assert process.stdout is not None
            process.stdout.readline()
        assert sum(read_starved_s(process.pid) for process in both) > 0.15
    finally:
        for process in both:
            process.communicate(b"\n")
    assert read_starved_s(both[0].pid) == 0.0, "it is gone"
