"""A sick node on a real Slurm: blamed twice, checked by a step on it, left out with a page, and back after a healthy check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.model import facts as f
from sentinel.model.findings import Kind
from tests.cluster.cluster_kit import ROOT, Cluster, Run, attempts_overlap, kill_in_node, wait_for
from tests.cluster.test_slurm_steps import RANK

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
POLICY = """
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {{name: checked, description: a node is checked when it was blamed twice}}
extends: demo
spec:
  node_check: {{command: [sh, {check}], timeout: 30s, when: [suspicion, readmit]}}
  rules:
    - {{alert: Crash, on: crash, labels: {{severity: critical}}, playbook: again}}
  playbooks:
    again:
      - resume: {{from: newest}}
      - resume: {{from: newest}}
      - page: {{severity: critical}}
        then: stop_now
"""


def uncordon(run: Run, node: str, *more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "sentinel", "uncordon", node, *more, str(run.run_dir)]
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


def test_a_node_that_is_blamed_twice_is_checked_left_out_and_comes_back_healthy(cluster: Cluster, runs: Path) -> None:
    check, policy, trouble = runs / "check.sh", runs / "checked.yaml", runs / "trouble-n2"
    check.write_text(f'echo "$SENTINEL_NODE" >>{runs}/asked; cat {runs}/trouble-"$SENTINEL_NODE" && exit 1; exit 0\n')
    trouble.write_text("ECC errors on GPU 3\n")
    policy.write_text(POLICY.format(check=check))
    options = ("--launcher-option", "spares=1", "--launcher-option", "nodes=2")
    run = Run(runs / "run", 100_000, 0.05, *options, policy=str(policy))
    cluster.submit(run)
    for attempt in (1, 2):
        run.until_step(attempt, 30 * attempt, 120)
        kill_in_node(cluster, "n2", RANK)
    run.until_step(3, 60, 120)
    assert [(fact.node, fact.times) for fact in run.of(f.NodeBlamed)] == [("n2", 1), ("n2", 2)]
    (found,) = run.of(f.NodesChecked)
    assert (found.purpose, found.healthy, found.unknown) == ("suspicion", (), ())
    assert [(word.node, word.reason) for word in found.sick] == [("n2", "ECC errors on GPU 3")]
    assert [fact.node for fact in run.of(f.NodeExcluded)] == ["n2"]
    told = [fact.incident for fact in run.of(f.IncidentOpened) if fact.incident.kind is Kind.NODE_SICK]
    assert [fact.incident for fact in run.of(f.PageRaised)] == [told[0].id]
    assert {name.split("-")[1] for name in run.processes(3)} == {"n1", "n3"}
    assert (runs / "asked").read_text().split() == ["n2"], "one step, on that node alone"

    refused = uncordon(run, "n2")
    assert (refused.returncode, "is sick: ECC errors on GPU 3; it stays out" in refused.stderr) == (1, True), refused
    trouble.unlink()
    granted = uncordon(run, "n2")
    assert (granted.returncode, "was checked and is healthy" in granted.stdout) == (0, True), granted
    assert wait_for("the page to be resolved", lambda: run.of(f.PageResolved))
    assert len(run.of(f.AttemptLaunched)) == 3, "checks beside the training do not disturb it"
    cluster.ask("scancel", run.job)
    assert not attempts_overlap(run)
