"""A real supervisor under a service manager's eyes: what it tells, and what ends what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for
from tests.integration.systemd_kit import Systemd
from tests.unit.supervisor.test_systemd import Systemd as Listener


def test_a_run_tells_when_it_is_ready_that_its_loop_turns_and_that_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Listener(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.address)
    # It goes on until it is stopped: on no machine is it over before it was looked at.
    run = Supervised(tmp_path / "run", double(1_000_000, 0.01)).start()
    said: list[str] = []

    def heard(word: str) -> bool:
        said.extend(systemd.heard())
        return any(word in one for one in said)

    wait_for("word of a turn in training", lambda: heard("STATUS=run: training, attempt 1, step"))
    pid = run.living()[0]
    assert b"NOTIFY_SOCKET" not in Path(f"/proc/{pid}/environ").read_bytes(), "what it starts must not speak for it"
    assert run_sentinel("stop", str(tmp_path / "run")).returncode == 0
    assert run.wait() == 130
    assert heard("STOPPING=1")
    assert (said[0], said[-1], said.count("READY=1")) == ("READY=1", "STOPPING=1", 1)
    assert all(one.startswith("WATCHDOG=1\nSTATUS=run: ") for one in said[1:-1])
    systemd.close()


@pytest.mark.slow
def test_under_a_real_systemd_only_a_stop_ends_the_training() -> None:
    systemd = Systemd(double(100_000, 0.02)).start()
    run = Supervised(systemd.folder / "big", [])
    try:
        systemd.do("start", "sentinel@big")
        assert systemd.told("ActiveState") == "active", "it has said that it is ready"
        wait_for("steps", lambda: run.last_step(1) >= 20)

        systemd.do("restart", "sentinel@big")
        assert systemd.told("ActiveState") == "active"
        before = run.last_step(1)
        wait_for("more steps of the same attempt", lambda: run.last_step(1) > before)

        systemd.do("kill", "--signal=STOP", "--kill-whom=main", "sentinel@big")
        wait_for("the watchdog", lambda: int(systemd.told("NRestarts")) >= 1)
        wait_for("the next supervisor's word", lambda: "big: training, attempt 1" in systemd.told("StatusText"))
        assert systemd.told("ActiveState") == "active"

        systemd.do("stop", "sentinel@big")
        assert (systemd.told("ActiveState"), systemd.told("Result")) == ("inactive", "success"), "130 is no failure"
        assert (run.attempts(), run.lines(1)[-1]["reason"]) == ([1], "stopped_on_request")
        assert (run.run_dir / f"checkpoints/step-{run.last_step(1):08d}/manifest.json").exists()
    finally:
        systemd.close()
