"""Trainer and kernels name themselves nowhere in their imports, so they run under whatever names they are installed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {name: sorted((ROOT / name).rglob("*.py")) for name in ("trainer", "cuda_ext")}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("package", SOURCES)
def test_a_package_with_two_names_imports_itself_by_relative_names(package: str) -> None:
    faults = []
    for path in SOURCES[package]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            absolute = isinstance(node, ast.ImportFrom) and node.level == 0
            names = [node.module or ""] if absolute else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named = [name for name in names if name.split(".")[0] == package]
            faults += [f"{relative(path)}:{node.lineno} imports {name}; write it with leading dots" for name in named]
    assert SOURCES[package]
    assert not faults, "\n".join(faults)


def test_a_copy_under_another_name_runs_and_never_loads_the_original(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "trainer", tmp_path / "renamed", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys, renamed.train; print([name for name in sys.modules if name.split('.')[0] == 'trainer'])"
    path = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    for words, expected in ((["-m", "renamed", "--settings"], "model.vocab_size"), (["-c", code], "[]")):
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=tmp_path, env=path, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(expected)
