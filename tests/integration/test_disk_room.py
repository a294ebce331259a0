"""Room on a real disk: what is deleted to make some, and a run that is not started where it could not save."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.policy_files.loading import shipped_policy_path
from tests.integration.supervised import Supervised, double, run_sentinel, wait_for

DISK_BYTES = 1 << 20


def policy(place: Path) -> str:
    """demo.yaml with rungs that go back 20 and 40 steps, and onsets that are dated back 20."""
    text = shipped_policy_path("demo").read_text(encoding="utf-8")
    path = place / "shallow.yaml"
    path.write_text(text.replace("onset_lookback: 100 steps", "onset_lookback: 20 steps").replace("further: 2x", "further: 1.1x"))
    return str(path)


def steps(run_dir: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run_dir / "checkpoints").glob("step-*"))


def test_a_person_makes_room_in_a_run_that_nobody_supervises(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(300), policy=policy(tmp_path)).start()
    assert run.wait() == 0, run.log
    before = steps(run.run_dir)
    shown = run_sentinel("checkpoints", "prune", str(run.run_dir), "--keep", "2", "--dry-run", "--json")
    document = json.loads(shown.stdout)
    goes = [row["step"] for row in document["checkpoints"] if row["goes"]]
    assert goes
    assert max(before) not in goes
    assert document["gives_back_bytes"] == sum(row["bytes"] for row in document["checkpoints"] if row["goes"])
    assert steps(run.run_dir) == before, "a look changes nothing"

    done = run_sentinel("checkpoints", "prune", str(run.run_dir), "--keep", "2")
    assert done.returncode == 0, done.stderr
    assert f"{len(goes)} of {len(before)} can go" in done.stdout
    assert steps(run.run_dir) == [step for step in before if step not in goes]
    again = run_sentinel("checkpoints", "prune", str(run.run_dir), "--keep", "2")
    assert again.returncode == 1
    assert "no checkpoint can be spared" in again.stderr


def test_a_supervised_run_is_pruned_by_its_supervisor(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(4000, 0.01), policy=policy(tmp_path)).start()
    try:
        wait_for("the tenth checkpoint", lambda: (run.run_dir / "checkpoints").is_dir() and len(steps(run.run_dir)) >= 10)
        done = run_sentinel("checkpoints", "prune", str(run.run_dir), "--keep", "1")
        assert done.returncode == 0, done.stderr
        wait_for("the deletion of the first", lambda: 25 not in steps(run.run_dir))
    finally:
        run_sentinel("stop", str(run.run_dir))
    run.wait()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a filesystem needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "sentinel-test", place]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> Path:
    """Somebody else takes what is left."""
    path = disk / "somebody-elses"
    room = os.statvfs(disk)
    path.write_bytes(bytes(room.f_bavail * room.f_frsize))
    return path


def test_a_run_that_could_not_save_is_not_started_and_goes_on_when_there_is_room(tmp_path: Path, small_disk: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / "checkpoints").symlink_to(small_disk)
    run = Supervised(place, double(4000, 0.01)).start()
    wait_for("two checkpoints", lambda: len(steps(place)) >= 2)
    run_sentinel("stop", str(place))
    run.wait()
    somebody = fill(small_disk)
    attempts = run.attempts()

    assert run.start().wait() == 1, run.log
    assert "nothing is launched, for it could not save: 0 bytes are free on" in run.log
    assert f"`sentinel checkpoints prune {place}`" in run.log
    assert run.attempts() == attempts

    somebody.unlink()
    run.start()
    wait_for("another attempt", lambda: len(run.attempts()) > len(attempts))
    run_sentinel("stop", str(place))
    run.wait()
