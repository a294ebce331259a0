"""A rank on another machine below a client that is called srun: what a stop does, and what a client leaves that is killed.

The rank runs on this machine, without a word of the attempt in its environment and not below the keeper: what the keeper cannot
see of another machine it does not see of this one. Its heartbeat names another host. Real processes, a double of srun.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.errors import NotYet
from sentinel.launcher.local import LocalLauncher
from sentinel.model.attempts import AttemptSpec, Exited, SettingsInForce, Unseen
from sentinel.run_files.attempt_files import AttemptFiles
from tests.conformance.launcher_world import wait_for

# At SIGTERM as srun: SIGKILL to the task, which slurmstepd reaps and which a wrapper of it puts on record.
SRUN = """#!/bin/sh
folder=$SENTINEL_RUN_DIR/attempts/000$SENTINEL_ATTEMPT
task=$(cat "$SENTINEL_RUN_DIR/task")
beat=$folder/heartbeats/rank-00001.json
echo '{"step": 3, "phase": "backward", "time_s": 1.0, "pid": '$task', "host": "n2"}' >"$beat.new" && mv "$beat.new" "$beat"
end() {
    echo "srun: forcing job termination" >&2
    kill -KILL "$task"
    echo "srun: error: n2: task 1: Killed" >&2
    record=$folder/exits/rank-00001.json
    echo '{"rank": 1, "code": 1, "peer_lost": true, "time_s": 1.0}' >"$record.new" && mv "$record.new" "$record"
    exit 143
}
trap end TERM
while :; do sleep 0.05; done
"""


class Elsewhere:
    """A run whose one attempt has a rank elsewhere."""

    def __init__(self, run_dir: Path) -> None:
        self.files = AttemptFiles.of(run_dir, 1)
        self._task = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)  # as slurmd starts it, on its node
        (run_dir / "task").write_text(str(self._task.pid))
        srun = run_dir / "srun"
        srun.write_text(SRUN)
        srun.chmod(0o755)
        self.launcher = LocalLauncher(run_dir, grace_s=0.1)
        self.launcher.ensure_started(AttemptSpec(1, (str(srun), "train"), str(run_dir), None, SettingsInForce(id="ov-1")))
        wait_for(lambda: (self.files.heartbeats / "rank-00001.json").exists(), "the rank elsewhere beats")

    @property
    def client(self) -> int:
        return int(json.loads(self.files.keeper.read_text())["command_pid"])

    @property
    def task_lives(self) -> bool:
        return self._task.poll() is None

    def close(self) -> None:
        self._task.kill()
        self._task.wait()
        (self.files.folder / "gone").touch()
        self.launcher.ensure_stopped(1)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    elsewhere = Elsewhere(tmp_path)
    yield elsewhere
    elsewhere.close()


def test_a_stop_lets_the_client_end_its_task_before_it_is_killed(elsewhere: Elsewhere) -> None:
    view = elsewhere.launcher.ensure_stopped(1)
    assert isinstance(view, Exited)
    assert not elsewhere.task_lives
    assert [(rank.rank, rank.source) for rank in view.report.ranks] == [(1, "record")]
    assert "forcing job termination" in elsewhere.files.launcher_err.read_text()


@pytest.mark.slow
def test_a_client_that_is_killed_ends_nothing_and_nothing_is_concluded_from_its_end(elsewhere: Elsewhere) -> None:
    os.kill(elsewhere.client, signal.SIGKILL)
    wait_for(lambda: isinstance(elsewhere.launcher.observe(1), (Unseen, Exited)), "its end is seen")
    view = elsewhere.launcher.observe(1)
    assert isinstance(view, Unseen)
    assert [(one.rank, one.host) for one in view.ranks] == [(1, "n2")]
    assert elsewhere.task_lives
    with pytest.raises(NotYet, match="srun was killed before it could end what it had started"):
        elsewhere.launcher.ensure_stopped(1)
    assert not elsewhere.files.exit.exists()
    (elsewhere.files.exits / "rank-00001.json").write_text('{"rank": 1, "code": 1, "peer_lost": true, "time_s": 1.0}')
    assert isinstance(elsewhere.launcher.observe(1), Exited)
    assert isinstance(elsewhere.launcher.ensure_stopped(1), Exited)
