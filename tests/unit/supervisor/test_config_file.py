"""`sentinel.yaml`: what `sentinel init` writes and `sentinel run` takes from it, what wins over it, and mistakes in one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sentinel.cli.root import main
from sentinel.errors import PolicyError, UsageError
from sentinel.supervisor import app
from sentinel.supervisor.config_file import NAME, read_config
from sentinel.supervisor.run_request import RunRequest
from sentinel.trainers.probe import command
from sentinel.trainers.probe.command import ProbeReport, ProbeRequest

MEGATRON = ["--", sys.executable, "train.py", "--save", "out", "--lr", "1e-3"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """What `sentinel run` asked the supervisor for; nothing is started."""
    found: list[RunRequest] = []

    def supervise(request: RunRequest, narrator: Any = None) -> int:
        found.append(request)
        return 0

    monkeypatch.setattr(app, "supervise", supervise)
    return found


def sentinel(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sentinel", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return int(str(left.value.code or 0))


def test_what_init_writes_is_what_run_takes(folder: Path, monkeypatch: pytest.MonkeyPatch, requests: list[RunRequest]) -> None:
    assert sentinel(monkeypatch, "init", *MEGATRON) == 0
    assert sentinel(monkeypatch, "run") == 0
    (asked,) = requests
    assert asked.command == tuple(MEGATRON[1:])
    assert (asked.trainer, asked.policy, asked.launcher) == ("megatron", "default", "local")
    assert asked.run_dir == folder / "runs/train"
    assert asked.cwd == str(folder)
    assert (folder / NAME).read_text().count("\n# ") >= 7  # a comment for each key


def test_the_command_line_wins_over_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch, requests: list[RunRequest]) -> None:
    sentinel(monkeypatch, "init", *MEGATRON)
    assert sentinel(monkeypatch, "run", "--policy", "cautious", "--trainer", "exit-only", "--run-dir", "runs/train") == 0
    assert (requests[0].policy, requests[0].trainer) == ("cautious", "exit-only")
    assert sentinel(monkeypatch, "run", "--", "true") == 0
    assert (requests[1].command, requests[1].trainer) == (("true",), None)
    assert sentinel(monkeypatch, "run", "--config", NAME, "--run-dir", "other") == 0
    assert requests[2].run_dir == Path("other")
    assert requests[2].command == tuple(MEGATRON[1:])


def test_another_run_is_gone_on_with_as_before(monkeypatch: pytest.MonkeyPatch, requests: list[RunRequest]) -> None:
    sentinel(monkeypatch, "init", *MEGATRON)
    assert sentinel(monkeypatch, "run", "--run-dir", "runs/earlier") == 0
    assert (requests[0].command, requests[0].policy) == ((), None)


def test_paths_count_from_the_file_s_own_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, requests: list[RunRequest]
) -> None:
    away = folder / "job"
    away.mkdir()
    (away / "mine.yaml").touch()
    (away / "rules.yaml").touch()
    (away / NAME).write_text("command: [./train.sh]\ntrainer: mine.yaml:root=out\npolicy: rules.yaml\nrun_dir: r\n")
    assert sentinel(monkeypatch, "run", "--config", "job/sentinel.yaml") == 0
    (asked,) = requests
    assert asked.trainer == f"{away / 'mine.yaml'}:root=out"
    assert asked.policy == str(away / "rules.yaml")
    assert asked.run_dir == away / "r"
    assert asked.cwd == str(away)


def test_a_file_is_never_written_over(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / NAME).write_text("mine")
    assert sentinel(monkeypatch, "init", *MEGATRON) == 2
    assert "--force" in capfd.readouterr().err
    assert (folder / NAME).read_text() == "mine"
    assert sentinel(monkeypatch, "init", "--force", *MEGATRON) == 0
    assert "megatron" in (folder / NAME).read_text()


def test_init_without_a_command_leaves_it_to_be_filled_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentinel(monkeypatch, "init") == 0
    with pytest.raises(UsageError, match=r"command: is empty; write the training command"):
        read_config(folder / NAME)


def test_init_refuses_a_profile_that_cannot_drive_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentinel(monkeypatch, "init", "--trainer", "megatron", "--", sys.executable, "x.py") == 2
    assert sentinel(monkeypatch, "init", "--", "no-such-program") == 2
    assert list(folder.iterdir()) == []


def test_a_recognised_profile_that_lacks_something_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert sentinel(monkeypatch, "init", "--", sys.executable, "x.py", "--save", "out") == 0
    out = capfd.readouterr().out
    assert "its trainer is megatron, recognised by --save" in out
    assert "--trainer: lr_scale is not offered: it needs --lr, which is not in the command" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("command: [a]\npolcy: default\n", "2:1: polcy: unknown key 'polcy'"),
        ("command: [a, 1e-3]\n", "1:14: command[1]: 0.001 is not text"),
        ("command: a b\n", "1:1: command: 'a b' is not a list"),
        ("kind: Policy\n", "1:1: kind: 'Policy' is not 'RunConfig'"),
        ("command: [a\n", "not YAML"),
    ],
)
def test_a_mistake_is_told_with_line_caret_and_remedy(folder: Path, text: str, told: str) -> None:
    (folder / NAME).write_text(text)
    with pytest.raises(PolicyError) as refused:
        read_config(Path(NAME))
    assert told in refused.value.message
    assert "^" in refused.value.message
    assert "remedy: " in refused.value.message


def test_a_file_that_is_not_there_names_the_command_that_writes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="sentinel init writes one"):
        read_config(Path("no.yaml"))
    assert sentinel(monkeypatch, "run", "--config", "no.yaml") == 2


def test_a_probe_without_a_command_takes_the_file_s(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentinel(monkeypatch, "init", *MEGATRON)
    asked: list[ProbeRequest] = []

    def probe(request: ProbeRequest, clock: Any, say: Any) -> ProbeReport:
        asked.append(request)
        return ProbeReport("", {}, is_fine=True)

    monkeypatch.setattr(command, "probe", probe)
    assert sentinel(monkeypatch, "probe") == 0
    assert sentinel(monkeypatch, "probe", "--", "true") == 0
    assert [(one.command, one.trainer) for one in asked] == [(tuple(MEGATRON[1:]), "megatron"), (("true",), None)]
