"""A rung that changes one setting of the living attempt, from the policy's file to the trainer's receipts and back again."""

from __future__ import annotations

from pathlib import Path

from sentinel.model import facts as f
from sentinel.policy_files.check import check_files
from sentinel.policy_files.loading import load_policy
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import run_scenario
from sentinel.sim.scenarios import Scenario
from tests.sim.kit import SHORT

POLICY = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: shrink}
extends: demo
spec:
  playbooks:
    numeric:
    - embed_grad_scale: 0.1
      until: 70 steps
    - page: {severity: critical}
      then: stop_now
"""


def test_a_rung_shrinks_the_embeddings_gradient_without_a_relaunch_and_gives_it_back(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    assert check_files([str(path)], capabilities="skip,live_overrides").ok
    faults = (parse_fault("bad_data@sample=1600-1620"),)
    result = run_scenario(Scenario(seed=1, shape=SHORT, faults=faults), load_policy(path), 4 * 3600.0)
    (incident,) = result.state.incidents
    (remedy,) = [found.remedy for found in incident.tries]
    assert (incident.state, remedy.embed_grad_scale) == ("recovered", 0.1)
    assert "embedding gradient scale 0.1" in remedy.reason
    facts = [entry.fact for entry in result.entries]
    assert [fact.keys for fact in facts if isinstance(fact, f.SettingLapsed)] == [("embed_grad_scale",)]
