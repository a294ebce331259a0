"""`sentinel preflight` on this machine, and what a node prints for it."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.node_facts import main
from sentinel.errors import UsageError
from sentinel.launcher.slurm.reach import SlurmReach

RUN = CliRunner()


@pytest.fixture
def taken() -> Any:
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_a_node_prints_one_line_that_a_step_hands_on_whole(
    taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--path", str(tmp_path / "not" / "there"), "--port", str(taken)]) == 0
    out = capsys.readouterr().out
    found = json.loads(out)
    assert (out.count("\n"), len(out) < 600, "|" in out) == (1, True, False)
    assert (found["taken"], found["free_bytes"] > 0, "python" in found["versions"]) == ([taken], True, True)


def test_each_check_has_its_line_and_the_worst_decides(taken: int, tmp_path: Path) -> None:
    words = ["preflight", "--run-dir", str(tmp_path), "--checkpoint-bytes", "10"]
    good = RUN.invoke(app, words)
    assert good.exit_code == 0, good.stdout
    assert [line.split()[:2] for line in good.stdout.splitlines()] == [
        ["good", name] for name in ("answers", "versions", "clocks", "disk", "ports")
    ]
    bad = RUN.invoke(app, [*words, "--port", str(taken)])
    assert (bad.exit_code, f"bad      ports     taken on {socket.gethostname()}: {taken}" in bad.stdout) == (1, True)
    document = json.loads(RUN.invoke(app, [*words, "--json"]).stdout)
    assert [(check["name"], check["verdict"]) for check in document["checks"]][-1] == ("ports", "good")
    unknown = RUN.invoke(app, words[:3])
    assert (unknown.exit_code, "unknown  disk" in unknown.stdout) == (3, True)


def test_a_python_that_is_not_there_is_unknown_and_says_so(tmp_path: Path) -> None:
    found = RUN.invoke(app, ["preflight", "--run-dir", str(tmp_path), "--python", "no-such-python"])
    assert found.exit_code == 3
    assert "no-such-python cannot be run" in found.stdout


def test_a_launcher_without_a_way_to_nodes_is_refused(tmp_path: Path) -> None:
    found = RUN.invoke(app, ["preflight", "--launcher", "kubernetes", "--launcher-option", "template=x"])
    assert isinstance(found.exception, UsageError)
    assert "runs no command on a node" in str(found.exception)


def test_nodes_that_nobody_names_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlurmReach, "participants", lambda *_: "squeue: it ended with 1: away")
    found = RUN.invoke(app, ["preflight", "--launcher", "slurm", "--run-dir", str(tmp_path)])
    assert (found.exit_code, "squeue: it ended with 1: away" in found.stdout) == (3, True)
