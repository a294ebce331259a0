"""What tests of `attach` share."""

import signal
import sys

import pytest


@pytest.fixture
def alone(monkeypatch):
    """No supervisor and no other rank around; SIGTERM and the hook for uncaught errors are as before, afterwards."""
    for name in ("SENTINEL_RUN_DIR", "SENTINEL_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    handler, hook = signal.getsignal(signal.SIGTERM), sys.excepthook
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, handler)
    sys.excepthook = hook
