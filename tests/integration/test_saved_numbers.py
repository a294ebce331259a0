"""A checkpoint's own numbers: right on one rank and on two, compared again by whoever loads it, and by whoever asks for it."""

import hashlib
import json

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from sentinel.plan.checkpoint_validation import judge_numbers
from sentinel.telemetry.saved_numbers import verify_saved
from tests.docs.protocol_page import listed
from tests.integration.test_trainer_launch import launch

__all__ = ["launch"]


def folder_of(attempt, step):
    return attempt.run_dir / "checkpoints" / f"step-{step:08d}"


def manifest_of(attempt, step):
    return json.loads((folder_of(attempt, step) / "manifest.json").read_text())


def read_state(folder, aside):
    """What lies in the checkpoint, put together from whatever shards it has, by torch's own reader."""
    dcp_to_torch_save(folder, aside)
    return torch.load(aside, weights_only=False)


def norm_of(state, prefix):
    squares = [value.double().square().sum() for name, value in state.items() if name.startswith(prefix)]
    return torch.stack(squares).sum().sqrt().item()


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_manifest_tells_what_lies_in_the_checkpoint_however_it_is_sharded(launch, tmp_path, ranks):
    attempt = launch(1, "--set", "schedule.steps=9", ranks=ranks).finish()
    told = manifest_of(attempt, 8)["metrics"]
    state = read_state(folder_of(attempt, 8), tmp_path / "whole.pt")
    assert told["param_norm"] == pytest.approx(norm_of(state, "model."), rel=1e-9)
    assert told["adam_m_norm"] == pytest.approx(norm_of(state, "adam.exp_avg."), rel=1e-9)
    assert told["adam_v_norm"] == pytest.approx(norm_of(state, "adam.exp_avg_sq."), rel=1e-9)
    assert told["nonfinite"] == 0
    assert set(listed("judged numbers")) == set(told) - {"loss", "grad_norm"}
    rows = attempt.steps()
    assert told["param_norm"] == pytest.approx(rows[9]["param_norm"], rel=1e-12), "row 9 tells of what update 8 left"
    assert (told["loss"], told["grad_norm"]) == (rows[8]["loss"], rows[8]["grad_norm"])

    saved = verify_saved(attempt.run_dir, folder_of(attempt, 8))
    verdict = judge_numbers(saved)
    assert verdict.evidence == ""
    assert f"param_norm {told['param_norm']:.6g}, recorded {told['param_norm']:.6g} at step 9" in verdict.reason


def tamper(folder, aside, scale):
    """Other weights in a shard, and a manifest that has the digests of it: nothing but the numbers shows it."""
    state = read_state(folder, aside)
    name = max((name for name in state if name.startswith("model.")), key=lambda name: state[name].numel())
    old = state[name].contiguous().numpy().tobytes()
    for path in sorted(folder.glob("*.distcp")):
        data = path.read_bytes()
        if old in data:
            path.write_bytes(data.replace(old, (state[name] * scale).numpy().tobytes()))
            break
    else:
        raise AssertionError(f"{name} was not found in any shard")
    manifest = json.loads((folder / "manifest.json").read_text())
    data = path.read_bytes()
    manifest["files"][path.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_weights_that_are_not_those_of_the_manifest_are_refused_when_they_are_loaded(launch, tmp_path, ranks):
    first = launch(1, "--set", "schedule.steps=8").finish()
    tamper(folder_of(first, 8), tmp_path / "whole.pt", 1.01)
    assert verify_saved(first.run_dir, folder_of(first, 8)).checked.endswith("match their digests")
    second = launch(2, "--set", "schedule.steps=10", ranks=ranks, resume=8).finish()
    assert second.receipt()["resume_step"] == 4
    (refused,) = second.events("resumed_older")[0]["passed_over"]
    assert refused["step"] == 8
    assert "param_norm of what was loaded is " in refused["reason"]
    for step in range(5, 9):
        assert second.steps()[step]["samples"] == first.steps()[step]["samples"], "the place in the data went back with it"
    if ranks == 1:
        again, before = (run.steps() for run in (second, first))
        for name in ("loss", "grad_norm", "param_norm"):
            assert [again[step][name] for step in range(5, 9)] == [before[step][name] for step in range(5, 9)], "bit for bit"


def test_a_manifest_of_an_older_version_tells_no_numbers_and_what_lies_in_the_shards_is_counted(launch, tmp_path):
    first = launch(1, "--set", "schedule.steps=8").finish()
    manifest = manifest_of(first, 8)
    manifest["metrics"] = manifest.pop("recent")  # where the last step lines stood before
    (folder_of(first, 8) / "manifest.json").write_text(json.dumps(manifest))
    saved = verify_saved(first.run_dir, folder_of(first, 8))
    state = read_state(folder_of(first, 8), tmp_path / "whole.pt")
    tensors = [value for value in state.values() if torch.is_tensor(value) and value.is_floating_point()]
    assert saved.values.values == sum(value.numel() for value in tensors)
    verdict = judge_numbers(saved)
    assert (verdict.evidence, verdict.is_known) == ("", True)
    assert f"its manifest tells no numbers; all {saved.values.values:,} values of its tensors are finite" in verdict.reason
    assert launch(2, "--set", "schedule.steps=9", resume=8).finish().receipt()["resume_step"] == 8
    tamper(folder_of(first, 8), tmp_path / "whole.pt", float("nan"))
    verdict = judge_numbers(verify_saved(first.run_dir, folder_of(first, 8)))
    assert verdict.evidence == "numbers"
    assert "values of __0_0.distcp (model." in verdict.reason
