"""One supervisor over 2,048 nodes with 16,384 ranks, through the agents' files at one a second: its cost, and when it decides.

    make bench-agents               (NODES=2048 RANKS=8 SECONDS=60 for others)

A process of its own writes every agent's file once a second, spread over the second as 2,048 machines would, each rank a step
further. Five seconds before the end rank 0 writes a NaN. Measured are the supervisor's loop, engine, journal and telemetry as in
`test_supervisor`: its share of a core by its own processor time, its peak of memory, the time of each turn, and the time from the
NaN's write to the plan on disk. Before it, in the same run, the same ranks without agents: 16,384 heartbeat files. Prints;
asserts that all ranks were heard and the NaN was decided about, and nothing of time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.agents_world import NODES, RANKS, SECONDS

pytestmark = pytest.mark.bench


@pytest.mark.timeout(900)
def test_one_supervisor_over_all_nodes(tmp_path: Path) -> None:
    print()
    by_files = measured(tmp_path / "files", "write_heartbeats", with_agents=False)
    print(f"files     {NODES * RANKS} heartbeat files: {words_of(by_files)}")
    by_agents = measured(tmp_path / "agents", "write_agents", with_agents=True)
    print(f"agents    {NODES} nodes, {NODES * RANKS} ranks: {words_of(by_agents)}")
    print(f"agents' share of a core is {by_agents['share'] / by_files['share']:.2f} of the files'")
    assert by_agents["heard"] == NODES * RANKS
    assert by_agents["plan_s"] is not None, "the NaN was not decided about"


def measured(run_dir: Path, writer: str, *, with_agents: bool) -> dict[str, Any]:
    run_dir.mkdir()
    code = "import sys; sys.path.insert(0, '.'); from pathlib import Path; from tests.bench import agents_world\n"
    code += f"agents_world.{{}}(Path({str(run_dir)!r}){{}})"
    with subprocess.Popen([sys.executable, "-c", code.format(writer, "")]) as nodes:
        try:
            words = [sys.executable, "-c", code.format("measure", f", {with_agents}")]
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS + 120)
        finally:
            nodes.kill()
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def words_of(found: dict[str, Any]) -> str:
    plan = "never" if found["plan_s"] is None else f"{found['plan_s']:.2f} s"
    return (
        f"{found['share']:.1%} of a core (bar 25 %), {found['peak_mb']:.0f} MB (bar 100), "
        f"loop p99 {1000 * found['p99_s']:.0f} ms of {found['turns']} turns (bar 100), "
        f"a NaN to its plan on disk {plan} (bar 1); {found['heard']} ranks heard"
    )
