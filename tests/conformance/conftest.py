"""Which launchers must pass the suite. `RANKED` are the same worlds plus the real torchrun, for tests about its habits.

A test marked `kept` is about processes that a keeper owns: the worlds of launchers without one (`UNKEPT`) are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sentinel.launcher import command
from tests.conformance.command_world import CommandWorld
from tests.conformance.kubernetes_world import KubernetesWorld
from tests.conformance.launcher_world import LocalWorld, World
from tests.conformance.sim_world import SimWorld
from tests.conformance.slurm_world import SlurmWorld

WORLDS: dict[str, Callable[[Path], World]] = {
    "local": LocalWorld, "command": CommandWorld, "slurm": SlurmWorld, "kubernetes": KubernetesWorld,
    "sim": SimWorld,
}  # fmt: skip
WAITS = {"APART_S", "LOSS_GRACE_S"}  # of every launcher: between two looks that must agree, and for records after a lost rank
UNKEPT = ("command", "slurm", "kubernetes")
RANKED: dict[str, Callable[[Path], World]] = {**WORLDS, "torchrun": lambda run_dir: LocalWorld(run_dir, real_torchrun=True)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_kept = metafunc.definition.get_closest_marker("kept") is not None
    for fixture, worlds in (("world", WORLDS), ("ranked_world", RANKED)):
        if fixture in metafunc.fixturenames:
            names = [name for name in sorted(worlds) if not (is_kept and name in UNKEPT)]
            metafunc.parametrize(fixture, names, indirect=True)


@pytest.fixture(autouse=True)
def _exits_are_believed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler of these tests is right when it says that a job has ended: nobody waits for heartbeats to prove it."""
    monkeypatch.setitem(command.QUIET_S, "exited", 1.0)
    for name, module in tuple(sys.modules.items()):
        if name.startswith("sentinel.launcher."):
            for wait in WAITS & vars(module).keys():
                monkeypatch.setattr(module, wait, 0.05)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = WORLDS[request.param](tmp_path)
    yield world
    world.close()


@pytest.fixture
def ranked_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = RANKED[request.param](tmp_path)
    yield world
    world.close()
