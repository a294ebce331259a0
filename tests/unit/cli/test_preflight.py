"""`sentinel preflight` on this machine, and what a node prints for it."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.folder_trial import take_part
from sentinel.client.node_facts import main, read_facts
from sentinel.errors import UsageError
from sentinel.launcher.slurm.reach import SlurmReach
from sentinel.model.node_checks import NodeReply

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


class OtherNode:
    """`launcher.node_reach.NodeReach`: one other machine, which shares this folder, or does not."""

    shares = True

    def participants(self, exclude: object) -> tuple[str, ...]:
        return ("n2",)

    def run(self, nodes: object, command: list[str], timeout_s: float) -> dict[str, NodeReply]:
        if "--shared" not in command:
            return {"n2": NodeReply(0, json.dumps(read_facts(".", ())))}
        place = Path(command[command.index("--shared") + 1])
        facts = take_part(place if self.shares else place / "not", "n2", 0.3)
        facts["locks"] = {"held.flock": "held", "held.posix": "held"}  # one process keeps itself out of no POSIX lock
        return {"n2": NodeReply(0, json.dumps(read_facts(str(place), ()) | {"shared": facts, "took_s": 0.3}))}


def test_with_another_machine_the_folder_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.launcher.registry.open_reach", lambda *_: OtherNode())
    words = ["preflight", "--run-dir", str(tmp_path / "run"), "--checkpoint-bytes", "10"]
    found = RUN.invoke(app, words)
    assert (found.exit_code, found.stdout.splitlines()[-1].split()[:2]) == (0, ["good", "shared"]), found.stdout
    monkeypatch.setattr(OtherNode, "shares", False)
    found = RUN.invoke(app, words)
    assert (found.exit_code, "n2 does not see what" in found.stdout.splitlines()[-1]) == (1, True), found.stdout
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    found = RUN.invoke(app, words)
    assert (found.exit_code, "cannot write in /runs: Read-only file system" in found.stdout) == (1, True), found.stdout


def refuse(**_: object) -> str:
    raise OSError(30, "Read-only file system", "/runs")
