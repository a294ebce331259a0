import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sentinel.checkpoints import file_check
from sentinel.checkpoints import manifest as manifest_file
from sentinel.checkpoints.files import list_checkpoints
from sentinel.checkpoints.manifest import MANIFEST_BYTES_MAX
from sentinel.checkpoints.quarantine import quarantine_above
from sentinel.checkpoints.verification import verify_checkpoint


def save(run_dir: Path, step: int, attempt: int = 1, name: str | None = None, **fields: object) -> Path:
    """A checkpoint as the bundled trainer writes it: two files, their sizes and digests in the manifest."""
    folder = run_dir / "checkpoints" / (name or f"step-{step:08d}")
    folder.mkdir(parents=True)
    files = {}
    for file in ("__0_0.distcp", ".metadata"):
        data = f"{file} of step {step}".encode()
        (folder / file).write_bytes(data)
        files[file] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {"v": 1, "step": step, "attempt": attempt, "cursor": step * 16, "samples": step * 15, "files": files} | fields
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def link_out(folder: Path, name: str, elsewhere: Path) -> Path:
    """The file moves elsewhere, and a link takes its place."""
    elsewhere.mkdir(parents=True, exist_ok=True)
    (folder / name).rename(elsewhere / name)
    (folder / name).symlink_to(elsewhere / name)
    return folder


def test_a_link_out_of_the_checkpoint_is_damage_though_its_bytes_match(tmp_path: Path) -> None:
    folder = link_out(save(tmp_path, 100), "__0_0.distcp", tmp_path / "elsewhere")
    found = verify_checkpoint(folder)
    assert not found.ok
    assert f"is a link out of the checkpoint, to '{tmp_path}/elsewhere/__0_0.distcp'" in found.reason


def test_a_folder_that_is_a_link_out_of_the_checkpoint_is_damage(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "part").write_bytes(b"x")
    entry = {"bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    folder = save(tmp_path, 100, files={"parts/part": entry})
    (folder / "parts").symlink_to(elsewhere)
    assert "out of the checkpoint" in verify_checkpoint(folder).reason


def test_a_link_within_the_checkpoint_and_checkpoints_behind_a_link_are_fine(tmp_path: Path) -> None:
    folder = link_out(save(tmp_path / "scratch", 100), "__0_0.distcp", tmp_path / "scratch/checkpoints/step-00000100/parts")
    (tmp_path / "checkpoints").symlink_to(tmp_path / "scratch" / "checkpoints")
    assert verify_checkpoint(tmp_path / "checkpoints" / folder.name).ok


# -- which are there ---------------------------------------------------------------------------------------------------


def test_checkpoints_are_listed_by_step_with_cursor_and_digest(tmp_path: Path) -> None:
    save(tmp_path, 200, attempt=2)
    folder = save(tmp_path, 100)
    first, second = list_checkpoints(tmp_path)
    assert (first.step, first.path, first.attempt, first.samples_end) == (100, "checkpoints/step-00000100", 1, 1600)
    assert (second.step, second.attempt) == (200, 2)
    assert first.digest == hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def test_a_run_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert list_checkpoints(tmp_path) == []


def test_what_has_no_manifest_of_its_own_step_is_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1, name=".step-00000001.77.tmp")
    save(tmp_path, 2, name="step-00000003")
    (save(tmp_path, 4) / "manifest.json").unlink()
    (save(tmp_path, 5) / "manifest.json").write_text('{"step": 5')
    (save(tmp_path, 6) / "manifest.json").write_text("[" * 100_000)
    (tmp_path / "checkpoints" / "step-00000007").write_text("a file")
    assert list_checkpoints(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "cursor"),
    [
        ({"samples_end": 7, "cursor": 8}, 7),
        ({"cursor": 8, "samples": 9}, 8),
        ({"cursor": None, "samples": None, "data": {"cursor": 11}}, 11),
        ({"cursor": None, "samples": "many"}, 0),
    ],
)
def test_the_data_cursor_is_found_under_other_names(tmp_path: Path, fields: dict[str, object], cursor: int) -> None:
    save(tmp_path, 5, **fields)
    assert list_checkpoints(tmp_path)[0].samples_end == cursor


# -- is one whole ------------------------------------------------------------------------------------------------------


def test_a_whole_checkpoint_verifies_and_gives_the_manifests_digest(tmp_path: Path) -> None:
    folder = save(tmp_path, 5)
    ok, reason, digest = verify_checkpoint(folder)
    assert ok, reason
    assert digest == list_checkpoints(tmp_path)[0].digest
    assert reason.startswith("2 files, ")


def test_one_flipped_bit_is_found_and_named(tmp_path: Path) -> None:
    folder = save(tmp_path, 5)
    data = bytearray((folder / "__0_0.distcp").read_bytes())
    data[3] ^= 1
    (folder / "__0_0.distcp").write_bytes(data)
    ok, reason, digest = verify_checkpoint(folder)
    assert not ok
    assert f"{folder}/__0_0.distcp: sha256 is" in reason
    assert digest is not None


def test_a_short_file_is_found_by_its_size(tmp_path: Path) -> None:
    folder = save(tmp_path, 5)
    (folder / ".metadata").write_bytes(b"")
    assert "0 bytes, the manifest says" in verify_checkpoint(folder).reason


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    folder = save(tmp_path, 5)
    (folder / ".metadata").unlink()
    assert verify_checkpoint(folder)[:2] == (False, f"{folder}/.metadata: cannot be read (No such file or directory)")


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "lists no files"),
        (None, "is not an object"),
        (["a"], "is not an object"),
        ({"a": 5}, "needs 'bytes' and 'sha256'"),
        ({"a": {"bytes": True, "sha256": "0"}}, "needs 'bytes' and 'sha256'"),
        ({"../../etc/passwd": {"bytes": 1, "sha256": "0"}}, "lies outside the checkpoint"),
        ({"/etc/passwd": {"bytes": 1, "sha256": "0"}}, "lies outside the checkpoint"),
        ({"a\0b": {"bytes": 1, "sha256": "0"}}, "lies outside the checkpoint"),
        ({"a" * 5000: {"bytes": 1, "sha256": "0"}}, "cannot be read (File name too long)"),
        ({"/".join("a" * 5000): {"bytes": 1, "sha256": "0"}}, "cannot be read (File name too long)"),
        ({"\ud800": {"bytes": 1, "sha256": "0"}}, "is no name of a file"),
        ({".": {"bytes": 1, "sha256": "0"}}, "cannot be read (Is a directory)"),
        ({"manifest.json/a": {"bytes": 1, "sha256": "0"}}, "cannot be read (Not a directory)"),
    ],
)
def test_a_manifest_that_proves_nothing_is_refused(tmp_path: Path, files: object, word: str) -> None:
    ok, reason, _ = verify_checkpoint(save(tmp_path, 5, files=files))
    assert not ok
    assert word in reason
    assert len(reason) < 1000


def test_a_manifest_that_is_too_large_is_refused_by_its_size(tmp_path: Path) -> None:
    folder = save(tmp_path, 5)
    os.truncate(folder / "manifest.json", MANIFEST_BYTES_MAX + 1)
    ok, reason, digest = verify_checkpoint(folder)
    assert (ok, digest) == (False, None)
    assert f"{folder / 'manifest.json'}: is not a manifest ({MANIFEST_BYTES_MAX + 1} bytes, " in reason
    assert list_checkpoints(tmp_path) == []


def test_a_checkpoint_under_another_steps_name_is_refused(tmp_path: Path) -> None:
    assert not verify_checkpoint(save(tmp_path, 5, name="step-00000006")).ok


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"\xff"])
def test_no_readable_manifest_is_a_reason_and_no_exception(tmp_path: Path, content: bytes | None) -> None:
    folder = save(tmp_path, 5)
    (folder / "manifest.json").unlink()
    if content is not None:
        (folder / "manifest.json").write_bytes(content)
    ok, reason, digest = verify_checkpoint(folder)
    assert (ok, digest) == (False, None)
    assert str(folder / "manifest.json") in reason


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EMFILE, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("file", ["manifest.json", "__0_0.distcp"])
def test_what_cannot_be_read_now_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, number: int) -> None:
    folder = save(tmp_path, 5)

    def fails(path: Path, mode: str, **how: Any) -> BinaryIO:
        if path.name == file:
            raise OSError(number, os.strerror(number), str(path))
        return open(path, "rb")

    for module in (file_check, manifest_file):
        monkeypatch.setattr(module, "open", fails, raising=False)
    with pytest.raises(OSError, match=r"manifest|distcp"):
        verify_checkpoint(folder)


def test_a_good_checkpoint_is_not_moved_aside_because_it_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 5)

    def stale(path: Path) -> None:
        raise OSError(errno.ESTALE, "Stale file handle", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", stale)
        with pytest.raises(OSError, match="Stale"):
            quarantine_above(tmp_path, 5, attempt=2)
    assert names(tmp_path / "checkpoints") == ["step-00000005"]


# -- moving aside ------------------------------------------------------------------------------------------------------


def test_checkpoints_above_the_step_and_unfinished_saves_are_moved_and_the_rest_stays(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        save(tmp_path, step)
    save(tmp_path, 400, name=".step-00000400.77.ab.tmp")
    (tmp_path / "checkpoints" / "step-00000150").mkdir()
    moved = quarantine_above(tmp_path, 200, attempt=3)
    assert names(tmp_path / "checkpoints") == ["step-00000100", "step-00000200"]
    assert names(tmp_path / "quarantine" / "attempt-0003") == [".step-00000400.77.ab.tmp", "step-00000150", "step-00000300"]
    assert ("checkpoints/step-00000300", "quarantine/attempt-0003/step-00000300") in moved
    assert len(moved) == 3


def test_nothing_is_lost_on_the_way(tmp_path: Path) -> None:
    folder = save(tmp_path, 300)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    quarantine_above(tmp_path, 0, attempt=1)
    target = tmp_path / "quarantine" / "attempt-0001" / "step-00000300"
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before


def test_doing_it_twice_moves_nothing_more(tmp_path: Path) -> None:
    save(tmp_path, 300)
    assert len(quarantine_above(tmp_path, 200, attempt=3)) == 1
    assert quarantine_above(tmp_path, 200, attempt=3) == ()


def test_a_run_without_checkpoints_needs_no_quarantine(tmp_path: Path) -> None:
    assert quarantine_above(tmp_path, 0, attempt=1) == ()
    assert names(tmp_path) == []


def test_checkpoints_on_another_filesystem_are_moved_aside_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """checkpoints/ is a link to a scratch disk: nothing can be renamed out of it."""
    scratch = tmp_path / "scratch"
    for step in (100, 200, 300):
        save(scratch, step)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(scratch / "checkpoints")
    rename = os.rename

    def across(source: Path, target: Path) -> None:
        if Path(source).resolve().is_relative_to(scratch) is not Path(target).resolve().is_relative_to(scratch):
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", across)
    for above in (200, 100):
        (moved,) = quarantine_above(tmp_path / "run", above, attempt=3)
    assert moved.target == "checkpoints/.quarantine/attempt-0003/step-00000200"
    assert names(scratch / "checkpoints" / ".quarantine" / "attempt-0003") == ["step-00000200", "step-00000300"]
    assert [found.step for found in list_checkpoints(tmp_path / "run")] == [100]
    assert quarantine_above(tmp_path / "run", 100, attempt=3) == ()


def test_a_name_already_taken_gets_a_number(tmp_path: Path) -> None:
    for _ in range(3):
        save(tmp_path, 300)
        quarantine_above(tmp_path, 200, attempt=3)
    expected = ["step-00000300", "step-00000300.2", "step-00000300.3"]
    assert names(tmp_path / "quarantine" / "attempt-0003") == expected


def test_an_empty_directory_in_quarantine_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "quarantine" / "attempt-0003" / "step-00000300").mkdir(parents=True)
    save(tmp_path, 300)
    (moved,) = quarantine_above(tmp_path, 200, attempt=3)
    assert moved.target == "quarantine/attempt-0003/step-00000300.2"


def test_a_checkpoint_below_with_a_damaged_manifest_stays_for_verification_to_refuse(tmp_path: Path) -> None:
    (save(tmp_path, 100) / "manifest.json").write_bytes(b"{")
    assert quarantine_above(tmp_path, 200, attempt=3) == ()


@pytest.mark.parametrize(
    "name",
    [
        ".step-00000400.77.ab.tmp", ".step-00000400.tmp-77", "step-00000400.tmp", "step-00000400.partial", "tmp-checkpoint-400",
        "400.orbax-checkpoint-tmp-17", "global_step400_tmp", "partial-400", ".tmp_400",
    ],
)  # fmt: skip
def test_an_unfinished_save_of_any_known_trainer_is_moved(tmp_path: Path, name: str) -> None:
    save(tmp_path, 400, name=name)
    assert [moved.source for moved in quarantine_above(tmp_path, 500, attempt=3)] == [f"checkpoints/{name}"]


@pytest.mark.parametrize(
    "name", [".snapshot", ".git", ".nfs0001", "templates", "attempts", "attempt-3", "temperature", "partially-frozen", "tmp"]
)
def test_a_folder_that_is_no_save_stays_whatever_its_letters(tmp_path: Path, name: str) -> None:
    (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert quarantine_above(tmp_path, 0, attempt=3) == ()


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EPERM, errno.EACCES, errno.EROFS, errno.EXDEV])
def test_an_unfinished_save_that_cannot_be_moved_is_passed_over_and_a_checkpoint_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    aside = save(tmp_path, 400, name=".step-00000400.77.ab.tmp")
    save(tmp_path, 300)
    rename, stuck, said = os.rename, {aside.name}, list[str]()

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name in stuck:
            raise OSError(number, os.strerror(number), str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    (moved,) = quarantine_above(tmp_path, 200, attempt=3, passed_over=said.append)
    assert moved.source == "checkpoints/step-00000300"
    assert said == [f"checkpoints/{aside.name} stays, for it cannot be moved: {os.strerror(number)}"]
    stuck.add("step-00000301")
    save(tmp_path, 301)
    with pytest.raises(OSError, match=os.strerror(number)):
        quarantine_above(tmp_path, 200, attempt=3)


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "for-the-paper").mkdir(parents=True)
    (tmp_path / "checkpoints" / "latest").write_text("step-00000300")
    save(tmp_path, 300, name="step-00000300-kept-by-hand")
    assert quarantine_above(tmp_path, 0, attempt=1) == ()


def test_a_crash_in_the_middle_is_finished_by_asking_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (300, 400, 500):
        save(tmp_path, step)
    rename, calls = os.rename, []

    def fail_second(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail_second)
        with pytest.raises(OSError, match="Input/output error"):
            quarantine_above(tmp_path, 200, attempt=3)
    assert len(quarantine_above(tmp_path, 200, attempt=3)) == 2
    assert names(tmp_path / "quarantine" / "attempt-0003") == ["step-00000300", "step-00000400", "step-00000500"]


def test_a_link_that_leads_in_a_circle_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    save(tmp_path, 100)
    loop = tmp_path / "checkpoints/step-00000200"
    loop.symlink_to(loop)
    assert [found.step for found in list_checkpoints(tmp_path)] == [100]
