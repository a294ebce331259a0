"""One cluster for all tests of this room; without Slurm, or without root, they are skipped with the reason."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_kit import Cluster, wait_for

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "scontrol", "unshare", "nsenter")
SBIN = "/usr/sbin:/sbin"
AS_BUILT = {"SlurmdTimeout": 10, "MessageTimeout": 10}  # as nodes_up.sh has it


def why_not() -> str:
    """Why there can be no such cluster here; empty where there can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}") is None]
    if missing:
        return f"no {', '.join(missing)} here: apt-get install --no-install-recommends slurm-wlm munge (make cluster-test does)"
    return "" if os.geteuid() == 0 else "isolated nodes need root (unshare)"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(reason)
    scratch: Path = tmp_path_factory.mktemp("slurm")
    cluster = Cluster(scratch)
    yield cluster
    cluster.down()


@pytest.fixture
def runs(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """Where a test's run lies; its job is ended with it, and its nodes are brought back."""
    yield tmp_path
    cluster.controller(signal.SIGCONT)
    cluster.ask("scancel", "--user", "root")
    cluster.configure(**AS_BUILT)
    for node in ("n1", "n2", "n3"):
        if not cluster.is_on(node):
            cluster.on(node)
    wait_for(
        "three idle nodes", lambda: len(cluster.ask("sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N").split()) == 3, 60
    )
