"""Two small drills done to real processes (see forked_trainers), and those that are shipped, as they are typed: make drills-real.

Every day the demonstration does the same to the same trainer (test_demo)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.drill]
ROOT = Path(__file__).resolve().parents[2]
PROBATION = """
policy: demo
run: {steps: 140, ranks: 2, checkpoint_every: 10 steps}
faults:
  - bad_data@sample=1040-1440:heals=slow
  - kill@step=84:attempt=2
expect:
  outcome: finished
  pages: 0
  attempts: 3
  incidents:
    - {kind: spike, state: recovered, remedies: [wait, rollback + skip], onset: 66..67, resumed_from: 40}
    - {kind: crash, state: recovered, remedies: [resume], resumed_from: 60}
"""
ROTTEN = """
run: {steps: 40, ranks: 2, checkpoint_every: 10 steps}
faults: ['bit_rot@step=20', 'kill@step=25:rank=1']
expect:
  outcome: finished
  pages: 1
  attempts: 2
  incidents: [{kind: crash, state: recovered, remedies: [resume], resumed_from: 10, steps_lost_max: 20 steps}]
"""


def drill(path: Path, text: str) -> tuple[int, dict[str, object]]:
    path.write_text(text)
    words = [sys.executable, "-m", "tests.integration.forked_trainers", "drill", str(path), "--real", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.timeout(240)
def test_killed_in_probation_it_resumes_before_the_onset_and_leaves_nothing_behind(tmp_path: Path) -> None:
    code, document = drill(tmp_path / "probation.yaml", PROBATION)
    assert (code, document["not_as_expected"]) == (0, [])
    assert document["run_dir"] is None


@pytest.mark.timeout(240)
def test_a_drill_that_ends_otherwise_says_how_and_keeps_the_run(tmp_path: Path) -> None:
    """One thing is expected wrongly, and everything else of the damaged checkpoint is right."""
    code, document = drill(tmp_path / "rotten.yaml", ROTTEN)
    assert (code, document["not_as_expected"]) == (1, ["0 pages, expected 1"])
    kept = Path(str(document["run_dir"]))
    assert (kept / "sentinel.db").is_file()
    assert kept.parent.name.startswith("sentinel-drill-rotten-")
    shutil.rmtree(kept.parent)
