"""What a launcher can do for every command is declared with a new run, and no longer asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.journal.run_file import write_run_file
from sentinel.supervisor.ruled import rule_run
from sentinel.supervisor.run_request import RunRequest


def capabilities(run_dir: Path, launcher: str | None, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    request = RunRequest(run_dir, "demo", ("sh",), "/", without=without, launcher=launcher)
    run_file = rule_run(request, run_dir, 0.0).run_file
    write_run_file(run_dir, run_file)
    assert run_file.capabilities is not None
    return run_file.capabilities


def test_slurm_leaves_nodes_out_whatever_the_command_is(tmp_path: Path) -> None:
    assert "exclude" in capabilities(tmp_path, "slurm")
    assert "exclude" in capabilities(tmp_path, None), "it stays with the run"


def test_a_person_may_say_that_it_does_not(tmp_path: Path) -> None:
    assert "exclude" not in capabilities(tmp_path, "slurm", ("exclude",))
    assert "exclude" not in capabilities(tmp_path, None), "and that stays as well"


def test_the_launcher_of_this_machine_does_not(tmp_path: Path) -> None:
    assert "exclude" not in capabilities(tmp_path, None)


def test_a_launcher_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="slrum"):
        capabilities(tmp_path, "slrum")
