"""Which checkpoints of a trainer are complete, what is kept of them, and that a rollback finds them as they were."""

from __future__ import annotations

import errno
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import save_file

from sentinel.checkpoints.files import list_checkpoints
from sentinel.checkpoints.manifest import listed_files, read_manifest
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.client.file_digest import RANGE_BYTES, SHA256, TREE, count_ranges, digest_of
from sentinel.trainers.found import FoundCheckpoint, find_checkpoints
from sentinel.trainers.loading import load_profile
from sentinel.trainers.pickled_step import read_step_key
from sentinel.trainers.profile import CheckpointFiles, TrackerFile
from sentinel.trainers.sealing import drop_old, move_aside, put_back, seal_new, sealed_path
from sentinel.trainers.whole import missing_metadata

FOLDERS = CheckpointFiles(pattern="checkpoint-{step}", path="out", complete=("trainer_state.json",), keep=2, keep_steps=30)
TRACKED = CheckpointFiles(pattern="iter_{step:07d}", path="out", tracker=TrackerFile(file="latest", text="step{step}"))
FAR_S = float("inf")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def write(root: Path, step: int, text: str = "weights", name: str = "checkpoint-{}") -> Path:
    folder = root / name.format(step)
    (folder / "rng").mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_text(f"{text} {step}")
    (folder / "rng" / "0.pth").write_text("rng")
    (folder / "trainer_state.json").write_text("{}")
    return folder


def seal(run_dir: Path, places: CheckpointFiles, root: Path, wall_s: float = FAR_S) -> list[tuple[int, str]]:
    there = find_checkpoints(places, root)
    return [(one.step, one.how) for one in seal_new(run_dir, places, there, 1, wall_s=lambda: wall_s)]


def test_what_is_complete_is_sealed_once_with_a_digest_of_every_byte(run_dir: Path, root: Path) -> None:
    write(root, 20)
    write(root, 100)
    (write(root, 120) / "trainer_state.json").unlink()  # still being written
    assert seal(run_dir, FOLDERS, root) == [(20, "link"), (100, "link")]
    assert seal(run_dir, FOLDERS, root) == []
    assert [found.step for found in list_checkpoints(run_dir)] == [20, 100]
    assert verify_checkpoint(sealed_path(run_dir, 100)).ok
    assert os.stat(root / "checkpoint-100" / "model.bin").st_nlink == 2, "nothing was copied"


def test_a_link_that_leads_in_a_circle_holds_nothing(run_dir: Path, root: Path) -> None:
    (write(root, 20) / "loop").symlink_to("loop")
    write(root, 40)
    assert seal(run_dir, FOLDERS, root) == [(20, "link"), (40, "link")]
    assert verify_checkpoint(sealed_path(run_dir, 20)).ok


def test_a_checkpoint_that_cannot_be_looked_at_keeps_no_other_from_being_sealed(run_dir: Path, root: Path) -> None:
    os.mkfifo(write(root, 20) / "pipe")
    write(root, 40)
    assert seal(run_dir, FOLDERS, root) == [(40, "link")]
    first, second = find_checkpoints(FOLDERS, root)
    assert f"{first.path}: cannot be looked at, so it is not sealed: " in first.trouble
    assert "is a FIFO, not a regular file" in first.trouble
    assert not first.is_complete(FOLDERS, FAR_S)
    assert (second.step, second.trouble) == (40, "")


def test_one_that_cannot_be_sealed_is_told_when_the_others_are(
    run_dir: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: Path, target: Path, **_: object) -> None:
        if "checkpoint-20" in str(source):
            raise OSError(errno.EIO, "Input/output error", str(source))
        os_link(source, target)

    os_link = os.link
    monkeypatch.setattr("sentinel.trainers.sealing.os.link", link)
    for step in (20, 40):
        write(root, step)
    sealing = seal_new(run_dir, FOLDERS, find_checkpoints(FOLDERS, root), 1, wall_s=lambda: FAR_S)
    assert next(sealing).step == 40
    with pytest.raises(OSError, match="checkpoint-20"):
        next(sealing)


def test_a_file_that_is_written_over_is_copied_and_stays_what_it_was(run_dir: Path, root: Path) -> None:
    places = FOLDERS.model_copy(update={"files": "rewritten"})
    model = write(root, 20) / "model.bin"
    ((_, how),) = seal(run_dir, places, root)
    assert how in ("copy", "reflink")
    with model.open("r+") as file:
        file.write("WEIGHTS")
    assert verify_checkpoint(sealed_path(run_dir, 20)).ok
    assert seal(run_dir, places, root) == [(20, how)], "it is another checkpoint of the same step now"


def test_damage_behind_a_hard_link_is_found(run_dir: Path, root: Path) -> None:
    model = write(root, 20) / "model.bin"
    seal(run_dir, FOLDERS, root)
    model.write_text("weight! 20")
    checked = verify_checkpoint(sealed_path(run_dir, 20))
    assert not checked.ok
    assert "sha256" in checked.reason


def test_the_tracker_says_what_is_done(run_dir: Path, root: Path) -> None:
    for step in (20, 40, 60):
        write(root, step, name="iter_{:07d}")
    assert seal(run_dir, TRACKED, root) == [], "without a tracker nothing is known to be whole"
    (root / "latest").write_text("step40\n")
    assert [step for step, _ in seal(run_dir, TRACKED, root)] == [20, 40]
    (root / "latest").write_text("release")
    assert [found.missing for found in find_checkpoints(TRACKED, root)] == [("latest",)] * 3


def test_without_a_file_that_tells_it_must_have_settled(run_dir: Path, root: Path) -> None:
    places = CheckpointFiles(pattern="**/*step={step}*.ckpt", path="out")
    deep = root / "version_0" / "checkpoints"
    deep.mkdir(parents=True)
    (deep / "epoch=0-step=40.ckpt").write_text("x")
    os.utime(deep / "epoch=0-step=40.ckpt", (1000.0, 1000.0))
    (deep / "epoch=0-step=60-v1.ckpt").write_text("")
    (deep / "last.ckpt").symlink_to("epoch=0-step=40.ckpt")
    assert seal(run_dir, places, root, 1001.0) == []
    assert [step for step, _ in seal(run_dir, places, root, 1003.0)] == [40], "and an empty file is no checkpoint"


ONE_FILE = CheckpointFiles(pattern="model-{step}*", path="out")


def saved(path: Path, end: int | None = None) -> None:
    """A checkpoint of that name as its library writes it; `end`: cut off there."""
    if path.suffix == ".safetensors":
        save_file({"w": torch.ones(100), "b": torch.zeros(3)}, path)
    else:
        torch.save({"w": torch.ones(100)}, path)
    data = path.read_bytes()
    path.write_bytes(data[:end])
    os.utime(path, (1000.0, 1000.0))


@pytest.mark.parametrize("name", ["model-40.pt", "model-40.safetensors"])
def test_a_file_whose_form_shows_that_it_is_whole_need_not_settle_and_one_cut_off_never_does(
    run_dir: Path, root: Path, name: str
) -> None:
    for end in (-1, -30, 200, 10):
        saved(root / name, end)
        assert seal(run_dir, ONE_FILE, root) == [], end
    saved(root / name)
    assert seal(run_dir, ONE_FILE, root, 1000.5) == [(40, "link")]


def test_a_zip_of_another_kind_and_an_older_file_of_torch_must_settle(run_dir: Path, root: Path) -> None:
    numpy.savez_compressed(root / "model-40.npz", w=numpy.zeros(1000))
    torch.save({"w": torch.ones(100)}, root / "model-60.pt", _use_new_zipfile_serialization=False)
    for path in root.iterdir():
        os.utime(path, (1000.0, 1000.0))
    assert seal(run_dir, ONE_FILE, root, 1000.5) == []
    assert [step for step, _ in seal(run_dir, ONE_FILE, root, 1003.0)] == [40, 60]


def test_a_folder_of_distributed_checkpoint_is_whole_with_its_metadata_and_others_are_not_known(
    run_dir: Path, root: Path
) -> None:
    places = CheckpointFiles(pattern="step-{step}", path="out")
    for step, names in ((10, ("__0_0.distcp",)), (20, ("__0_0.distcp", ".metadata")), (30, (".metadata", "extra.json"))):
        (root / f"step-{step}").mkdir()
        for name in names:
            (root / f"step-{step}" / name).write_text("x")
            os.utime(root / f"step-{step}" / name, (1000.0, 1000.0))
    assert seal(run_dir, places, root, 1000.5) == [(20, "link")]
    saved(root / "step-30" / "optimizer.pt", 300)
    assert seal(run_dir, places, root) == [], "nobody can load the first, however long ago it was written; the last is cut off"
    (unwhole, *_) = find_checkpoints(places, root)
    assert "what tells it whole has not come (.metadata)" in unwhole.why_torn(FAR_S)
    (root / "step-10" / ".metadata").write_text("x")
    assert [step for step, _ in seal(run_dir, places, root)] == [10]


@pytest.mark.parametrize("how", [{"whole_at_once": True}, {"complete": ("meta.pt",)}, {"tracker": TRACKED.tracker}])
def test_shards_without_their_metadata_are_whole_under_no_profile(run_dir: Path, root: Path, how: dict[str, object]) -> None:
    """Lightning's sharded strategies write a folder in place, under a profile whose files appear at once."""
    places = CheckpointFiles(pattern="step={step}.ckpt", path="out", **how)
    folder = root / "step=20.ckpt"
    for below in ("", "optimizer"):
        (folder / below).mkdir()
        (folder / below / "__0_0.distcp").write_text("x")
    (folder / "meta.pt").write_text("x")
    (folder / ".metadata").write_text("x")
    (root / "latest").write_text("step20")
    assert seal(run_dir, places, root) == []
    (folder / "optimizer" / ".metadata").write_text("x")
    assert [step for step, _ in seal(run_dir, places, root)] == [20]


@pytest.mark.parametrize("how", [{"whole_at_once": True}, {"complete": ("mark",)}, {"tracker": TRACKED.tracker}])
@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_one_with_a_file_that_is_cut_off_is_sealed_under_no_profile(
    run_dir: Path, root: Path, name: str, how: dict[str, object]
) -> None:
    """A rename from another filesystem is a copy, which a kill cuts off; a mark of an earlier save lies there already."""
    places = CheckpointFiles(pattern="step={step}.ckpt", path="out", **how)
    folder = root / "step=20.ckpt"
    folder.mkdir()
    saved(folder / name, -30)
    (folder / "mark").write_text("x")
    (root / "latest").write_text("step20")
    assert seal(run_dir, places, root) == []
    (found,) = find_checkpoints(places, root)
    assert found.why_torn(FAR_S).startswith(f"{folder / name}: is cut off")
    saved(folder / name)
    assert [step for step, _ in seal(run_dir, places, root)] == [20]


@pytest.mark.parametrize("mark", ["step-20/mark", "latest"])
def test_a_mark_of_an_earlier_save_into_the_same_place_says_nothing(root: Path, mark: str) -> None:
    how: dict[str, object] = {"tracker": TRACKED.tracker} if mark == "latest" else {"complete": ("mark",)}
    places = CheckpointFiles(pattern="step-{step}", path="out", **how)
    (root / "step-20").mkdir()

    def is_complete(at_s: float, *, model_s: float, mark_s: float) -> bool:
        for name, text, written_s in (("step-20/model.bin", "weights", model_s), (mark, "step20", mark_s)):
            (root / name).write_text(text)
            os.utime(root / name, (written_s, written_s))
        (found,) = find_checkpoints(places, root)
        return found.is_complete(places, at_s)

    assert is_complete(5000.0, model_s=5000.0, mark_s=5000.0), "the mark is written last"
    assert is_complete(6000.0, model_s=5000.0, mark_s=6000.0)
    assert not is_complete(5002.9, model_s=5001.0, mark_s=5000.0), "another rank may still be at it"
    assert is_complete(5003.1, model_s=5001.0, mark_s=5000.0)
    assert not is_complete(5599.0, model_s=5000.0, mark_s=1000.0), "begun over an older one"
    assert is_complete(5601.0, model_s=5000.0, mark_s=1000.0), "copied, and its times with it"


def test_a_file_of_safetensors_with_values_of_a_kind_that_is_not_known_is_whole(run_dir: Path, root: Path) -> None:
    header = json.dumps({"w": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]}}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(8)
    (root / "model-40.safetensors").write_bytes(data[:-1])
    assert seal(run_dir, ONE_FILE, root) == []
    (root / "model-40.safetensors").write_bytes(data)
    assert [step for step, _ in seal(run_dir, ONE_FILE, root)] == [40]


def test_many_other_files_beside_the_checkpoints_do_not_hide_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is not seen to have saved would be started from the beginning, over what it has saved."""
    monkeypatch.setattr("sentinel.trainers.found.ENTRIES_MAX", 10)
    for number in range(12):
        (root / f"a{number}").touch()
    write(root, 20)
    assert [found.step for found in find_checkpoints(FOLDERS, root)] == [20]
    deep = FOLDERS.model_copy(update={"pattern": "**/checkpoint-{step}"})
    with pytest.raises(OSError, match=r"more than 10 entries, among which .* name the folder of the checkpoints alone"):
        find_checkpoints(deep, root)


@pytest.mark.parametrize("damage", ["deflate", "encrypted"])
def test_a_damaged_archive_has_no_step_and_stops_nobody(root: Path, damage: str) -> None:
    path = root / "ckpt.pt"
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({"iter_num": 5}, 2) * 100)
    data = bytearray(path.read_bytes())
    if damage == "encrypted":
        data[6] |= 1
        data[data.find(b"PK\x01\x02") + 8] |= 1
    else:
        begin = data.find(b"data.pkl") + 10
        data[begin : begin + 10] = b"\xff" * 10
    path.write_bytes(data)
    assert read_step_key(path, "iter_num") is None


@pytest.mark.parametrize("step", [-1, 2**70])
def test_a_number_that_no_step_can_be_is_none(root: Path, step: int) -> None:
    assert read_step_key(save(root / "ckpt.pt", {"iter_num": step}), "iter_num") is None


def test_ranks_that_save_without_each_other_have_a_metadata_each() -> None:
    shards = ["__0_0.distcp", "__0_1.distcp", "__1_0.distcp", "__0.metadata"]
    assert missing_metadata(shards) == (".metadata",)
    assert missing_metadata([*shards, "__1.metadata"]) == ()
    assert missing_metadata([f"model/{name}" for name in shards]) == ("model/.metadata",)
    assert missing_metadata(["model.safetensors", ".metadata"]) == ()


def test_one_that_is_deleted_comes_back_as_it_was(run_dir: Path, root: Path) -> None:
    folder = write(root, 20)
    seal(run_dir, FOLDERS, root)
    before = sorted((path.name, path.read_bytes()) for path in folder.rglob("*") if path.is_file())
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    assert put_back(run_dir, FOLDERS, 20) == folder
    assert sorted((path.name, path.read_bytes()) for path in folder.rglob("*") if path.is_file()) == before
    assert seal(run_dir, FOLDERS, root) == [], "it is known again"


def test_another_in_its_place_is_moved_aside_and_not_lost(run_dir: Path, root: Path) -> None:
    write(root, 20)
    places = FOLDERS.model_copy(update={"files": "rewritten"})
    seal(run_dir, places, root)
    write(root, 20, "other weights")
    put_back(run_dir, places, 20)
    assert (root / "checkpoint-20" / "model.bin").read_text() == "weights 20"
    (aside,) = root.glob(".sentinel-aside/*/checkpoint-20/model.bin")
    assert aside.read_text() == "other weights 20"
    assert [found.step for found in find_checkpoints(places, root)] == [20], "what is aside is not found again"


def test_only_what_the_trainer_deleted_and_newer_ones_replace_is_let_go(run_dir: Path, root: Path) -> None:
    for step in (20, 40, 60, 80):
        write(root, step)
    seal(run_dir, FOLDERS, root)
    assert drop_old(run_dir, FOLDERS, find_checkpoints(FOLDERS, root)) == []
    for step in (20, 60, 80):
        move_aside(root / f"checkpoint-{step}", root, "gone")
    far = FOLDERS.model_copy(update={"keep_steps": 500})
    assert drop_old(run_dir, far, find_checkpoints(far, root)) == [], "a fault is found late"
    assert drop_old(run_dir, FOLDERS, find_checkpoints(FOLDERS, root)) == [20], "40 is still there, 60 and 80 are the newest"


def test_checkpoints_of_another_run_are_not_sealed(run_dir: Path, root: Path) -> None:
    write(root, 20)
    there = find_checkpoints(FOLDERS, root)
    assert list(seal_new(run_dir, FOLDERS, there, 1, {found.key for found in there})) == []


def save(path: Path, value: object, *, is_cut: bool = False) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ckpt/data.pkl", pickle.dumps(value, protocol=2))
    if is_cut:
        path.write_bytes(path.read_bytes()[:-30])
    return path


def test_the_step_of_a_file_is_read_without_loading_it(tmp_path: Path) -> None:
    value = {"model": {"iter_num": "no"}, "iter_num": 70_000, "best": 1.0}
    assert read_step_key(save(tmp_path / "a", value), "iter_num") == 70_000
    assert read_step_key(save(tmp_path / "b", value, is_cut=True), "iter_num") is None, "it is being written"
    assert read_step_key(save(tmp_path / "c", {"step": True}), "step") is None
    assert read_step_key(save(tmp_path / "d", [1]), "iter_num") is None
    (tmp_path / "e").write_bytes(b"PK\x03\x04")
    assert read_step_key(tmp_path / "e", "iter_num") is None


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/never",)


def test_checkpoints_of_lightning_without_a_step_in_their_names_are_known_by_what_they_hold(root: Path) -> None:
    for step in (20, 40):
        state = {"epoch": 0, "global_step": step, "state_dict": {"w": torch.zeros(2)}, "loops": {"fit_loop": {"global_step": 7}}}
        (root / "version_0").mkdir(exist_ok=True)
        torch.save(state, root / "version_0" / f"epoch=0-val_loss=0.{step}.ckpt")
    asked = load_profile("lightning:pattern=**/*.ckpt,step_key=global_step").spec.checkpoints
    assert asked is not None
    assert [one.step for one in find_checkpoints(asked, root)] == [20, 40]
    usual = load_profile("lightning").spec.checkpoints
    assert usual is not None
    assert (usual.pattern, usual.step_key) == ("**/*step={step}*.ckpt", None)
    assert find_checkpoints(usual, root) == []


def test_nothing_in_such_a_file_is_run(tmp_path: Path) -> None:
    path = save(tmp_path / "a", {"evil": Bomb(), "iter_num": 7})
    assert read_step_key(path, "iter_num") == 7
    assert not Path("/tmp/never").exists()


def test_of_two_with_the_same_step_the_newest_counts(root: Path) -> None:
    places = CheckpointFiles(pattern="**/step={step}*.ckpt", path="out")
    for number, version in enumerate(("version_1", "version_0")):
        (root / version).mkdir()
        path = root / version / "step=20.ckpt"
        path.write_text(version)
        os.utime(path, (1000.0 + number, 1000.0 + number))
    found: list[FoundCheckpoint] = find_checkpoints(places, root)
    assert [one.path.parent.name for one in found] == ["version_0"]


def test_a_checkpoint_that_lies_elsewhere_behind_a_link_is_sealed_and_put_back(run_dir: Path, root: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    write(tmp_path / "scratch", 20)
    (root / "checkpoint-20").symlink_to(tmp_path / "scratch" / "checkpoint-20")
    (root / "checkpoint-40").symlink_to(write(root, 50))
    assert [step for step, _ in seal(run_dir, FOLDERS, root)] == [20, 50], "a link to another one beside it is none"
    (root / "checkpoint-20").unlink()
    assert (put_back(run_dir, FOLDERS, 20) / "model.bin").read_text() == "weights 20"


def test_a_link_that_leads_nowhere_hides_no_checkpoint(run_dir: Path, root: Path) -> None:
    (write(root, 20) / "base").symlink_to("/nonexistent/base")
    assert seal(run_dir, FOLDERS, root) == [(20, "link")]
    assert verify_checkpoint(sealed_path(run_dir, 20)).ok


@pytest.mark.parametrize("algorithm", [SHA256, TREE])
def test_a_seal_has_the_digest_that_its_supervisor_reads(run_dir: Path, root: Path, algorithm: str) -> None:
    write(root, 20)
    there = find_checkpoints(FOLDERS, root)
    assert len(list(seal_new(run_dir, FOLDERS, there, 1, wall_s=lambda: FAR_S, algorithm=algorithm))) == 1
    manifest = json.loads((sealed_path(run_dir, 20) / "manifest.json").read_text())
    digest = digest_of(root / "checkpoint-20" / "model.bin", algorithm)
    assert manifest["files"]["files/model.bin"] == {"bytes": 10, algorithm: digest}
    assert verify_checkpoint(sealed_path(run_dir, 20)).ok
    (sealed_path(run_dir, 20) / "files" / "model.bin").write_bytes(b"weightz 20")
    assert not verify_checkpoint(sealed_path(run_dir, 20)).ok


def test_a_seal_is_verified_in_ranges_unless_it_is_asked_for_otherwise(run_dir: Path, root: Path) -> None:
    with open(write(root, 20) / "model.bin", "wb") as file:
        file.truncate(RANGE_BYTES + 5)
    seal(run_dir, FOLDERS, root)
    (manifest, _), ranges = read_manifest(sealed_path(run_dir, 20)), 0
    for listed in listed_files(manifest):
        assert listed.digest.algorithm == TREE
        ranges += count_ranges(listed.size)
    assert ranges == 4  # of which two are of one file
    assert verify_checkpoint(sealed_path(run_dir, 20)).ok
