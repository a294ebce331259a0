"""A command that is held up by a filesystem says where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.terminal.total_steps import TotalSteps
from tests.hanging_folder import HangingFolder, why_not
from tests.unit.told_run import write_run

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no filesystem that hangs: {why_not()}")
RECEIPT = b'{"kind":"start","attempt":1,"steps":600}\n'
START = "import sentinel.cli.waiting as w; w.FIRST_LOOK_S = w.LOOK_EVERY_S = 0.1; from sentinel.cli.root import main; main()"


def test_a_command_says_that_it_waits_for_a_filesystem_and_goes_on_when_it_answers(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    stream = run_dir / "attempts" / "0002" / "metrics.jsonl"
    with HangingFolder(tmp_path / "far", {"metrics.jsonl": RECEIPT}) as folder:
        stream.parent.mkdir(parents=True, exist_ok=True)
        stream.symlink_to(folder.path / "metrics.jsonl")
        folder.hang()
        words = [sys.executable, "-c", START, "status", str(run_dir)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
            assert command.stderr is not None
            said = command.stderr.readline()
            folder.go_on()
            out, _ = command.communicate(timeout=60.0)
    assert said.startswith("still waiting for a filesystem that does not answer (")
    assert "request_wait_answer" in said
    assert "supervisor" in out


def test_the_view_of_a_run_waits_for_no_file(tmp_path: Path) -> None:
    with HangingFolder(tmp_path / "run" / "attempts" / "0001", {"metrics.jsonl": RECEIPT}) as folder:
        folder.hang()
        total = TotalSteps(tmp_path / "run")
        assert total.of(1) is None
        assert total.of(1) is None
        folder.go_on()
        again = TotalSteps(tmp_path / "run")
        assert again.of(1) == 600
