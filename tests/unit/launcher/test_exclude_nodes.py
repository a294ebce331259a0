"""Nodes to be left out stand in spec.json and in the environment of the command, and of nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel.launcher.keeper_start import Started, start_command
from sentinel.launcher.spec_file import write_spec
from sentinel.model.attempts import AttemptSpec, SettingsInForce
from sentinel.run_files.attempt_files import AttemptFiles

SAY = ("sh", "-c", 'echo "${SENTINEL_EXCLUDE_NODES-unset}"')


def said(run_dir: Path, *nodes: str) -> tuple[str, list[str]]:
    files = AttemptFiles.of(run_dir, 1)
    write_spec(files, AttemptSpec(1, SAY, str(run_dir), None, SettingsInForce(), exclude_nodes=nodes))
    started = start_command(files)
    assert isinstance(started, Started)
    assert started.processes[0].wait(10) == 0
    return (files.logs / "launcher.out").read_text().strip(), json.loads(files.spec.read_text())["exclude_nodes"]


def test_the_command_is_told_which_nodes_to_leave_out(tmp_path: Path) -> None:
    assert said(tmp_path, "n1", "n2.org") == ("n1,n2.org", ["n1", "n2.org"])


def test_without_any_it_is_not_set_even_where_sentinel_runs_inside_an_attempt_that_had_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_EXCLUDE_NODES", "outer")
    assert said(tmp_path) == ("unset", [])
