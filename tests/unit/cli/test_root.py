"""Options that stand before any command."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app, main
from sentinel.report.documents import status_document
from sentinel.report.snapshot import RunSnapshot
from sentinel.report.text import status_text
from tests.unit.run_files.test_stall import NO_SCHEDULE
from tests.unit.told_run import state_of, told, write_run


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


def test_what_a_terminal_would_obey_and_what_no_encoding_can_write_is_shown_as_an_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory may be called anything; its name is told where a run is, and in what is wrong with it."""
    run_dir = write_run(tmp_path / os.fsdecode(b"a\x1b]0;owned\x07\xff\xe2\x80\xae"), until=60)
    for words in (["status"], ["incidents"], ["lineage"], ["doctor"], ["incidents", "show", "9"]):
        told = {"stdout": io.BytesIO(), "stderr": io.BytesIO()}
        for name, into in told.items():
            monkeypatch.setattr(sys, name, io.TextIOWrapper(into, encoding="iso-8859-1", write_through=True))
        monkeypatch.setattr(sys, "argv", ["sentinel", *words, str(run_dir)])
        with suppress(SystemExit):
            main()
        said = b"".join(into.getvalue() for into in told.values())
        assert said
        assert b"Traceback" not in said
        assert not {b for b in said if b < 32 and b != 10} | ({0x9B} & set(said)), words


def test_no_line_of_a_reason_is_taken_for_a_row() -> None:
    status = status_document(RunSnapshot(Path("/runs/x"), state_of(told(20))), None, "lost\nstate  training")
    assert sum(line.startswith("state") for line in status_text(status | {"schedule": NO_SCHEDULE}).splitlines()) == 1
