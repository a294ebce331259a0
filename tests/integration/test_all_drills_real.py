"""Every shipped drill done to the real trainer, two ranks on the CPU, one after another: `make drills-real`, also with WARM=1."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from sentinel.launcher.log_cap import CAP_BYTES, HEAD_BYTES, TAIL_BYTES
from sentinel.sim.drill import shipped_drills
from tests import warm

PEAK_BYTES_MAX = 100 << 20  # half of it is usual, and the flood is of 300 MB


@pytest.mark.slow
@pytest.mark.drill
@pytest.mark.timeout(700)
@pytest.mark.parametrize("name", shipped_drills())
def test_it_ends_as_its_file_says(name: str) -> None:
    words = ["drill", name, "--real", "--json", *warm.run_options()]
    done = subprocess.run([sys.executable, "-m", "sentinel", *words], capture_output=True, text=True)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    if "not_shown" in document:
        print(f"{name}: {document['not_shown']}")
        return
    incidents = "; ".join(f"{one['kind']} {one['state']}" for one in document["incidents"]) or "no incident"
    reserve = f"; {document['warm']}" if document["warm"] else ""
    went = f"{document['outcome']} after {document['seconds']:.0f} s"
    print(f"{name}: {went}; {incidents}; {document['not_as_expected'] or 'passed'}{reserve}")
    assert document["ok"], done.stdout
    if name == "log-flood":
        assert document["supervisor_peak_bytes"] < PEAK_BYTES_MAX
        flooded = document["log_bytes"]["attempts/0001/logs/rank-00001.err"]
        kept = sum(document["log_bytes"].values())
        assert flooded < CAP_BYTES, "300 MB were written"
        assert kept < CAP_BYTES + HEAD_BYTES + TAIL_BYTES
