"""Which launchers must pass the suite. `RANKED` are the same worlds plus the real torchrun, for tests about its habits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.launcher_world import LocalWorld, World
from tests.conformance.sim_world import SimWorld

WORLDS: dict[str, Callable[[Path], World]] = {"local": LocalWorld, "sim": SimWorld}
RANKED: dict[str, Callable[[Path], World]] = {**WORLDS, "torchrun": lambda run_dir: LocalWorld(run_dir, real_torchrun=True)}


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = WORLDS[request.param](tmp_path)
    yield world
    world.close()


@pytest.fixture(params=sorted(RANKED))
def ranked_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = RANKED[request.param](tmp_path)
    yield world
    world.close()
