"""Routes of a real run: asked for on the command line and remembered; a dead man's address, called while the loop turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel.policy_files.loading import shipped_policy_path
from tests.integration.supervised import Supervised, double, wait_for
from tests.loopback import HttpServer


def test_routes_of_the_command_line_stand_in_the_runs_file_and_the_dead_mans_address_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpServer() as server:
        monkeypatch.setenv("DEAD_MAN", f"{server.url}/ping/hidden-hidden")
        policy = tmp_path / "policy.yaml"
        text = shipped_policy_path("demo").read_text()
        policy.write_text(text.replace("  paging:\n", "  paging:\n    dead_man: {url: {env: DEAD_MAN}, every: 2s}\n"))
        asked = [f"webhook={server.url}/page", "alertmanager=http://127.0.0.1:9"]
        options = [word for route in asked for word in ("--page", route)]
        run = Supervised(tmp_path / "run", double(5000, 0.01), str(policy), options).start()
        wait_for("call", lambda: not server.received.empty())
        assert run.child is not None
        run.child.terminate()
        assert run.wait() == 130, run.log
        assert {got.path for got in server.all()} == {"/ping/hidden-hidden"}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["pages"] == asked
    again = Supervised(tmp_path / "run", [], str(policy), []).start()
    wait_for("second attempt", lambda: again.last_step(2) > 0)
    assert again.child is not None
    again.child.terminate()
    assert again.wait() == 130, again.log
    assert json.loads((tmp_path / "run" / "run.json").read_text())["pages"] == asked, "the run's until others are asked for"
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or b"hidden-hidden" not in path.read_bytes(), path
    assert "hidden-hidden" not in run.log + again.log
