"""One browser and one server for all tests of the page in a process; each test begins with a fresh run and a fresh page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.web_page import browser
from tests.unit.web_page.browser import Page
from tests.unit.web_page.page_server import PageServer
from tests.unit.web_page.simulated_run import SimulatedRun


@pytest.fixture(scope="session")
def shared_page() -> Iterator[Page]:
    if browser.MISSING:
        pytest.skip(browser.MISSING)
    chrome = browser.start()
    yield Page(chrome)
    chrome.quit()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.close()


@pytest.fixture
def run(shared_server: PageServer) -> SimulatedRun:
    return shared_server.reset()


@pytest.fixture
def server(shared_server: PageServer, run: SimulatedRun) -> Iterator[PageServer]:
    yield shared_server
    shared_server.gate.set()


@pytest.fixture
def page(shared_page: Page, server: PageServer) -> Iterator[Page]:
    """Not opened yet."""
    yield shared_page
    shared_page.chrome.get("about:blank")  # nobody asks any more
