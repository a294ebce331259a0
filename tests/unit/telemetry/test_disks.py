"""The room on the disks: what one look sees, and a helper that answers, is gone, says nonsense or hangs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sentinel.clock import SystemClock
from sentinel.detectors.disk_memory import lacks_room
from sentinel.model.disks import DiskReading
from sentinel.model.readings import Reading, SourceReading
from sentinel.telemetry.disk_look import DiskLook
from sentinel.telemetry.disks import RETRY_S, SILENT_S, DiskSource, look_once
from tests.integration.supervised import wait_for

SAYS = """
import json, sys
print(json.dumps(json.loads(sys.argv[1])), flush=True)
sys.stdin.read()
"""
DISK = {"place": "checkpoints", "mount": "/x", "free_bytes": 5, "total_bytes": 9, "free_inodes": None, "saves": [], "count": 0}


def save(run_dir: Path, step: int, size: int = 1000, saved_s: float = 900.0) -> Path:
    folder = run_dir / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    data = bytes(size)
    (folder / "shard-0").write_bytes(data)
    files = {"shard-0": {"bytes": size, "sha256": hashlib.sha256(data).hexdigest()}}
    (folder / "manifest.json").write_text(json.dumps({"step": step, "files": files}))
    os.utime(folder / "manifest.json", (saved_s, saved_s))
    return folder


class FixedClock(SystemClock):
    def wall_s(self) -> float:
        return 1000.0


def look(run_dir: Path, *roots: Path) -> list[DiskReading]:
    return DiskLook(run_dir, roots, FixedClock()).read()


def test_a_look_sees_room_and_what_the_complete_checkpoints_take(tmp_path: Path) -> None:
    save(tmp_path, 100, 1000, 700.0)
    save(tmp_path, 200, 3000, 900.0)
    (tmp_path / "checkpoints" / "step-00000300").mkdir()  # a save under way
    (found,) = look(tmp_path)
    room = os.statvfs(tmp_path)
    assert found.place == "checkpoints"
    assert os.path.ismount(found.mount)
    assert str(tmp_path).startswith(found.mount)
    assert found.total_bytes == room.f_blocks * room.f_frsize
    assert 0 < found.free_bytes <= found.total_bytes
    assert [(one.step, one.bytes, one.files, one.age_s) for one in found.saves] == [(100, 1000, 2, 300.0), (200, 3000, 2, 100.0)]
    assert found.count == 2


def test_before_the_first_checkpoint_the_disk_is_where_the_folder_will_be(tmp_path: Path) -> None:
    (found,) = look(tmp_path / "not" / "yet")
    assert (found.place, found.saves, found.count) == ("checkpoints", (), 0)


def test_checkpoints_and_run_directory_on_two_disks_are_two(tmp_path: Path) -> None:
    places = [place for place in ("/dev/shm", "/var/tmp") if os.path.isdir(place)]
    others = [place for place in places if os.stat(place).st_dev != os.stat(tmp_path).st_dev]
    if not others:
        pytest.skip("there is no second filesystem to write to")
    elsewhere = Path(others[0])
    (tmp_path / "checkpoints").symlink_to(elsewhere)
    checkpoints, own = look(tmp_path)
    assert (checkpoints.place, own.place, own.count) == ("checkpoints", "run directory", None)
    assert os.path.ismount(checkpoints.mount)
    assert os.stat(checkpoints.mount).st_dev == os.stat(elsewhere).st_dev
    assert [one.place for one in look(tmp_path, elsewhere)] == ["checkpoints", "run directory"]


def test_a_filesystem_that_counts_no_inodes_leaves_them_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = SimpleNamespace(f_files=0, f_favail=0, f_frsize=4096, f_bavail=7, f_blocks=9)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    (found,) = look(tmp_path)
    assert (found.free_bytes, found.total_bytes, found.free_inodes) == (7 * 4096, 9 * 4096, None)


def test_manifests_that_have_not_changed_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 100)
    disks = DiskLook(tmp_path, (), FixedClock())
    first = disks.read()
    monkeypatch.setattr("sentinel.telemetry.disk_look.read_taken", lambda _: pytest.fail("read again"))
    assert disks.read()[0].saves == first[0].saves


def test_a_manifest_that_promises_more_than_its_files_hold_is_measured_by_these(tmp_path: Path) -> None:
    save(tmp_path, 100)
    save(tmp_path, 200)
    manifest = tmp_path / "checkpoints/step-00000200/manifest.json"
    told = json.loads(manifest.read_text())
    for entry in told["files"].values():
        entry["bytes"] = 10**15
    told["files"]["lost.bin"] = {"bytes": 10**15, "sha256": "0" * 64}
    manifest.write_text(json.dumps(told))
    (disk,) = look(tmp_path)
    assert [one.bytes for one in disk.saves] == [1000, 1000]
    assert lacks_room(disk) == ""


Make = Callable[..., DiskSource]


@pytest.fixture
def source_of(tmp_path: Path) -> Iterator[Make]:
    made: list[DiskSource] = []

    def make(program: str | None = None, *words: str, run_dir: Path = tmp_path) -> DiskSource:
        argv = {} if program is None else {"argv": (sys.executable, "-c", program, *words)}
        made.append(DiskSource(run_dir, every_s=1000.0, **argv))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for source in made:
        source.close()


def polled(source: DiskSource, now_s: float = 0.0) -> list[Reading]:
    out: list[Reading] = []

    def has_some() -> bool:
        out.extend(source.poll(now_s))
        return bool(out)

    assert wait_for("an answer", has_some)
    return out


def test_the_real_helper_tells_of_the_disks_and_leaves_with_its_supervisor(tmp_path: Path, source_of: Make) -> None:
    save(tmp_path, 100)
    source = source_of()
    sees, disk = polled(source)
    assert sees == SourceReading("disks", ok=True, reason="they answer")
    assert isinstance(disk, DiskReading)
    assert (disk.count, disk.saves[0].step) == (1, 100)
    assert source.disks == (disk,)
    helper = subprocess.Popen(
        [sys.executable, "-P", "-m", "sentinel.telemetry.disk_helper", str(tmp_path), "1000"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert helper.stdout is not None
    assert helper.stdin is not None
    helper.stdout.readline()
    helper.stdin.close()
    assert helper.wait(30) == 0
    helper.stdout.close()


def test_an_error_of_the_filesystem_is_blindness_and_no_full_disk(source_of: Make) -> None:
    source = source_of(SAYS, json.dumps({"kind": "failed", "reason": "/x: Stale file handle"}))
    assert polled(source) == [SourceReading("disks", ok=False, reason="/x: Stale file handle")]
    assert source.disks == ()


@pytest.mark.parametrize("said", ['"x"', "{}", '{"kind": "disks", "disks": [{}]}', '{"kind": "disks", "disks": 3}'])
def test_nonsense_is_blindness(source_of: Make, said: str) -> None:
    (blind,) = polled(source_of(SAYS, said))
    assert isinstance(blind, SourceReading)
    assert not blind.ok


def test_a_name_that_no_terminal_should_see_is_shown_as_it_is_spelled(source_of: Make) -> None:
    _, disk = polled(source_of(SAYS, json.dumps({"kind": "disks", "disks": [DISK | {"mount": "/x\x1b[2J"}]})))
    assert isinstance(disk, DiskReading)
    assert "\x1b" not in disk.mount


def test_a_look_that_never_returns_is_blindness_and_never_holds_up_the_loop(source_of: Make) -> None:
    source = source_of("import sys; sys.stdin.read()")
    assert source.poll(0.0) == source.poll(SILENT_S) == []
    (blind,) = source.poll(SILENT_S + 1001.0)
    assert isinstance(blind, SourceReading)
    assert not blind.ok
    assert "a filesystem of the run hangs" in blind.reason
    helper = source._helper
    assert helper is not None
    assert wait_for("an answer", lambda: source.poll(1100.0) == [] and source._helper is None)
    assert source.poll(1100.0 + RETRY_S - 1.0) == []
    assert source._helper is None
    source.poll(1100.0 + RETRY_S + 1.0)
    assert source._helper is not None  # asked again


def test_a_helper_that_is_gone_is_blindness(source_of: Make) -> None:
    (blind,) = polled(source_of("pass"))
    assert isinstance(blind, SourceReading)
    assert "is gone" in blind.reason


def test_one_look_from_outside_has_its_numbers_or_nothing(tmp_path: Path) -> None:
    save(tmp_path, 100)
    (disk,) = look_once(tmp_path)
    assert disk.saves[0].bytes == 1000
    assert look_once(tmp_path, wait_s=0.0) == ()


def test_the_room_on_a_small_filesystem_of_its_own(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a filesystem needs root")
    disk = tmp_path / "checkpoints"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=50", "sentinel-test", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    try:
        before = look(tmp_path)[0]
        assert (before.mount, before.total_bytes) == (str(disk), 1 << 20)
        save(tmp_path, 100, 500_000)
        after = look(tmp_path)[0]
        assert before.free_bytes - after.free_bytes >= 500_000
        assert before.free_inodes is not None
        assert after.free_inodes is not None
        assert before.free_inodes - after.free_inodes == 3
        assert "2 checkpoints of 488 KiB, as that of step 100, do not fit" in lacks_room(after)
    finally:
        subprocess.run(["umount", disk], check=True)
