"""A real supervisor over a real trainer and a kernel log that reports a sick GPU while it trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.supervised import Supervised, double, wait_for

XID = "[77.5] NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=python\n"
RECOVERY = "[77.5] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n"


@pytest.fixture
def run(tmp_path: Path) -> Supervised:
    log = tmp_path / "kern.log"
    log.write_text(XID.format(79))  # of another time
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\nextends: demo\n"
        f"spec: {{detectors: {{gpu_fault: {{kernel_log: {log}}}}}}}\n"
    )
    return Supervised(tmp_path / "run", double(600, 0.02), policy=str(policy)).start()


def report(run: Supervised, *lines: str) -> None:
    wait_for("sixty steps", lambda: run.last_step(1) >= 60)
    with (run.run_dir.parent / "kern.log").open("a") as log:
        log.write("".join(lines))


@pytest.mark.slow
def test_a_contained_memory_error_costs_one_restart(run: Supervised) -> None:
    report(run, XID.format(94), XID.format(31))
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("gpu_fault", "recovered")
    assert "a restart of the application is enough" in incident["reason"]
    assert run.attempts() == [1, 2]
    assert "finding gpu_fault (info): GPU 0000:3b:00" in run.log  # the 31 is recorded


def test_a_node_that_must_be_rebooted_stops_the_run_and_calls_a_person(run: Supervised) -> None:
    report(run, XID.format(119), RECOVERY)
    assert run.wait() == 1, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("gpu_fault", "exhausted")
    assert "Node Reboot Required" in incident["reason"]
    assert "reboot the node" in incident["reason"]
    assert len(incident["pages"]) == 1
    assert not run.living()
