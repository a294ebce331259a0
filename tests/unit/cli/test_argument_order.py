"""RUN_DIR comes last in the documents; the other order is accepted, too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sentinel.cli import operator
from sentinel.cli.options import RunDirAnywhere
from sentinel.cli.root import app
from sentinel.model import operator_requests as w
from sentinel.model.attempts import SampleRange
from sentinel.operator import requests
from sentinel.operator.answers import Answered
from tests.unit.told_run import write_run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, w.OperatorRequest]]:
    found: list[tuple[Path, w.OperatorRequest]] = []

    def ask(run_dir: Path, request: w.OperatorRequest, timeout: float) -> Answered:
        found.append((run_dir, request))
        return Answered(True, "yes")

    monkeypatch.setattr(requests, "ask", ask)
    return found


@pytest.mark.parametrize(
    ("command", "word", "request_"),
    [
        ("ack", "2", w.Acknowledge(2)),
        ("resolve", "2", w.Resolve(2)),
        ("approve", "2", w.Approve(2)),
        ("deny", "2", w.Deny(2)),
        ("skip", "3-4", w.LeaveOut(SampleRange(3, 4))),
        ("note", "a word", w.Remark("a word")),
        ("readmit", "node-7", w.Readmit("node-7")),
        ("uncordon", "node-7", w.Readmit("node-7")),
    ],
)
def test_both_orders_ask_the_same(
    tmp_path: Path, asked: list[tuple[Path, w.OperatorRequest]], command: str, word: str, request_: w.OperatorRequest
) -> None:
    run_dir = write_run(tmp_path / "run")
    for words in itertools.permutations([word, str(run_dir)]):
        assert CliRunner().invoke(app, [command, *words]).exit_code == 0
    assert asked == [(run_dir, request_)] * 2


def test_a_run_directory_among_many_words_is_found(tmp_path: Path, asked: list[tuple[Path, w.OperatorRequest]]) -> None:
    run_dir = write_run(tmp_path / "run")
    for words in (["lr=0.5x", "clip_norm=0.3", str(run_dir)], [str(run_dir), "lr=0.5x", "clip_norm=0.3"]):
        assert CliRunner().invoke(app, ["set", *words, "--timeout", "1"]).exit_code == 0
    assert asked[0] == asked[1]
    assert asked[0][0] == run_dir


def test_where_both_words_are_run_directories_the_documented_order_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[Path, w.OperatorRequest]]
) -> None:
    for name in ("2", "3"):
        write_run(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["ack", "2", "3"]).exit_code == 0
    assert asked == [(Path("3"), w.Acknowledge(2))]


def test_an_optional_number_may_stand_on_either_side(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    first = CliRunner().invoke(app, ["report", str(run_dir), "1", "--out", str(tmp_path / "a.html")])
    second = CliRunner().invoke(app, ["report", "1", str(run_dir), "--out", str(tmp_path / "b.html")])
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None) or {}
    yield path, command
    for name, one in inner.items():
        yield from commands(one, f"{path} {name}".strip())


def test_no_command_with_a_run_directory_and_other_words_knows_one_order_only() -> None:
    found = {path: one for path, one in commands(get_command(app)) if is_ordered(one)}
    assert {"ack", "skip", "set", "report", "incidents show", "checkpoints verify", "policy apply"} <= found.keys()
    assert [path for path, one in found.items() if not isinstance(one, RunDirAnywhere)] == []


def is_ordered(command: Any) -> bool:
    names = [one.name for one in command.params if one.param_type_name == "argument"]
    return "run_dir" in names and len(names) > 1


def test_every_command_stands_in_a_panel_by_subject() -> None:
    panels = {command.rich_help_panel for command in app.registered_commands} | {g.rich_help_panel for g in app.registered_groups}
    looking, acting = {"Look at a run", "Read logs, rehearse disasters"}, {"Run", "Steer a run", "Answer a page"}
    assert panels == looking | acting | {"Policies", "Trainer profiles"}
    assert operator.uncordon.__doc__


def test_the_documents_put_it_last() -> None:
    root = Path(__file__).resolve().parents[3]
    pages = [root / "README.md", root / "policies/README.md", *root.glob("docs/**/*.md"), *root.glob("deploy/*.md")]
    commands = re.compile(r"`(sentinel [^`\n]*\bRUN_DIR\b(?!/)[^`\n]*)`")
    written = [(page.name, one) for page in pages for one in commands.findall(page.read_text(encoding="utf-8"))]
    last = re.compile(r"RUN_DIR(\\?\|(RUNS_DIR…|LOG))?$")
    assert len(written) > 40
    assert not [one for one in written if "--run-dir" not in one[1] and not last.search(one[1])]
