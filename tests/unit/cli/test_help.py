"""What a help text says of rows is read from their registry, and no placeholder is ever shown."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sentinel.channels.registry import ROWS
from sentinel.cli.options import NAMED
from sentinel.cli.root import app
from sentinel.client.settings import BY_WORD
from sentinel.launcher.registry import LAUNCHERS

WIDE = {"COLUMNS": "4000", "TERMINAL_WIDTH": "4000"}


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], env=WIDE)
    assert result.exit_code == 0
    return re.sub(r"\s+", " ", result.output)


def commands(group: Any, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found += commands(command, (*words, name)) if hasattr(command, "commands") else [(*words, name)]
    return found


def test_run_names_every_launcher_and_its_options() -> None:
    text = shown("run")
    for row in LAUNCHERS:
        assert row.summary in text
    assert "command has start, status, stop, every=5s, timeout=60s" in text


@pytest.mark.parametrize("words", [("run",), ("demo",), ("page", "test")])
def test_every_form_of_page_is_named_with_its_variable(words: tuple[str, ...]) -> None:
    text = shown(*words)
    for form in (row.short_form for row in ROWS if row.short_form is not None):
        assert form.usage in text
        assert form.variable in text


def test_set_names_every_live_setting() -> None:
    text = shown("set")
    assert f"KEY is one of: {', '.join(word for word, row in BY_WORD.items() if row.changes == 'live')};" in text


@pytest.mark.parametrize("words", commands(typer.main.get_command(app)), ids=" ".join)
def test_no_help_shows_a_placeholder(words: tuple[str, ...]) -> None:
    text = shown(*words)
    assert not [word for word in NAMED if word in text]
