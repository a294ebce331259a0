"""`sentinel.client` imports a name's module when the name is asked for; type checkers are told the same names."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sentinel.client


def test_type_checkers_see_the_names_that_there_are() -> None:
    tree = ast.parse(Path(sentinel.client.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == {name: f"sentinel.client.{module}" for name, module in sentinel.client._MODULE_OF.items()}
    assert sorted(told) == sentinel.client.__all__


@pytest.mark.parametrize("name", sentinel.client.__all__)
def test_a_public_name_is_that_of_its_module(name: str) -> None:
    module = import_module(f"sentinel.client.{sentinel.client._MODULE_OF[name]}")
    assert getattr(sentinel.client, name) is getattr(module, name)
    assert name in dir(sentinel.client)


def test_an_unknown_name_is_refused_by_name() -> None:
    with pytest.raises(ImportError, match="Sesion"):
        exec("from sentinel.client import Sesion")
    with pytest.raises(AttributeError, match=r"'sentinel\.client' has no attribute 'Sesion'"):
        _ = sentinel.client.Sesion


@pytest.mark.parametrize(
    ("command", "absent"),
    [
        ("import sentinel.cli.root", ("sentinel.client.session", "sentinel.client.masking", "pydantic", "yaml")),
        ("import sentinel.supervisor.app", ("sentinel.trainers", "sentinel.terminal.live", "sentinel.telemetry.log_formats")),
    ],
)
def test_a_start_imports_nothing_that_only_some_runs_need(command: str, absent: tuple[str, ...]) -> None:
    code = f"{command}\nimport sys\nprint(*(name for name in {absent!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
