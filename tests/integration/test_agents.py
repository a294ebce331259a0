"""`sentinel agent` and the supervisor: two nodes are two agents on this machine, each with the rank that calls its node so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sentinel.client.run_layout import agent_path, incident_folder
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.run_files.agent_files import find_report
from tests.integration.supervised import Supervised, wait_for

XID = "[77.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python\n"
RANKS = """
second=n2
if [ "$SENTINEL_EXCLUDE_NODES" = n2 ]; then second=n3; fi
RANK=0 WORLD_SIZE=2 SENTINEL_NODE=n1 "$@" &
RANK=1 WORLD_SIZE=2 SENTINEL_NODE=$second "$@" &
wait
"""


@contextmanager
def agent_of(run_dir: Path, node: str, kernel_log: str = "off") -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "sentinel", "agent", str(run_dir), "--node", node, "--no-nvml", "--kernel-log", kernel_log]
    with subprocess.Popen(words) as agent:
        try:
            yield agent
        finally:
            agent.terminate()


def test_a_remote_rank_is_seen_and_stacked_a_fault_blames_its_node_an_agent_that_is_gone_nobody(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "kern.log"
    log.touch()
    ranks = [sys.executable, "-m", "tests.integration.ranks_of_nodes", "4000", "0.05"]
    run = Supervised(run_dir, ["sh", "-c", RANKS, "sh", *ranks], options=["--with", "exclude"])
    with ExitStack() as stack:
        first, second = stack.enter_context(agent_of(run_dir, "n1")), stack.enter_context(agent_of(run_dir, "n2", str(log)))
        run.start()

        def seen() -> bool:
            reports = (find_report(run_dir, "n1"), find_report(run_dir, "n2"))
            return [[one.rank for one in report.ranks] for report in reports if report is not None] == [[0], [1]]

        wait_for("each agent sees the rank of its node", seen)
        first.kill()
        wait_for("another attempt", lambda: run.last_step(2) > 0)
        evidence = incident_folder(run_dir, 1) / "attempt-0001"
        assert "stands_in_its_loader" in (evidence / "stacks" / "rank-00001.txt").read_text()
        assert json.loads((evidence / "agents" / "node-n2.json").read_bytes())["ranks"][0][3] == "works"
        wait_for("that the agent is gone is told", lambda: blindness(run))
        with log.open("a") as kernel:
            kernel.write(XID)
        wait_for("an attempt without that node", lambda: run.last_step(3) > 0)
        assert run.child is not None
        run.child.terminate()
        assert run.wait() == 130, run.log
        assert second.poll() is None
    facts = [entry.fact for entry in run.facts()]
    opened = [fact.incident for fact in facts if isinstance(fact, f.IncidentOpened)]
    assert [incident.kind for incident in opened] == [Kind.HANG, Kind.GPU_FAULT], run.log
    assert (opened[1].blamed_node, opened[1].blamed_rank) == ("n2", None)
    assert "GPU 0000:3b:00 on n2: Xid 79" in opened[1].reason
    assert [fact.node for fact in facts if isinstance(fact, f.NodeExcluded)] == ["n2"]
    blind = blindness(run)
    assert not blind[0].ok
    assert blind[0].reason.startswith("no word from the agent of n1 (silent for ")
    assert not run.living()


def blindness(run: Supervised) -> list[f.SourceChanged]:
    return [entry.fact for entry in run.facts() if isinstance(entry.fact, f.SourceChanged) and entry.fact.source == "agents"]


def test_the_verb_writes_until_it_is_stopped_and_no_other_writes_beside_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sentinel", "agent", str(tmp_path), "--node", "n2", "--no-nvml", "--kernel-log", "off"]
    with subprocess.Popen(words) as agent:
        wait_for("a report", lambda: find_report(tmp_path, "n2"))
        second = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert "another agent writes for the node n2" in second.stderr
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0
    assert json.loads(agent_path(tmp_path, "n2").read_bytes())["has_left"] is True
