"""Every launcher has one row; run.json's `launcher` chooses it, and a wrong word names the nearest known one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.launcher import registry
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.registry import LauncherRow, LaunchPlace, find_row, open_launcher, parse_options, settings_of
from sentinel.model.attempts import Alive, AttemptSpec, AttemptView, Unseen
from sentinel.model.state import RunState
from sentinel.report.reading import view_attempt
from tests.unit.told_run import state_of, told, write_run


def test_local_is_there_and_the_default(tmp_path: Path) -> None:
    assert isinstance(open_launcher(registry.DEFAULT, {}, LaunchPlace(tmp_path)), LocalLauncher)


def test_no_two_rows_have_the_same_kind() -> None:
    kinds = [row.kind for row in registry.LAUNCHERS]
    assert len(kinds) == len(set(kinds))


def test_an_unknown_launcher_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"--launcher locla: no such launcher; did you mean local\?"):
        find_row("locla")


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--launcher-option nodes: the launcher 'local' has no such option; use one of warm"):
        settings_of(find_row("local"), {"nodes": "4"})


@pytest.mark.parametrize("kind", ["slurm", "command"])
def test_a_reserve_is_local_alone(kind: str) -> None:
    """As somebody sees it who wrote `sentinel run --warm --launcher slurm`."""
    words = rf"^--warm .*: the launcher '{kind}' has no such option; only the launcher 'local' has it: leave it out$"
    with pytest.raises(UsageError, match=words):
        settings_of(find_row(kind), {"warm": "on"})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["start"], "--launcher-option start: write it NAME=VALUE"),
        (["=x"], "--launcher-option =x: write it NAME=VALUE"),
        (["start=a", "start=b"], "--launcher-option start: is given twice"),
    ],
)
def test_options_of_another_form_are_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_options(words)


def test_an_option_may_hold_an_equals_sign_and_nothing() -> None:
    assert parse_options(["start=sbatch --export=A=1 run.sh", "stop="]) == {"start": "sbatch --export=A=1 run.sh", "stop": ""}


@dataclass(frozen=True, slots=True)
class PretendSettings:
    queue: str
    account: str = "none"


@dataclass(frozen=True, slots=True)
class PretendLauncher:
    settings: PretendSettings

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        return Alive(attempt, 0, ())

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        return Alive(spec.attempt, 0, ())

    def ensure_stopped(self, attempt: int) -> AttemptView:
        raise NotImplementedError

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        return 0


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> LauncherRow:
    row = LauncherRow("pretend", "for this test", PretendSettings, lambda _, settings: PretendLauncher(settings), lambda *_: None)
    monkeypatch.setattr(registry, "LAUNCHERS", (*registry.LAUNCHERS, row))
    return row


def test_a_row_is_all_it_takes(pretend: LauncherRow, tmp_path: Path) -> None:
    launcher = open_launcher("pretend", {"queue": "long"}, LaunchPlace(tmp_path))
    assert launcher == PretendLauncher(PretendSettings("long"))


def test_a_missing_option_is_named(pretend: LauncherRow) -> None:
    with pytest.raises(UsageError, match="--launcher pretend: needs --launcher-option queue="):
        settings_of(pretend, {"account": "a"})


def test_an_unknown_option_names_the_nearest(pretend: LauncherRow) -> None:
    with pytest.raises(UsageError, match=r"has no such option; did you mean queue\?"):
        settings_of(pretend, {"queu": "long"})


def test_the_report_asks_the_launcher_of_the_run_and_not_this_machine(pretend: LauncherRow, tmp_path: Path) -> None:
    state = told_state(tmp_path, launcher="pretend", options='{"queue": "long"}')
    assert isinstance(view_attempt(tmp_path, state), Alive)


def test_a_run_of_a_launcher_that_this_version_lacks_is_unseen_and_not_dead(tmp_path: Path) -> None:
    view = view_attempt(tmp_path, told_state(tmp_path, launcher="quantum", options="{}"))
    assert isinstance(view, Unseen)
    assert "--launcher quantum: no such launcher" in view.reason


def told_state(run_dir: Path, launcher: str, options: str) -> RunState:
    write_run(run_dir)
    path = run_dir / "run.json"
    plain = json.loads(path.read_bytes())
    path.write_text(json.dumps({**plain, "launcher": launcher, "launcher_options": json.loads(options)}))
    return state_of(told())
