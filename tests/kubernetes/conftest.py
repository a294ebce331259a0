"""One API server for all tests of this room; where there is none, they are skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.api_server import ApiServer, why_not
from tests.kubernetes.controllers import Controllers


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    if reason := why_not():
        pytest.skip(reason)
    scratch: Path = tmp_path_factory.mktemp("kubernetes")
    server = ApiServer(scratch)
    yield server
    server.down()


@pytest.fixture(scope="session")
def controllers(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    controllers = Controllers(server, tmp_path_factory.mktemp("logs"))
    yield controllers
    controllers.close()
