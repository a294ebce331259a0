"""What people write and read: settings and what is wrong with them, places that can never work, the commands."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sentinel.cli.root import app
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import SentinelError, UsageError
from sentinel.filesystem import is_local
from sentinel.journal.run_file import find_run_file
from sentinel.mirrors.local_store import LocalStore
from sentinel.mirrors.opening import check_place, describe_shared_fate
from sentinel.mirrors.settings import MirrorSettings, parse_mirror
from sentinel.mirrors.stores import MirrorError
from sentinel.report.following import FollowedRun
from sentinel.run_files.mirror_standing import MirrorStanding, PartStanding, write_mirror_standing
from sentinel.supervisor.config_file import read_config
from sentinel.supervisor.run_request import RunRequest
from tests.unit.mirrors.kit import SmallRun

fsspec_only = pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="fsspec is an extra")


def sentinel(*words: object) -> Result:
    """A person's error as `main` prints it, in `output`."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, SentinelError):
        done.stdout_bytes, done.output_bytes, done.exit_code = b"", str(done.exception).encode(), 2
    return done


@pytest.fixture(autouse=True)
def pushing_keeps_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mirror push` stands back for as long as its process lives, and here that is the one of all tests."""
    monkeypatch.setattr(os, "nice", lambda _: 0)


@pytest.fixture
def run(tmp_path: Path) -> SmallRun:
    return SmallRun(tmp_path / "run").begin().checkpoint(10)


def test_the_settings_of_the_command_line_and_of_a_file_are_the_same(tmp_path: Path) -> None:
    given = parse_mirror("--mirror", "s3://bucket/runs,journal=30s,streams=5m,every=100 steps,keep=3")
    assert MirrorSettings.of("x", given) == MirrorSettings("s3://bucket/runs", 30.0, 300.0, 100, 3)
    text = "{to: 's3://bucket/runs', journal: 30s, streams: 5m, checkpoints: {every: 100 steps, keep: 3}}"
    config = tmp_path / "sentinel.yaml"
    config.write_text(f"apiVersion: sentinel/v1\nkind: RunConfig\ncommand: [train]\nmirror: {text}\n")
    asked = RunRequest(tmp_path, None, (), "/")
    assert read_config(config).lay_under(asked, gave_run_dir=True).mirror == given
    config.write_text("apiVersion: sentinel/v1\nkind: RunConfig\ncommand: [train]\nmirror: {to: backup}\n")
    assert read_config(config).lay_under(asked, gave_run_dir=True).mirror["to"] == str(tmp_path / "backup")
    assert MirrorSettings.of("x", parse_mirror("--mirror", "/b,every=off")).every_steps is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "names no place; write a directory, or an address"),
        ("/b,jurnal=1m", "a mirror has no option 'jurnal'; did you mean 'journal'?"),
        ("/b,journal", "'journal' is no option; write TO,option=value"),
        ("/b,journal=60", "a duration"),
        ("/b,every=5000", "a number of steps"),
        ("/b,keep=0", "keep=0: must be a whole number from 1"),
        ("sftp://ada:hunter2@host/x", "holds a password"),
    ],
)
def test_what_is_wrong_with_settings_is_said_in_a_sentence(asked: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"^--mirror") as refused:
        parse_mirror("--mirror", asked)
    assert said in str(refused.value)


@fsspec_only
def test_a_scheme_that_nobody_knows_or_whose_library_is_missing_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="fsspec knows no scheme s4://"):
        check_place("s4://bucket")
    fsspec = importlib.import_module("fsspec")

    def missing(scheme: str) -> Any:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(UsageError, match="s3:// needs another library beside fsspec: Install s3fs"):
        check_place("s3://bucket")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs the library fsspec.*pip install 'training-sentinel\[mirror\]'"):
        check_place("s3://bucket")


def test_a_file_is_no_place_for_a_mirror(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is a file; a mirror needs a directory"):
        check_place(str(tmp_path / "file" / "below"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_fills_is_named_and_what_was_there_stays_and_it_goes_on_with_room(small_disk: Path, run: SmallRun) -> None:
    words = ("mirror", "push", "--to", f"{small_disk},every=10 steps", run.run_dir)
    assert sentinel(*words).exit_code == 0
    noise = run.run_dir / "attempts" / "0001" / "logs" / "rank-00001.err"
    noise.write_bytes(b"x" * 200_000)
    done = sentinel(*words)
    assert done.exit_code == 1
    assert "streams not mirrored: " in done.stdout
    assert "No space left on device; it is full" in done.stdout
    assert not list(small_disk.rglob("*.part")), "what was half written is gone, so that the rest has room"
    back = run.run_dir.parent / "back"
    assert sentinel("restore", "--from", small_disk, back).exit_code == 0
    noise.write_bytes(b"")
    assert sentinel(*words).exit_code == 0


def test_a_place_without_rights_is_named(tmp_path: Path) -> None:
    store = LocalStore(Path("/proc/nowhere"))
    with pytest.raises(MirrorError, match="/proc/nowhere"):
        store.put("a", [b"x"])


def test_status_tells_what_is_where_and_how_far_it_is_behind(run: SmallRun, tmp_path: Path) -> None:
    assert "has no mirror" in sentinel("mirror", "status", run.run_dir).output
    assert sentinel("mirror", "push", "--to", f"{tmp_path / 'mirror'},every=10 steps", run.run_dir).exit_code == 0
    done = sentinel("mirror", "status", run.run_dir, "--json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document["parts"]["journal"]["there"] == "3 entries"
    assert document["parts"]["checkpoints"]["there"].startswith("step 10 (")
    assert set(FollowedRun(run.run_dir).refresh().mirror_lag_s) == {"journal", "streams", "checkpoints"}
    text = sentinel("mirror", "status", run.run_dir).stdout
    assert "journal: 3 entries; confirmed " in text
    assert sentinel("mirror", "verify", "--to", tmp_path / "mirror", run.run_dir).exit_code == 0


def test_push_needs_a_place(run: SmallRun, tmp_path: Path) -> None:
    assert "has no mirror; give it one with --to" in sentinel("mirror", "push", run.run_dir).output
    (tmp_path / "file").write_text("")
    done = sentinel("mirror", "push", "--to", tmp_path / "file", run.run_dir)
    assert (done.exit_code, "is a file; a mirror needs a directory" in done.output) == (2, True)


def test_a_mirror_in_the_run_directory_is_refused_and_one_on_its_disk_is_remarked(run: SmallRun, tmp_path: Path) -> None:
    for place in (run.run_dir, run.run_dir / "below"):
        done = sentinel("mirror", "push", "--to", place, run.run_dir)
        assert (done.exit_code, "lies in the run directory, and would be lost with it" in done.output) == (2, True)
    assert describe_shared_fate("s3://bucket", run.run_dir) == ""
    if is_local(tmp_path):
        assert "a machine that is lost takes both" in describe_shared_fate(str(tmp_path / "new"), run.run_dir)


def test_a_key_in_a_services_words_is_not_shown(run: SmallRun, tmp_path: Path) -> None:
    trouble = PartStanding(1.0, "", "403 for https://ada:hunter2hunter2@host/x", 60.0)
    write_mirror_standing(run.run_dir, MirrorStanding("/backup", 1.0, {"journal": trouble}))
    done = sentinel("mirror", "status", run.run_dir)
    assert done.exit_code == 1
    assert "403 for https://***@host/x" in done.stdout


def test_another_place_is_begun_without_a_word_and_an_address_of_a_file_is_a_directory(run: SmallRun, tmp_path: Path) -> None:
    for name in ("one", "two", "one"):
        done = sentinel("mirror", "push", "--to", f"file://{tmp_path / name}", run.run_dir)
        assert done.exit_code == 0, done.output
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    assert sentinel("restore", "--from", f"file://{tmp_path / 'two'}", tmp_path / "back").exit_code == 0


def test_restore_refuses_a_directory_that_is_in_use_and_names_what_is_missing(run: SmallRun, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    sentinel("mirror", "push", "--to", f"{mirror},every=10 steps", run.run_dir)
    assert "is not empty" in sentinel("restore", "--from", mirror, run.run_dir).output
    assert "holds no mirror of a run" in sentinel("restore", "--from", tmp_path / "nothing", tmp_path / "back").output
    assert "is no step" in sentinel("restore", "--from", mirror, "--checkpoint", "last", tmp_path / "back").output
    assert "there are: 10" in sentinel("restore", "--from", mirror, "--checkpoint", 7, tmp_path / "back").output
    dry = sentinel("restore", "--from", mirror, "--dry-run", tmp_path / "back")
    assert "the checkpoint of step 10 and 4 files hold" in dry.stdout
    assert not (tmp_path / "back").exists()
    assert not list(tmp_path.glob("*.restoring"))
    done = sentinel("restore", "--from", mirror, "--checkpoint", 10, tmp_path / "back")
    assert done.exit_code == 0
    assert "the mirror ends at fact 3, 20" in done.stdout
    assert find_run_file(tmp_path / "back") == find_run_file(run.run_dir)


def test_a_restore_that_was_cut_off_goes_on(run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sentinel.mirrors import restoring

    mirror = tmp_path / "mirror"
    sentinel("mirror", "push", "--to", f"{mirror},every=10 steps", run.run_dir)

    def dies(*_: object) -> None:
        raise OSError(5, "the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "_take_up", dies)
        assert sentinel("restore", "--from", mirror, tmp_path / "back").exit_code == 1
    assert not (tmp_path / "back").exists()
    kept = tmp_path / "back.restoring" / "checkpoints" / "step-00000010" / "model.bin"
    before = kept.stat().st_ino
    assert sentinel("restore", "--from", mirror, tmp_path / "back").exit_code == 0
    assert (tmp_path / "back" / "checkpoints" / "step-00000010" / "model.bin").stat().st_ino == before, "not fetched again"


def test_a_damaged_journal_is_salvaged_from_the_mirror(run: SmallRun, tmp_path: Path) -> None:
    sentinel("mirror", "push", "--to", tmp_path / "mirror", run.run_dir)
    (run.run_dir / JOURNAL_NAME).write_bytes(b"")
    for name in (f"{JOURNAL_NAME}-wal", f"{JOURNAL_NAME}-shm"):
        (run.run_dir / name).unlink(missing_ok=True)
    done = sentinel("journal", "salvage", "--from", tmp_path / "mirror", run.run_dir)
    assert done.exit_code == 0, done.output
    assert "3 entries of" in done.stdout
    assert "none is lost" in done.stdout
    assert sentinel("journal", "verify", run.run_dir).exit_code == 0
