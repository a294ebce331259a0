"""`sentinel agent` on every node of a real Slurm job, started as deploy/slurm/agents.sh does it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sentinel.client.run_layout import incident_folder
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.run_files.agent_files import find_report
from tests.cluster.cluster_kit import LOOP, ROOT, Cluster, Run, kill_in_node, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
XID = "[77.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python\n"


def with_agents(run: Run, runs: Path) -> None:
    """Each agent reads a kernel log of its node's name; the second rank of the first attempt stands still."""
    program = runs / "bin" / "sentinel"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sentinel "$@" --no-nvml --kernel-log "{runs}/kern.$(hostname)"\n')
    program.chmod(0o755)
    for node in ("n1", "n2", "n3"):
        (runs / f"kern.{node}").touch()
    command = run.command.replace(LOOP[1], str(ROOT / "tests" / "integration" / "ranks_of_nodes.py"))
    script = ROOT / "deploy" / "slurm" / "agents.sh"
    run.script = f"cd {runs}; PATH={program.parent}:$PATH AGENTS_EVERY=2 bash {script} {run.run_dir} {command}"


def test_a_remote_rank_is_stacked_a_fault_blames_its_node_and_an_agent_that_is_killed_is_blindness(
    cluster: Cluster, runs: Path
) -> None:
    run = Run(runs / "run", 4000, 0.05, "--launcher-option", "least=2")
    with_agents(run, runs)
    cluster.submit(run)
    run.until_step(2, 30)
    evidence = incident_folder(run.run_dir, 1) / "attempt-0001"
    assert "stands_in_its_loader" in (evidence / "stacks" / "rank-00001.txt").read_text()
    assert json.loads((evidence / "agents" / "node-n2.json").read_bytes())["ranks"][0][3] == "works"
    with (runs / "kern.n2").open("a") as log:
        log.write(XID)
    run.until_step(3, 30)
    incidents = [fact.incident for fact in run.of(f.IncidentOpened)]
    assert [incident.kind for incident in incidents] == [Kind.HANG, Kind.GPU_FAULT], run.tail()
    assert incidents[1].blamed_node == "n2"
    assert [fact.node for fact in run.of(f.NodeExcluded)] == ["n2"]
    kill_in_node(cluster, "n3", "sentinel agent")
    blind = wait_for("blindness", lambda: [one for one in run.of(f.SourceChanged) if one.source == "agents" and not one.ok])
    assert "the agent of n3" in blind[-1].reason
    before = run.newest_step(3)
    run.until_step(3, before + 20)
    assert len(run.of(f.AttemptLaunched)) == 3, "a rank whose agent is gone is not dead"
    assert len(run.of(f.IncidentOpened)) == 2
    report = find_report(run.run_dir, "n1")
    assert report is not None
    cluster.ask("scancel", run.job)
