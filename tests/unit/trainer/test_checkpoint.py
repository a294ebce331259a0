import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sentinel.client import Resume
from trainer import checkpoint
from trainer.checkpoint import writing
from trainer.exits import DataError, LeaseLostError
from trainer.model.gpt import build_model
from trainer.optim import Hyperparameters, ShardedAdamW
from trainer.parallel import shard

DETAILS = {"attempt": 2, "world_size": 1}


class Died(Exception):
    pass


@pytest.fixture
def optimizer(world, config):
    model = shard(build_model(config, 256), world, config)
    optimizer = ShardedAdamW(model, config)
    optimizer.set(Hyperparameters(1e-2, 1.0, 0.1, (0.9, 0.95), 1e-8))
    return optimizer


def save(root, step, world, optimizer, may_commit=lambda: True):
    return writing.write(root, step, world, optimizer.state(), writing.rng_streams(world), DETAILS, may_commit)


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def resume_at(root, step):
    return Resume(step, f"checkpoints/step-{step:08d}", checkpoint.digest_of(root / f"checkpoints/step-{step:08d}/manifest.json"))


def test_what_was_saved_comes_back_bit_for_bit(tmp_path, world, optimizer):
    torch.manual_seed(5)
    for value in optimizer.state().values():
        getattr(value, "_local_tensor", value).normal_()
    optimizer.adopt_count(torch.tensor(7.0))
    saved = {name: getattr(v, "_local_tensor", v).clone() for name, v in optimizer.state().items()}
    digest = save(tmp_path, 8, world, optimizer)
    expected = torch.rand(3)
    optimizer.reset()
    torch.manual_seed(99)
    found, refused = checkpoint.choose_resume(tmp_path, Resume(8, "checkpoints/step-00000008", digest))
    assert (found.step, found.digest, refused) == (8, digest, [])
    state = optimizer.state()
    writing.load(found, world, state)
    optimizer.adopt_count(state["adam.step"])
    assert all(torch.equal(saved[name], getattr(v, "_local_tensor", v)) for name, v in optimizer.state().items())
    assert torch.equal(torch.rand(3), expected)


def test_the_manifest_lists_every_file_with_size_and_digest(tmp_path, world, optimizer):
    save(tmp_path, 8, world, optimizer)
    folder = tmp_path / "checkpoints" / "step-00000008"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["files"]) == {entry.name for entry in folder.iterdir()} - {"manifest.json"}
    assert all((folder / name).stat().st_size == entry["bytes"] for name, entry in manifest["files"].items())
    assert (manifest["step"], manifest["attempt"]) == (8, 2)
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step-00000008"]


def test_a_flipped_bit_is_found_and_the_next_older_is_taken_never_a_newer_one(tmp_path, world, optimizer):
    for step in (4, 8, 12):
        save(tmp_path, step, world, optimizer)
    asked = resume_at(tmp_path, 8)
    flip_a_bit(tmp_path / "checkpoints" / "step-00000008" / "__0_0.distcp")
    found, refused = checkpoint.choose_resume(tmp_path, asked)
    assert found.step == 4
    assert [entry["step"] for entry in refused] == [8]
    assert "__0_0.distcp does not match its digest" in refused[0]["reason"]


def test_no_byte_is_read_twice_where_the_supervisor_has_verified_this_very_manifest(tmp_path, world, optimizer, monkeypatch):
    for step in (4, 8):
        save(tmp_path, step, world, optimizer)
    read = []
    reading = lambda path, algorithm: read.append(path) or checkpoint.digest_of(path, algorithm)  # noqa: E731
    monkeypatch.setattr("trainer.checkpoint.verifying.digest_of", reading)
    asked = resume_at(tmp_path, 8)
    found, refused = checkpoint.choose_resume(tmp_path, replace(asked, verified="remembered"))
    assert (found.step, found.is_vouched, refused, read) == (8, True, [], [])
    found, _ = checkpoint.choose_resume(tmp_path, asked)
    assert (found.step, found.is_vouched, len(read)) == (8, False, len(found.manifest["files"])), "an older one says nothing"
    found, _ = checkpoint.choose_resume(tmp_path, replace(asked, verified="full"), below=8)
    assert (found.step, found.is_vouched) == (4, False), "the word is of one checkpoint alone"


@pytest.mark.parametrize("damage", ["manifest", "missing file", "short file", "unlisted file"])
def test_the_supervisors_word_is_of_the_files_that_its_manifest_lists(tmp_path, world, optimizer, damage):
    save(tmp_path, 4, world, optimizer)
    asked = replace(resume_at(tmp_path, 4), verified="full")
    folder = tmp_path / "checkpoints" / "step-00000004"
    if damage == "manifest":
        (folder / "manifest.json").write_bytes((folder / "manifest.json").read_bytes() + b"\n")
    elif damage == "missing file":
        (folder / ".metadata").unlink()
    elif damage == "short file":
        os.truncate(folder / "__0_0.distcp", 100)
    else:
        (folder / "__9_0.distcp").write_bytes(b"planted")
    with pytest.raises(DataError, match=r"no checkpoint .* can be trusted"):
        checkpoint.choose_resume(tmp_path, asked)


@pytest.mark.parametrize("damage", ["manifest", "missing manifest", "missing file", "short file", "other digest"])
def test_every_kind_of_damage_is_refused(tmp_path, world, optimizer, damage):
    save(tmp_path, 4, world, optimizer)
    asked = resume_at(tmp_path, 4)
    folder = tmp_path / "checkpoints" / "step-00000004"
    if damage == "manifest":
        flip_a_bit(folder / "manifest.json")
    elif damage == "missing manifest":
        (folder / "manifest.json").unlink()
    elif damage == "missing file":
        (folder / ".metadata").unlink()
    elif damage == "short file":
        os.truncate(folder / "__0_0.distcp", 100)
    else:
        asked = Resume(4, asked.path, "0" * 64)
    with pytest.raises(DataError, match=r"no checkpoint .* can be trusted"):
        checkpoint.choose_resume(tmp_path, asked)


def test_without_a_request_the_newest_is_taken_or_none(tmp_path, world, optimizer):
    assert checkpoint.choose_resume(tmp_path, None) == (None, [])
    for step in (4, 8):
        save(tmp_path, step, world, optimizer)
    found, _ = checkpoint.choose_resume(tmp_path, None)
    assert found.step == 8


@pytest.mark.parametrize("stage", ["writing shards", "writing the manifest", "renaming"])
def test_dying_during_a_save_leaves_the_old_checkpoint_and_no_false_new_one(tmp_path, world, optimizer, stage, monkeypatch):
    save(tmp_path, 4, world, optimizer)

    rename = os.rename

    def die(*arguments, **_):
        if stage == "renaming" and not str(arguments[1]).endswith("step-00000008"):
            return rename(*arguments)
        raise Died

    commit = "sentinel.client.checkpoint_files"
    targets = {"writing shards": "trainer.checkpoint.writing.dcp.save", "writing the manifest": f"{commit}.dumps"}
    monkeypatch.setattr(targets.get(stage, f"{commit}.os.rename"), die)
    with pytest.raises(Died):
        save(tmp_path, 8, world, optimizer)
    monkeypatch.undo()
    assert checkpoint.list_steps(tmp_path / "checkpoints") == [4]
    found, _ = checkpoint.choose_resume(tmp_path, None)
    assert found.step == 4
    save(tmp_path, 8, world, optimizer)
    assert checkpoint.choose_resume(tmp_path, None)[0].step == 8


def test_an_attempt_without_the_lease_commits_nothing(tmp_path, world, optimizer):
    with pytest.raises(LeaseLostError, match="later attempt"):
        save(tmp_path, 4, world, optimizer, may_commit=lambda: False)
    assert checkpoint.list_steps(tmp_path / "checkpoints") == []


def test_a_checkpoint_of_an_abandoned_lineage_is_moved_aside_not_lost(tmp_path, world, optimizer):
    first = save(tmp_path, 4, world, optimizer)
    optimizer.reset()
    next(iter(optimizer.state().values())).fill_(1)
    for parameter in optimizer.state().values():
        getattr(parameter, "_local_tensor", parameter).add_(1)
    second = save(tmp_path, 4, world, optimizer)
    third = save(tmp_path, 4, world, optimizer)
    quarantine = tmp_path / "quarantine" / "attempt-0002"
    assert checkpoint.verify(tmp_path / "checkpoints" / "step-00000004").digest == third
    assert checkpoint.verify(quarantine / "step-00000004").digest == first
    assert checkpoint.verify(quarantine / "step-00000004.2").digest == second


def test_on_another_filesystem_it_is_moved_aside_inside_it(tmp_path, world, optimizer, monkeypatch):
    """checkpoints/ may be a link to a scratch disk, out of which nothing can be renamed."""
    first = save(tmp_path, 4, world, optimizer)
    rename = os.rename

    def across(source, target):
        if Path(target).is_relative_to(tmp_path / "quarantine"):
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", across)
    save(tmp_path, 4, world, optimizer)
    aside = tmp_path / "checkpoints" / ".quarantine" / "attempt-0002" / "step-00000004"
    assert checkpoint.verify(aside).digest == first
    assert checkpoint.list_steps(tmp_path / "checkpoints") == [4]


def test_elements_that_are_not_finite_are_counted_wherever_they_are(optimizer):
    assert optimizer.numbers()["nonfinite"] == 0
    assert optimizer.numbers()["adam_v_norm"] == 0.0
    state = {name: getattr(value, "_local_tensor", value) for name, value in optimizer.state().items()}
    moment = next(value for name, value in state.items() if name.startswith("adam.exp_avg_sq."))
    moment.view(-1)[0] = float("inf")
    weight = next(value for name, value in state.items() if name.startswith("model."))
    weight.view(-1)[:2] = float("nan")
    assert optimizer.numbers()["nonfinite"] == 3


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ({"param_norm": 1.00001}, "param_norm of what was loaded is 1, its manifest says 1.00001"),
        ({"param_norm": "NaN"}, "its manifest says nan"),
        ({"param_norm": [1.0]}, "metrics.param_norm: "),
        ({"nonfinite": 2}, "nonfinite of what was loaded is 0"),
    ],
)
def test_numbers_that_differ_from_the_manifest_are_named(tmp_path, recorded, message):
    found = checkpoint.Verified(tmp_path, 8, "", {"metrics": recorded})
    with pytest.raises(DataError, match=re.escape(message)):
        checkpoint.compare_numbers(found, {"param_norm": 1.0, "nonfinite": 0})


@pytest.mark.parametrize("recorded", [{}, {"param_norm": 1.0 + 1e-9, "loss": 7.0}, None, [{"step": 8}]])
def test_what_agrees_or_says_nothing_is_loaded(tmp_path, recorded):
    checkpoint.compare_numbers(checkpoint.Verified(tmp_path, 8, "", {"metrics": recorded}), {"param_norm": 1.0, "nonfinite": 0})


def test_a_state_that_is_not_finite_is_never_continued(tmp_path):
    with pytest.raises(DataError, match="3 elements of what was loaded are not finite"):
        checkpoint.compare_numbers(checkpoint.Verified(tmp_path, 8, "", {}), {"param_norm": 1.0, "nonfinite": 3})


def test_below_a_refused_one_only_older_ones_are_offered(tmp_path, world, optimizer):
    for step in (4, 8):
        save(tmp_path, step, world, optimizer)
    assert checkpoint.choose_resume(tmp_path, resume_at(tmp_path, 8), 8)[0].step == 4
    assert checkpoint.choose_resume(tmp_path, None, 8)[0].step == 4
    with pytest.raises(DataError, match="none is older than step 4, which was refused"):
        checkpoint.choose_resume(tmp_path, None, 4)
