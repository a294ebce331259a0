"""`sentinel agent` and the supervisor: two nodes are two agents on this machine, each with ranks of its own name."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from sentinel.client.run_layout import agent_path
from sentinel.run_files.agent_files import find_report
from tests.conformance.launcher_world import wait_for


def test_the_verb_writes_until_it_is_stopped_and_no_other_writes_beside_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sentinel", "agent", str(tmp_path), "--node", "n2", "--no-nvml", "--kernel-log", "off"]
    with subprocess.Popen(words) as agent:
        wait_for(lambda: find_report(tmp_path, "n2") is not None, "the agent writes")
        second = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert "another agent writes for the node n2" in second.stderr
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0
    assert json.loads(agent_path(tmp_path, "n2").read_bytes())["has_left"] is True
