"""Options that stand before any command."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app


def test_the_version_is_that_of_the_installed_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"sentinel {version('training-sentinel')}\n")


@pytest.mark.parametrize("words", [(), ("status",), ("policy", "check")], ids=" ".join)
def test_h_is_help(words: tuple[str, ...]) -> None:
    short, whole = (CliRunner().invoke(app, [*words, option]) for option in ("-h", "--help"))
    assert short.exit_code == 0
    assert short.output == whole.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_the_words_that_complete_a_command(shell: str) -> None:
    words = {"bash": {"COMP_WORDS": "sentinel stat", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "sentinel stat", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    result = CliRunner().invoke(app, [], env={"_SENTINEL_COMPLETE": f"complete_{shell}", **words}, prog_name="sentinel")
    assert "status" in result.output
