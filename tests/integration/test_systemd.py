"""A real supervisor under a service manager's eyes: what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.supervised import Supervised, double, wait_for
from tests.unit.test_notify import Systemd


def test_a_run_tells_when_it_is_ready_that_its_loop_turns_and_that_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Systemd(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.address)
    run = Supervised(tmp_path / "run", double(250, 0.01)).start()
    said: list[str] = []

    def heard(word: str) -> bool:
        said.extend(systemd.heard())
        return any(word in one for one in said)

    wait_for("word of a turn in training", lambda: heard("STATUS=run: training, attempt 1, step"))
    pid = run.living()[0]
    assert b"NOTIFY_SOCKET" not in Path(f"/proc/{pid}/environ").read_bytes(), "what it starts must not speak for it"
    assert run.wait() == 0
    assert heard("STOPPING=1")
    assert (said[0], said[-1], said.count("READY=1")) == ("READY=1", "STOPPING=1", 1)
    assert all(one.startswith("WATCHDOG=1\nSTATUS=run: ") for one in said[1:-1])
    systemd.close()
