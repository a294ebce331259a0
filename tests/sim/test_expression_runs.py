"""A rule on an expression in simulated runs: the repair is carried out and proven, invariants hold, supervisors may die."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.policy_files.loading import load_policy
from sentinel.sim.drill_file import read_drill
from sentinel.sim.run import run_scenario

# The demonstration's policy with its spike detector replaced by a condition of one's own.
POLICY = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: mine}
extends: demo
spec:
  detectors:
    spike: off
  rules:
    - alert: Spike
      expr: loss > 1.25 * median(loss, 50 steps) && step > 30
      on_nonfinite: fire
      for: 2 steps
      keep_firing_for: 10 steps
"""
DRILL = """\
run: {steps: 300, ranks: 2, step: 0.5s, checkpoint_every: 25 steps}
faults:
  - bad_data@sample=1600-2000:heals=slow
"""


@pytest.fixture
def policy(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return load_policy(path)


@pytest.mark.parametrize("more", ["", "  - kill@step=130:attempt=2\n", "  - supervisor_kill@effect=3:side=after,for=10\n"])
def test_what_an_expression_finds_is_repaired_and_proven(tmp_path: Path, policy, more: str) -> None:
    path = tmp_path / "drill.yaml"
    path.write_text(DRILL + more, encoding="utf-8")
    drill = read_drill(path)
    result = run_scenario(drill.scenario, policy, drill.until_s)
    assert result.ok, result.broken
    assert result.outcome == "finished"
    found = [incident for incident in result.state.incidents if incident.kind == "expression"]
    assert [(incident.alert, incident.state) for incident in found] == [("Spike", "recovered")]
    assert found[0].onset_step in range(100, 104)  # sample 1600 of 16 a step
    assert found[0].tries[-1].remedy.skip
