"""One supervisor over 2,048 nodes with 16,384 ranks, through the agents' files at one a second: its cost, and when it decides.

    make bench-agents               (NODES=2048 RANKS=8 SECONDS=60 for others)

A process of its own writes every agent's file once a second, spread over the second as 2,048 machines would, each rank a step
further. Two seconds before the end rank 0 writes a NaN. Measured are the supervisor's loop, engine, journal and telemetry as in
`test_supervisor`: its share of a core by its own processor time, its peak of memory, the time of each turn, and the time from the
NaN's write to the plan on disk. Prints; asserts that all ranks were heard and the NaN was decided about, and nothing of time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.agents_world import NODES, RANKS, SECONDS

pytestmark = pytest.mark.bench


@pytest.mark.timeout(600)
def test_one_supervisor_over_all_nodes(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    code = "import sys; sys.path.insert(0, '.'); from pathlib import Path; from tests.bench import agents_world\n"
    code += f"agents_world.{{}}(Path({str(run_dir)!r}))"
    with subprocess.Popen([sys.executable, "-c", code.format("write_nodes")]) as nodes:
        try:
            words = [sys.executable, "-c", code.format("measure")]
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS + 120)
        finally:
            nodes.kill()
    assert done.returncode == 0, done.stderr
    print(f"agents    {NODES} nodes, {NODES * RANKS} ranks: {done.stdout.strip()}")
    assert f"{NODES * RANKS} ranks heard" in done.stdout
    assert "nan s" not in done.stdout, "the NaN was not decided about"
