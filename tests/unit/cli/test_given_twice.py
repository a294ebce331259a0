"""An option that counts once and is given twice: nobody knows which was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.errors import UsageError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--trainer", "a", "--trainer", "b"], "--trainer: is given twice (--trainer a and --trainer b); give it once"),
        (["--trainer=a", "--trainer", "b c"], "--trainer: is given twice (--trainer=a and --trainer 'b c')"),
        (["--policy", "demo", "--run-dir", "r", "--policy", "default"], "--policy: is given twice"),
        (["--run-dir", "a", "--run-dir", "b"], "--run-dir: is given twice"),
        (["--warm", "--no-warm"], "--warm: is given twice (--warm and --no-warm)"),
        (["--time-limit", "1h", "--time-limit", "2h"], "--time-limit: is given twice"),
    ],
)  # fmt: skip
def test_it_is_refused_with_what_was_given(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["run", *words, "--", "python", "train.py"])
    assert isinstance(result.exception, UsageError), result.output
    assert result.exception.message.startswith(said)
    assert result.exception.message.endswith("; give it once")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--trainer", "lightning:root_flag=a,root_flag=b"], "root_flag"),
        (["--track", "mlflow:uri=a,uri=b"], "uri"),
        (["--mirror", "/backup,every=100 steps,every=200 steps"], "every"),
        (["--mirror", "/backup,to=/other"], "to"),
        (["--launcher-option", "warm=on", "--warm"], "warm"),
    ],
)
def test_so_is_an_option_within_one(tmp_path: Path, words: list[str], option: str) -> None:
    command = ["run", "--run-dir", str(tmp_path / "run"), *words, "--", "python", "train.py"]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, UsageError), result.output
    assert result.exception.message.endswith("is given twice; give it once")
    assert option in result.exception.message


def test_what_stands_in_the_training_command_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also options that may come several times, and a switch twice, which says the same as once."""
    asked = []
    monkeypatch.setattr("sentinel.supervisor.app.supervise", lambda request, narrator: asked.append(request) or 0)
    words = ["--observe-only", "--observe-only", "--page", "terminal", "--page", "terminal", "--run-dir", str(tmp_path / "run")]
    command = ["python", "train.py", "--trainer", "a", "--trainer", "b"]
    result = CliRunner().invoke(app, ["run", *words, "--", *command])
    assert result.exit_code == 0, result.output
    assert (asked[0].command, asked[0].trainer, len(asked[0].pages)) == (tuple(command), None, 2)
