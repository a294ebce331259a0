"""What spec.json and overrides.json ask for, and what the trainer proves to be in force."""

import json

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader

from tests.integration.test_trainer_launch import await_that, launch

__all__ = ["launch"]


def parameters_of(run_dir, step):
    """Every model tensor of a checkpoint, whole."""
    reader = FileSystemReader(run_dir / "checkpoints" / f"step-{step:08d}")
    entries = {key: entry for key, entry in reader.read_metadata().state_dict_metadata.items() if key.startswith("model.")}
    state = {key: torch.empty(entry.size, dtype=entry.properties.dtype) for key, entry in entries.items()}
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state


def test_a_live_change_holds_on_every_rank_from_the_step_it_names(launch):
    attempt = launch(1, "--set", "schedule.steps=100000", "checkpoint.every=100000", ranks=2)
    attempt.await_steps(1)
    # A learning rate this small moves no bit of any shard: had one rank not obeyed, its shard would move.
    more = {"request": "checkpoint_now", "precision": "bf16"}
    attempt.ask(id="ov-1", lr_scale=1e-30, embed_grad_scale=0.1, skip=[[400, 440], [0, 4]], **more)
    await_that(lambda: attempt.events("checkpoint_committed"), "the checkpoint asked for")
    attempt.await_steps(attempt.events("checkpoint_committed")[0]["step"] + 5)
    attempt.ask(id="ov-2", request="stop_after_checkpoint")
    attempt.wait()
    assert [attempt.record(rank)["code"] for rank in (0, 1)] == [6, 6]

    applied, stop = attempt.events("override_applied")
    assert (applied["id"], stop["id"], stop["request"]) == ("ov-1", "ov-2", "stop_after_checkpoint")
    assert applied["effective"]["lr_scale"] == stop["effective"]["lr_scale"] == 1e-30
    assert applied["effective"]["embed_grad_scale"] == stop["effective"]["embed_grad_scale"] == 0.1
    assert applied["effective"]["skip"] == [[400, 440]]
    assert applied["skip_clamped"] == [[0, 4]]
    refused = attempt.events("override_refused")[0]
    assert (refused["id"], refused["keys"], "relaunch" in refused["reason"]) == ("ov-1", ["precision"], True)

    first, last = (event["step"] for event in attempt.events("checkpoint_committed"))
    assert last > first == applied["step"] - 1
    before, after = parameters_of(attempt.run_dir, first), parameters_of(attempt.run_dir, last)
    assert all(torch.equal(before[name], after[name]) for name in before)
    rates = {step: line["lr"] for step, line in attempt.steps().items()}
    assert all((rate < 1e-20) == (step >= applied["step"]) for step, rate in rates.items())


def test_a_launch_with_overrides_skips_scales_and_lapses_exactly(launch):
    plain = launch(1, "--set", "schedule.steps=8", run="plain").finish()
    overrides = {"id": "ov-7", "lr_scale": 0.5, "clip_norm": 0.3, "skip": [[8, 14], [0, 0]], "until": {"lr_scale": 6}}
    attempt = launch(1, "--set", "schedule.steps=8", overrides=overrides).finish()
    receipt = attempt.receipt()
    assert receipt["overrides"] == overrides
    assert (receipt["effective"]["lr_scale"], receipt["effective"]["clip_norm"]) == (0.5, 0.3)
    steps, unhurt = attempt.steps(), plain.steps()
    assert [steps[n]["samples"] for n in (1, 2, 3, 8)] == [[[0, 4]], [[4, 8]], [[14, 18]], [[34, 38]]]
    assert [steps[n]["lr"] / unhurt[n]["lr"] for n in (1, 5, 6, 8)] == [0.5, 0.5, 1.0, 1.0]
    lapsed = attempt.events("override_lapsed")
    assert [(event["step"], event["keys"]) for event in lapsed] == [(6, ["lr_scale"])]


@pytest.mark.parametrize("tied", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_the_embeddings_gradient_is_scaled_from_the_launch_until_it_lapses(launch, tied):
    """Two ranks, recomputed, in micro-batches. The first step has the weights of the unhurt run, so its gradients compare."""
    sets = "schedule.steps=8", f"model.tied_head={tied}", "parallel.micro_batch=1", "parallel.recompute=full"
    plain = launch(1, "--set", *sets, ranks=2, run="plain").finish()
    asked = {"id": "ov-7", "embed_grad_scale": 0.1, "until": {"embed_grad_scale": 6}}
    attempt = launch(1, "--set", *sets, ranks=2, overrides=asked).finish()
    assert (plain.receipt()["effective"]["embed_grad_scale"], attempt.receipt()["effective"]["embed_grad_scale"]) == (1.0, 0.1)
    (lapsed,) = attempt.events("override_lapsed")
    assert (lapsed["step"], lapsed["keys"], lapsed["effective"]["embed_grad_scale"]) == (6, ["embed_grad_scale"], 1.0)
    unhurt, first = plain.steps()[1], attempt.steps()[1]
    assert first["loss"] == unhurt["loss"]
    layers = [name for name in unhurt if name.startswith("grad_norm/") and name != "grad_norm/embed"]
    assert layers
    assert all(first[name] == pytest.approx(unhurt[name], rel=1e-6) for name in layers)
    if tied == "false":
        # The layer holds the learned positions, too, whose gradient is whole.
        assert 0.1 * unhurt["grad_norm/embed"] < first["grad_norm/embed"] < unhurt["grad_norm/embed"]
    squares = sum(value**2 for name, value in first.items() if name.startswith("grad_norm/"))
    assert first["grad_norm"] == pytest.approx(squares**0.5, rel=1e-5), "the norm is of the scaled gradient"

    again = launch(2, "--set", *sets, ranks=2, resume=4, overrides=asked).finish()
    assert again.steps() == {step: line for step, line in attempt.steps().items() if step > 4}, "to the bit"
    other = launch(3, "--set", *sets, ranks=2, resume=4).finish()
    assert other.receipt()["effective"]["embed_grad_scale"] == 1.0, "it is of the launch, not of the checkpoint"
    assert other.steps()[5]["grad_norm"] != again.steps()[5]["grad_norm"]


def test_a_relaunch_changes_order_precision_and_moments_and_clamps_what_is_past(launch):
    launch(1, "--set", "schedule.steps=8").finish()
    overrides = {"data_seed": 7, "precision": "bf16", "reset_optimizer": True, "skip": [[0, 20]], "betas": [0.8, 0.9]}
    attempt = launch(2, "--set", "schedule.steps=12", resume=4, overrides=overrides).finish()
    effective = attempt.receipt()["effective"]
    assert (effective["data_seed"], effective["precision"], effective["optimizer_steps"]) == (7, "bf16", 0)
    assert effective["betas"] == [0.8, 0.9]
    assert effective["skip"] == [[16, 20]]
    assert attempt.receipt()["skip_clamped"] == [[0, 16]]
    assert attempt.steps()[5]["samples"] == [[20, 24]]
    again = launch(3, "--set", "schedule.steps=12", resume=8, overrides=overrides | {"reset_optimizer": False}).finish()
    assert again.receipt()["effective"]["optimizer_steps"] == 4
    assert {step: line for step, line in attempt.steps().items() if step > 8} == again.steps()
    unsaid = launch(4, "--set", "schedule.steps=12", resume=8, overrides={"precision": "bf16", "betas": [0.8, 0.9]}).finish()
    assert unsaid.receipt()["effective"]["data_seed"] == 7, "the order is in the checkpoint"
    assert unsaid.steps() == again.steps()


def test_an_attempt_ignores_what_names_another(launch, tmp_path):
    attempt_dir = tmp_path / "run"
    attempt_dir.mkdir()
    (attempt_dir / "overrides.json").write_text('{"id":"ov-1","attempt":9,"lr_scale":0.1,"request":"stop_now"}')
    attempt = launch(1, "--set", "schedule.steps=4").finish()
    assert attempt.lines("event")[0]["event"] == "checkpoint_committed"


def test_stop_now_writes_no_checkpoint(launch):
    attempt = launch(1, "--set", "schedule.steps=100000", "checkpoint.every=100000")
    attempt.await_steps(2)
    attempt.ask(id="ov-1", request="stop_now")
    assert attempt.wait() == 6
    assert attempt.lines("end")[0]["reason"] == "stopped_on_request"
    assert not (attempt.run_dir / "checkpoints").exists()


def test_another_number_of_ranks_continues_the_same_data_and_says_what_was_changed(launch):
    """Two ranks, then one, then two again; every resume with another free setting, and one with a fixed one."""
    first = launch(1, "--set", "schedule.steps=8", ranks=2).finish()
    second = launch(2, "--set", "schedule.steps=8", "evaluation.batches=1", resume=4).finish()
    third = launch(3, "--set", "schedule.steps=12", ranks=2, resume=8).finish()
    for step in range(5, 9):
        assert second.steps()[step]["samples"] == first.steps()[step]["samples"]
        assert abs(second.steps()[step]["loss"] - first.steps()[step]["loss"]) < 1e-3
    alone, together = second.steps()[5], {k: v for k, v in first.steps()[5].items() if "/rank-" not in k}
    assert alone.keys() == together.keys()
    for name in alone.keys() - {"kind", "samples"}:
        assert alone[name] == pytest.approx(together[name], rel=1e-4), name
    assert alone["update_norm"] > 0, "of the update before the checkpoint"

    assert [third.steps()[step]["samples"] for step in range(9, 13)] == [[[4 * n, 4 * n + 4]] for n in range(8, 12)]
    saved = json.loads((first.run_dir / "checkpoints" / "step-00000008" / "manifest.json").read_text())["metrics"]["param_norm"]
    assert third.steps()[9]["param_norm"] == pytest.approx(saved, rel=1e-12), "by one rank, and told again by two"
    claims = [attempt.receipt()["effective"]["deterministic"] for attempt in (first, second, third)]
    assert claims == [True, False, False], "another number of ranks adds up in another order, and no hardware is to blame for it"
    assert second.receipt()["config_changed"] == {"evaluation.batches": [2, 1]}
    assert third.receipt()["config_changed"] == {"schedule.steps": [8, 12], "evaluation.batches": [1, 2]}

    before = {path: path.stat().st_mtime_ns for path in (first.run_dir / "checkpoints").rglob("*")}
    refused = launch(4, "--set", "schedule.steps=16", "data.seq_len=64", resume=12)
    assert refused.wait() == 3
    assert refused.lines("start") == []
    assert "data.seq_len=32 and this run has 64" in refused.record()["error"]
    assert "--set data.seq_len=32" in refused.record()["error"]
    assert {path: path.stat().st_mtime_ns for path in (first.run_dir / "checkpoints").rglob("*")} == before


def test_a_nan_is_gated_once_and_not_gated_it_ends_the_run(launch):
    gated = launch(1, "--set", "schedule.steps=6", "--fault", "nan_grad@step=3").finish()
    assert [line["skipped"] for line in gated.steps().values()] == [0, 0, 1, 0, 0, 0]
    assert gated.steps()[3]["grad_norm"] == "NaN"
    assert gated.steps()[4]["param_norm"] == gated.steps()[3]["param_norm"]
    arguments = ("--set", "schedule.steps=50", "stability.gate=off", "stability.max_skipped=4", "--fault", "nan_grad@step=3")
    open_gate = launch(1, *arguments, run="open")
    assert open_gate.wait() == 5
    assert open_gate.steps()[4]["loss"] == "NaN"
    assert open_gate.record()["code"] == 5
    assert open_gate.lines("end")[0] | {"time_s": 0} == {"kind": "end", "step": 6, "time_s": 0, "reason": "failed"}


def test_fp16_reports_its_loss_scale_and_resumes_it(launch):
    arguments = ("--set", "schedule.steps=6", "numerics.precision=fp16", "checkpoint.every=3", "--fault", "nan_grad@step=2")
    whole = launch(1, *arguments).finish()
    assert [line["overflow"] for line in whole.steps().values()] == [0, 1, 0, 0, 0, 0]
    assert [line["loss_scale"] for line in whole.steps().values()] == [65536, 65536, *[32768] * 4]
    again = launch(2, *arguments, resume=3).finish()
    assert again.receipt()["effective"]["loss_scale"] == 32768
    assert again.steps() == {step: line for step, line in whole.steps().items() if step > 3}
