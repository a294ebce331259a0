"""A run goes on under another command: only where a person says so, and never while the one before may train."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.cli import run as cli
from sentinel.errors import UsageError
from sentinel.journal.run_file import read_run_file, write_run_file
from sentinel.model.state import RunState
from sentinel.signals import held_back
from sentinel.supervisor import run_request
from sentinel.supervisor.run_request import RunRequest, describe_run, policy_of, question_about, refuse_while_it_trains
from tests.builders import Bench, build_policy
from tests.unit.journal.test_run_file import RUN

POLICY = Path("policies/demo.yaml").absolute()
NEW = ("torchrun", "--nproc-per-node", "2", "train.py")


def described(tmp_path: Path, **asked: object) -> tuple[tuple[str, ...], str]:
    request = RunRequest(tmp_path, "demo", NEW, "/elsewhere", **asked)  # type: ignore[arg-type]
    run = describe_run(tmp_path, RUN, request, build_policy(), POLICY)
    return run.command, run.cwd


def test_without_a_word_about_it_it_is_refused_and_the_flag_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"another command \(torchrun train\.py\); .* add --changed-command"
    ):
        described(tmp_path)


def test_with_it_the_run_has_the_new_command_and_its_directory_and_keeps_the_rest(tmp_path: Path) -> None:
    assert described(tmp_path, changed_command=True) == (NEW, "/elsewhere")
    same = RunRequest(tmp_path, "demo", RUN.command, "/elsewhere", changed_command=True)
    assert describe_run(tmp_path, RUN, same, build_policy(), POLICY).cwd == RUN.cwd, "nothing has changed"


def test_the_policy_s_path_is_kept_whole_so_that_it_is_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(POLICY.read_text())
    monkeypatch.chdir(tmp_path)
    asked = RunRequest(tmp_path / "run", "mine.yaml", NEW, str(tmp_path))
    run = describe_run(tmp_path / "run", None, asked, build_policy(), Path("mine.yaml"))
    assert run.policy.path == str(tmp_path / "mine.yaml")
    (tmp_path / "run").mkdir()
    write_run_file(tmp_path / "run", replace(run, policy=replace(run.policy, path="mine.yaml")))  # as older versions wrote it
    monkeypatch.chdir("/")
    assert read_run_file(tmp_path / "run").policy.path == str(tmp_path / "mine.yaml")


def test_the_question_shows_both_commands_and_what_a_checkpoint_has_to_do(tmp_path: Path) -> None:
    assert question_about(tmp_path, NEW) == "", "there is no run yet"
    write_run_file(tmp_path, RUN)
    assert question_about(tmp_path, RUN.command) == question_about(tmp_path, ()) == ""
    asked = question_about(tmp_path, NEW)
    assert re.search(r"it was: +torchrun train\.py\n +it is now: torchrun --nproc-per-node 2 train\.py", asked)
    assert "loads on any number of ranks" in asked


@pytest.mark.parametrize(("is_terminal", "answer", "said"), [(True, True, True), (True, False, False), (False, True, False)])
def test_it_is_asked_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, answer: bool, said: bool) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(cli.typer, "confirm", lambda *_, **__: answer)
    with held_back():  # as `run` asks it
        assert cli._says_yes("Go on?") is said
        assert not cli._says_yes("")


@pytest.mark.parametrize("alive", [True, None])
def test_while_the_old_one_trains_or_may_train_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: bool | None
) -> None:
    write_run_file(tmp_path, RUN)
    changed, bench = replace(RUN, command=NEW), Bench().launched()
    monkeypatch.setattr(run_request, "is_attempt_alive", lambda *_: alive)
    with pytest.raises(UsageError, match=r"attempt 1, launched under the command before, .* Stop it first"):
        refuse_while_it_trains(tmp_path, changed, bench.state)
    refuse_while_it_trains(tmp_path, RUN, bench.state)
    refuse_while_it_trains(tmp_path, changed, RunState())
    monkeypatch.setattr(run_request, "is_attempt_alive", lambda *_: False)
    refuse_while_it_trains(tmp_path, changed, bench.state)


def asked(policy: str | None) -> RunRequest:
    return RunRequest(Path("run"), policy, NEW, "/elsewhere")


def test_a_run_that_is_started_again_goes_on_by_its_own_policy(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(POLICY.read_text())
    known = replace(RUN, policy=replace(RUN.policy, path=str(own), name="demo"))
    assert policy_of(asked(None), known) == own
    assert policy_of(asked("default"), known).name == "default.yaml"
    assert policy_of(asked(None), None).name == "default.yaml"


def test_a_shipped_policy_is_found_where_the_installation_is_now(tmp_path: Path) -> None:
    moved = replace(RUN, policy=replace(RUN.policy, path=str(tmp_path / "old" / "policies" / "demo.yaml"), name="demo"))
    assert policy_of(asked(None), moved) == POLICY
    lost = replace(RUN, policy=replace(RUN.policy, path=str(tmp_path / "mine.yaml"), name="demo"))
    assert policy_of(asked(None), lost) == tmp_path / "mine.yaml", "which is missing, and said to be: no other takes its place"
