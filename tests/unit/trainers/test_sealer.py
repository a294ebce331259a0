"""What the follower knows of a save that is under way."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from sentinel.client.file_digest import SHA256, TREE
from sentinel.client.run_layout import spec_path
from sentinel.client.stream import Stream
from sentinel.telemetry.follower_remarks import FollowerRemarks
from sentinel.trainers import sealing
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.loading import load_profile
from sentinel.trainers.profile import CheckpointFiles
from sentinel.trainers.remarks import FollowerNotes
from sentinel.trainers.sealer import Sealer
from sentinel.trainers.spec import TrainerSpec, read_trainer_spec
from sentinel.trainers.start import prepare
from tests.integration.supervised import wait_for

PROFILE = """\
apiVersion: sentinel/v1
kind: TrainerProfile
metadata: {name: mine, description: a loop of our own}
spec:
  metrics: {from: output, format: text}
  checkpoints: {root: [--out], pattern: "save-{step}"}
  resume: {arguments: [--resume, "{step}"]}
"""


def test_a_save_is_under_way_until_a_later_step_comes_and_those_of_before_the_run_are_none(tmp_path: Path) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "ck"
    run_dir.mkdir()
    (root / "iter_0000900").mkdir(parents=True)
    (root / "iter_0000900" / "state").write_text("of another run")
    (root / "latest_checkpointed_iteration.txt").write_text("900")
    spec = TrainerSpec(load_profile(f"megatron:root={root}"), ("train",), {}, "/", root, {}, None, True)
    prepare(run_dir, 1, spec)
    sealer, stream = Sealer(run_dir, 1, spec, FollowerNotes(run_dir, 1)), Stream(tmp_path / "metrics.jsonl", 1)
    sealer.turn(stream, None, 1e9)
    assert not sealer.has_saved(0)
    (root / "iter_0000020").mkdir()  # begun, and not whole
    sealer.turn(stream, None, 2e9)
    assert sealer.has_saved(20)
    assert not sealer.has_saved(21), "a step has come since"
    assert not sealer.has_saved(900)


def test_what_is_whole_and_waits_for_its_seal_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir, root, may_go_on = tmp_path / "run", tmp_path / "ck", threading.Event()
    run_dir.mkdir()
    for step, is_whole in ((20, True), (40, False)):
        (root / f"iter_{step:07d}").mkdir(parents=True)
        (root / f"iter_{step:07d}" / "state").write_text("weights")
        if is_whole:
            (root / "latest_checkpointed_iteration.txt").write_text(str(step))
    spec = TrainerSpec(load_profile(f"megatron:root={root}"), ("train",), {}, "/", root, {}, None, True)
    sealer, stream = Sealer(run_dir, 1, spec, FollowerNotes(run_dir, 1)), Stream(tmp_path / "metrics.jsonl", 1)
    receipt = {"resume_step": 0, "resume_digest": None, "world_size": 1, "params": 0, "tokens_per_step": None}
    stream.start(**receipt, effective={}, overrides={})
    monkeypatch.setattr(sealing, "_digest", lambda *_: may_go_on.wait() and "0" * 64)

    def told() -> list[tuple[str, int]]:
        sealer.turn(stream, 0, 1e12)
        lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        return [(line["event"], line["step"]) for line in lines if "event" in line]

    wait_for("the first to be sealed", lambda: bool(told()))
    for _ in range(3):
        assert told() == [("checkpoint_found", 20)], "and the one that its tracker does not name is not whole"
    may_go_on.set()
    wait_for("its seal", lambda: ("checkpoint_committed", 20) in told())
    assert told().count(("checkpoint_found", 20)) == 1


def test_one_that_cannot_be_looked_at_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "ck"
    run_dir.mkdir()
    (root / "iter_0000020").mkdir(parents=True)
    os.mkfifo(root / "iter_0000020" / "pipe")
    spec = TrainerSpec(load_profile(f"megatron:root={root}"), ("train",), {}, "/", root, {}, None, True)
    sealer = Sealer(run_dir, 1, spec, FollowerNotes(run_dir, 1))
    stream = Stream(tmp_path / "metrics.jsonl", 1)
    for now_s in (1e9, 2e9):
        sealer.turn(stream, None, now_s)
    assert capfd.readouterr().err.count("iter_0000020: cannot be looked at, so it is not sealed") == 1


def test_one_whose_file_stays_cut_off_is_told_once_it_is_old(tmp_path: Path) -> None:
    torn = tmp_path / "checkpoint-20" / "model.safetensors"
    torn.parent.mkdir()
    torn.write_bytes(b"\xff" * 5)
    plain = CheckpointFiles(pattern="checkpoint-{step}", path="out")
    (found,) = find_checkpoints(plain, tmp_path)
    written_s = torn.stat().st_mtime
    assert found.why_torn(written_s + 59.0) == "", "it may still be written"
    assert found.why_torn(written_s + 61.0).startswith(f"{torn}: is cut off")
    marked = CheckpointFiles(pattern="checkpoint-{step}", path="out", complete=("model.safetensors",))
    (found,) = find_checkpoints(marked, tmp_path)
    assert found.why_torn(1e12).startswith(f"{torn}: is cut off"), "whatever tells it complete"


def test_one_that_lacks_for_long_what_tells_it_whole_is_told(tmp_path: Path) -> None:
    """Half of a checkpoint, which its pattern matches: it is never sealed, and nothing would say why."""
    part = tmp_path / "checkpoint-20" / "model.bin"
    part.parent.mkdir()
    part.write_bytes(b"half")
    marked = CheckpointFiles(pattern="checkpoint-{step}", path="out", complete=("trainer_state.json",))
    (found,) = find_checkpoints(marked, tmp_path)
    written_s = part.stat().st_mtime
    assert found.why_torn(written_s + 599.0) == "", "it may still be written"
    said = f"{part.parent}: what tells it whole has not come (trainer_state.json), so it is not sealed"
    assert found.why_torn(written_s + 601.0) == said


def test_a_tracker_that_names_a_step_of_which_nothing_lies_there_is_told(tmp_path: Path) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "ck"
    (run_dir / "attempts" / "0001").mkdir(parents=True)
    (root / "iter_0000020").mkdir(parents=True)
    (root / "latest_checkpointed_iteration.txt").write_text("40")
    spec = TrainerSpec(load_profile(f"megatron:root={root}"), ("train",), {}, "/", root, {}, None, True)
    sealer, stream = Sealer(run_dir, 1, spec, FollowerNotes(run_dir, 1)), Stream(tmp_path / "metrics.jsonl", 1)
    for now_s in (1e9, 2e9):
        sealer.turn(stream, None, now_s)
    sealer.finish(stream, None)
    (said,) = FollowerRemarks(run_dir, 1).poll()
    tracker = root / "latest_checkpointed_iteration.txt"
    assert said.reason == f"{tracker} names step 40, and no iter_{{step:07d}} of that step lies under {root}"


def test_the_sealer_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_dir, root, mine = tmp_path / "run", tmp_path / "ck", tmp_path / "mine.yaml"
    run_dir.mkdir()
    mine.write_text(PROFILE)
    (root / "save-20").mkdir(parents=True)
    (root / "save-20" / "model.safetensors").write_bytes(b"\xff" * 5)
    spec = TrainerSpec(load_profile(f"{mine}:root={root}"), ("train",), {}, "/", root, {}, None, True)
    sealer = Sealer(run_dir, 1, spec, FollowerNotes(run_dir, 1))
    os.utime(root / "save-20" / "model.safetensors", (1000.0, 1000.0))
    stream = Stream(tmp_path / "metrics.jsonl", 1)
    said: list[str] = []

    def turn() -> bool:
        sealer.turn(stream, None, 1e12)
        said.append(capfd.readouterr().err)
        return any(said)

    wait_for("word of it", turn)
    for _ in range(3):
        turn()
    assert "".join(said).count("save-20/model.safetensors: is cut off, or nothing of its kind; so its checkpoint is not") == 1


@pytest.mark.parametrize(("says", "algorithm"), [({}, SHA256), ({"reads_digests": ["sha256", "sha256_tree"]}, TREE)])
def test_it_seals_with_the_digest_that_the_supervisor_of_its_attempt_reads(
    tmp_path: Path, says: dict[str, list[str]], algorithm: str
) -> None:
    """An older supervisor, which says nothing, reads sha256 alone."""
    run_dir, root = tmp_path / "run", tmp_path / "ck"
    run_dir.mkdir()
    (root / "iter_0000020").mkdir(parents=True)
    (root / "iter_0000020" / "state").write_text("weights")
    (root / "latest_checkpointed_iteration.txt").write_text("20")
    spec = TrainerSpec(load_profile(f"megatron:root={root}"), ("train",), {}, "/", root, {}, None, True)
    spec_path(run_dir, 1).parent.mkdir(parents=True)
    spec_path(run_dir, 1).write_text(json.dumps({"cwd": "/", "resume": None, "trainer": spec.to_json()} | says))
    read = read_trainer_spec(run_dir, 1)
    assert read is not None
    sealer = Sealer(run_dir, 1, read, FollowerNotes(run_dir, 1))
    sealer._seal(read.profile.spec.checkpoints, find_checkpoints(read.profile.spec.checkpoints, root), frozenset())
    manifest = json.loads((run_dir / "checkpoints" / "step-00000020" / "manifest.json").read_text())
    assert {name for entry in manifest["files"].values() for name in entry} == {"bytes", algorithm}
