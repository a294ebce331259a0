"""A run that its scheduler has moved to this machine: the lease of the machine that died runs out, and the run goes on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from sentinel.client.run_layout import LEASE_NAME
from sentinel.journal.lease import STALE_AFTER_S
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for


def lose_its_machine(run: Supervised) -> None:
    """The supervisor and all that it started are gone with their node, which renewed its lease just now."""
    run.kill()
    assert run_sentinel("stop", str(run.run_dir), deadline_s=90).returncode == 0
    lease = run.run_dir / LEASE_NAME
    plain = json.loads(lease.read_text()) | {"host": "n1", "boot_id": "of-another-machine", "released": False}
    lease.write_text(json.dumps(plain))


def age_lease(run: Supervised, age_s: float) -> None:
    """It was renewed `age_s` ago."""
    then_s = time.time() - age_s
    os.utime(run.run_dir / LEASE_NAME, (then_s, then_s))


def test_a_lease_of_another_machine_is_waited_out_where_that_is_asked_for(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(200, 0.01)).start()
    wait_for("step 40", lambda: run.last_step(1) >= 40)
    lose_its_machine(run)
    assert run.start().wait() == 2
    assert "already supervised by pid" in run.log
    assert "or wait for its lease with --takeover-wait 90s" in run.log
    run.options += ["--takeover-wait", "30s"]
    age_lease(run, STALE_AFTER_S - 6.0)  # a start takes up to three seconds on a busy machine
    assert run.start().wait() == 0, run.log
    assert "waiting up to 30s for that lease" in run.log
    assert sorted(run.surviving()) == list(range(1, 201))
