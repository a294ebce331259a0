"""`attach` without a supervisor and under one: receipts and answers that are read back, stops, and wrong use."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.client.torch import AttachError, attach
from tests.unit.client.attached_kit import Loop, ask, events, lines, numbers, stream, supervise

pytestmark = pytest.mark.usefixtures("alone")


# -- nobody supervises -------------------------------------------------------------------------------------------------


def test_without_a_supervisor_the_loop_trains_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loop = Loop().train()
    assert loop.taken == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert loop.saved == []
    assert not loop.run.is_supervised
    assert list(tmp_path.iterdir()) == []


def test_in_a_directory_of_its_own_it_saves_and_goes_on_as_if_it_had_not_stopped(tmp_path):
    whole = Loop(out_dir=tmp_path / "whole", dataset_size=50).train()
    Loop(out_dir=tmp_path / "cut", dataset_size=50, total_steps=3).train()
    with pytest.raises(AttachError, match="has checkpoints up to step 3; go on from them"):
        Loop(out_dir=tmp_path / "cut").train()
    again = Loop(out_dir=tmp_path / "cut", dataset_size=50, resume="newest_existing").train()
    assert again.saved == [6]
    assert again.taken == whole.taken[3:]
    assert list(numbers(again)) == list(numbers(whole))
    written = lines(tmp_path / "cut" / "metrics.jsonl")
    assert [line["resume_step"] for line in written if line["kind"] == "start"] == [0, 3]
    assert [line["step"] for line in written if line["kind"] == "step"] == [1, 2, 3, 4, 5, 6]


def test_a_checkpoint_that_is_not_whole_is_passed_over_for_an_older_one(tmp_path):
    Loop(out_dir=tmp_path).train()
    damaged = tmp_path / "checkpoints" / "step-00000006" / "state.pt"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    loop = Loop(out_dir=tmp_path, resume="newest_existing")
    assert loop.run.restore(loop.load) == 4


# -- the receipt -------------------------------------------------------------------------------------------------------


def test_the_receipt_is_read_back_from_what_the_first_step_used(tmp_path, monkeypatch):
    wanted = {"lr_scale": 0.5, "clip_norm": 0.25, "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.2, "skip": [[4, 8]]}
    supervise(tmp_path, monkeypatch, **wanted, data_seed=7, until={"lr_scale": 4})
    loop = Loop(dataset_size=50).train()
    receipt = stream(tmp_path, "start")[0]
    assert {key: receipt["effective"][key] for key in wanted} == wanted
    assert receipt["effective"]["data_seed"] == 7
    assert receipt["capabilities"] == ["skip", "live_overrides"]
    assert (receipt["resume_step"], receipt["cursor"], receipt["steps"], receipt["params"]) == (0, 0, 6, 5)
    assert loop.rates == [0.05, 0.05, 0.05, 0.1, 0.1, 0.1], "the factor lapses at step 4"
    assert [group["lr"] for group in loop.optimizer.param_groups] == [0.1, 0.1], "as the program had it"
    assert [group["weight_decay"] for group in loop.optimizer.param_groups] == [0.1, 0.0]
    assert [line["samples"] for line in stream(tmp_path, "step")][:3] == [[[0, 2]], [[2, 4]], [[8, 10]]]
    assert [line["lr"] for line in stream(tmp_path, "step")] == loop.rates
    (lapsed,) = events(tmp_path, "override_lapsed")
    assert (lapsed["keys"], lapsed["step"], lapsed["effective"]["lr_scale"]) == (["lr_scale"], 4, 1.0)


def test_what_the_loop_does_not_use_is_not_in_force_and_is_refused(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5, clip_norm=0.25, skip=[[4, 8]], loss_scale=1024.0, data_seed=3)
    Loop(uses=()).train()
    receipt = stream(tmp_path, "start")[0]
    assert not {"lr_scale", "clip_norm", "skip", "data_seed"} & set(receipt["effective"])
    assert receipt["capabilities"] == []
    (refused,) = events(tmp_path, "override_refused")
    assert refused["id"] == "ov-1"
    assert refused["keys"] == ["clip_norm", "data_seed", "loss_scale", "lr_scale", "skip"]
    assert "skip: the loop does not take its samples from run.next_samples" in refused["reason"]


def test_a_group_without_weight_decay_keeps_none(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, weight_decay=0.0)
    loop = Loop()
    seen = []
    loop.optimizer.register_step_pre_hook(lambda *_: seen.append([g["weight_decay"] for g in loop.optimizer.param_groups]))
    loop.train()
    assert seen[0] == [0.0, 0.0]
    assert stream(tmp_path, "start")[0]["effective"]["weight_decay"] == 0.0


def test_the_factor_of_a_learning_rate_of_zero_is_not_known(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    Loop(lr=0.0).train()
    assert "lr_scale" not in stream(tmp_path, "start")[0]["effective"]


def test_a_learning_rate_in_a_tensor_is_changed_in_place_and_put_back(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop(lr=torch.tensor(0.1))
    rate = loop.optimizer.param_groups[0]["lr"]
    loop.run.restore(loop.load)
    loop.run._begin(1)
    with loop.run.settings():
        assert float(rate) == pytest.approx(0.05)
    assert float(rate) == pytest.approx(0.1)


def test_without_a_norm_to_clip_at_the_gradients_are_only_measured(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop(clip=None)
    loop.run.restore(loop.load)
    loop.run._begin(1)
    loop.model.weight.grad, loop.model.bias.grad = torch.tensor([[3.0, 4.0, 0.0, 0.0]]), torch.tensor([float("inf")])
    assert float(loop.run.clip_(loop.model.parameters())) == float("inf")
    assert loop.model.weight.grad.tolist() == [[3.0, 4.0, 0.0, 0.0]], "one infinite gradient does not spread"
    loop.run.log(loss=1.0)
    loop.run.finish()
    assert stream(tmp_path, "start")[0]["effective"]["clip_norm"] is None


# -- live changes and requests -----------------------------------------------------------------------------------------


def test_a_live_change_is_answered_behind_the_first_step_under_it(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    halved = {"lr_scale": 0.5, "skip": [[0, 2], [8, 10]], "checkpoint_interval": 2}
    changes = {3: halved, 5: {"lr_scale": None, "precision": "fp16"}}
    loop.train(lambda step: ask(loop.run, f"ov-1.{step}", **changes[step]) if step in changes else None)
    first, second = events(tmp_path, "override_applied")
    assert (first["id"], first["step"], first["effective"]["lr_scale"]) == ("ov-1.3", 4, 0.5)
    assert first["skip_clamped"] == [[0, 2]]
    assert first["effective"]["skip"] == [[8, 10]]
    assert (second["id"], second["step"], second["effective"]["lr_scale"]) == ("ov-1.5", 6, 1.0)
    (refused,) = events(tmp_path, "override_refused")
    assert (refused["id"], refused["keys"]) == ("ov-1.5", ["precision"])
    assert loop.rates == [0.1, 0.1, 0.1, 0.05, 0.05, 0.1]
    assert stream(tmp_path, "step")[4]["samples"] == [[10, 12]]
    assert loop.saved == [4, 6], "every two steps, from the third on"


def test_a_file_that_cannot_be_read_is_refused_and_training_goes_on(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.train(lambda step: ask(loop.run, "ov-x", clip_norm=-1) if step == 2 else None)
    (refused,) = events(tmp_path, "override_refused")
    assert refused["id"] is None
    assert "clip_norm: -1 cannot be used" in refused["reason"]
    assert stream(tmp_path, "end")[0]["reason"] == "finished"


@pytest.mark.parametrize(("request_", "saved"), [("stop_after_checkpoint", [2]), ("stop_now", [])])
def test_a_stop_ends_the_loop_and_is_recorded(tmp_path, monkeypatch, request_, saved):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.train(lambda step: ask(loop.run, "ov-s", request=request_) if step == 2 else None)
    assert (loop.run.step, loop.saved) == (2, saved)
    loop.run._leaving.leave()
    (end,) = stream(tmp_path, "end")
    assert (end["step"], end["reason"]) == (2, "stopped_on_request")
    assert events(tmp_path, "override_applied")[0]["request"] == request_
    assert json.loads((tmp_path / "attempts/0001/exits/rank-00000.json").read_text())["code"] == 6


def test_a_stop_is_kept_where_the_loop_saves_before_it_logs(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop(uses=("settings",))
    for step in loop.run.steps(loop.run.restore(loop.load)):
        loop.run.save(step, loop.save)
        if step == 2:
            ask(loop.run, "ov-s", request="stop_after_checkpoint")
        loop.one(step)
    assert verify_checkpoint(tmp_path / "checkpoints/step-00000002").ok


def test_a_checkpoint_now_is_written_at_once(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.train(lambda step: ask(loop.run, "ov-c", request="checkpoint_now") if step == 2 else None)
    assert loop.saved == [2, 3, 6]


def test_sigterm_stops_after_a_checkpoint_and_not_in_a_forked_child(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    child = os.fork()
    if child == 0:  # as a worker of a DataLoader, which is ended by SIGTERM
        loop.run.log(loss=1.0)
        os._exit(0 if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loop.train(lambda step: os.kill(os.getpid(), signal.SIGTERM) if step == 2 else None)
    assert (loop.run.step, loop.saved) == (2, [2])
    assert [line["step"] for line in stream(tmp_path, "step")] == [1, 2], "the child wrote nothing"


# -- the end -----------------------------------------------------------------------------------------------------------


def test_an_error_that_nobody_catches_is_recorded_with_its_traceback(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    with pytest.raises(ZeroDivisionError) as raised:
        loop.train(lambda step: step / (3 - step))
    sys.excepthook(ZeroDivisionError, raised.value, None)
    record = json.loads((tmp_path / "attempts/0001/exits/rank-00000.json").read_text())
    assert (record["code"], record["step"]) == (1, 3)
    assert "ZeroDivisionError" in record["traceback"]
    assert stream(tmp_path, "end")[0]["reason"] == "failed"


def test_wrong_use_is_a_configuration_error_for_the_supervisor(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    with pytest.raises(AttachError, match="first, and begin with the step that it returns"), Loop().run as run:
        next(iter(run.steps(1)))
    assert json.loads((tmp_path / "attempts/0001/exits/rank-00000.json").read_text())["code"] == 3


@pytest.mark.parametrize("name", ["self", "step", "kind", "time_s"])
def test_an_event_or_a_metric_of_any_name_ends_no_training(tmp_path, monkeypatch, name):
    supervise(tmp_path, monkeypatch)
    loop = Loop(total_steps=2)

    def say(step: int) -> None:
        loop.run.event("evaluated", **{name: 7.0, "score": 1.0})
        loop.run.log(**{name: 7.0, "loss": 2.0})

    loop.train(say)
    told = events(tmp_path, "evaluated")
    assert [(one["step"], one["score"], one["kind"]) for one in told] == [(1, 1.0, "event"), (2, 1.0, "event")]
    assert all(type(one["time_s"]) is float and one["time_s"] > 1e9 for one in told)
    remarks = [one["reason"] for one in events(tmp_path, "remark")]
    assert bool(remarks) is (name != "self")
    assert all(reason.startswith(name) for reason in remarks)


# -- wrong use ---------------------------------------------------------------------------------------------------------


def test_a_scheduler_inside_the_block_is_refused(tmp_path):
    loop = Loop(out_dir=tmp_path)
    schedule = torch.optim.lr_scheduler.StepLR(loop.optimizer, 1, 0.5)
    loop.optimizer.step()
    with pytest.raises(AttachError, match="call the scheduler's step behind it"), loop.run.settings():
        schedule.step()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"total_steps": "9"}, "both whole numbers"),
        ({"total_steps": 9.5}, "both whole numbers"),
        ({"total_steps": 9, "clip": "1"}, "clip above 0 or None"),
        ({"total_steps": 9, "dataset_size": 0}, "give the number of samples"),
        ({"total_steps": 9, "share": (2, 2)}, r"attach\(share=\(2, 2\)\)"),
        ({"total_steps": 9, "share": 2}, r"attach\(share=2\)"),
    ],
)
def test_what_cannot_be_is_refused_with_or_without_a_supervisor(words, message):
    model = torch.nn.Linear(2, 2)
    with pytest.raises(AttachError, match=message):
        attach(model, torch.optim.SGD(model.parameters(), lr=0.1), **words)


def test_a_phase_that_is_none_is_refused():
    model = torch.nn.Linear(2, 2)
    run = attach(model, torch.optim.SGD(model.parameters(), lr=0.1), total_steps=np.int64(9), clip=np.float32(1.0))
    with pytest.raises(AttachError, match=r"'evaluation'.*use one of init, compile, data"):
        run.phase("evaluation")
    run.phase("eval")


@pytest.mark.parametrize(
    ("words", "message"),
    [({"total_steps": -1}, "total_steps is 0"), ({"clip": 0.0}, "clip above 0"), ({"resume": "latest"}, "newest_existing")],
)
def test_settings_that_cannot_be_are_refused(words, message):
    with pytest.raises(AttachError, match=message):
        attach(torch.nn.Linear(1, 1), torch.optim.SGD([torch.zeros(1)]), **({"total_steps": 1} | words))


def test_ranks_that_do_not_know_of_each_other_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(AttachError, match=r"WORLD_SIZE=8, and torch.distributed is not initialised"):
        Loop()


def test_a_batch_that_does_not_divide_is_refused():
    run = attach(torch.nn.Linear(1, 1), torch.optim.SGD([torch.zeros(1)]), total_steps=1, share=(1, 4))
    assert run.next_samples(8) == [2, 3]
    with pytest.raises(AttachError, match="a multiple of the 4"):
        run.next_samples(6)


def test_an_inspection_is_not_trained(tmp_path: Path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    spec = tmp_path / "attempts/0001/spec.json"
    spec.write_text(json.dumps(json.loads(spec.read_text()) | {"inspect": {"samples": [[0, 4]]}}))
    with pytest.raises(AttachError, match="--without attribution"):
        Loop()


def test_a_weight_decay_that_is_0_everywhere_is_refused(tmp_path, monkeypatch):
    """Before, it was neither in force nor refused."""
    supervise(tmp_path, monkeypatch, weight_decay=0.2)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
    run = attach(model, optimizer, total_steps=1)
    for _ in run.steps(run.restore(lambda place: None)):
        with run.settings():
            optimizer.step()
        run.log(loss=1.0)
    (refused,) = events(tmp_path, "override_refused")
    assert refused["keys"] == ["weight_decay"]
    assert refused["reason"].endswith("a weight decay of 0 stays 0")


@pytest.mark.parametrize(("step", "cursor"), [(-1, 5), (None, 5), (2.0, 5), ("2", 5), (True, 5), (2, -1), (2, "x"), (2, 5.0)])
def test_a_checkpoint_that_no_relaunch_could_go_on_by_is_refused_when_it_is_made(tmp_path, monkeypatch, step, cursor):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.run.restore(loop.load)
    with pytest.raises(AttachError, match=r"run\.commit_checkpoint\((step|cursor)=.*\): is no whole number from 0 on"):
        loop.run.commit_checkpoint(tmp_path, step, cursor)
    assert not (tmp_path / "checkpoints").exists()


def test_whole_numbers_of_numpy_and_torch_are_steps_cursors_and_batches(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.run.restore(loop.load)
    assert loop.run.next_samples(np.int64(2)) == [0, 1]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "state").write_text("x")
    loop.run.commit_checkpoint(tmp_path / "mine", torch.tensor(2), np.int64(40))
    loop.run._checkpoints.wait()
    assert json.loads((tmp_path / "checkpoints/step-00000002/manifest.json").read_text())["cursor"] == 40
    with pytest.raises(AttachError, match=r"run\.save\(2\.5\): is no whole number"):
        loop.run.save(2.5, loop.save)


def test_a_commit_that_fails_in_whatever_way_is_told(tmp_path, monkeypatch, capsys):
    def read(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("sentinel.client.torch.saving.read_all_back", read)
    supervise(tmp_path, monkeypatch)
    Loop().train()
    assert [one["reason"] for one in events(tmp_path, "checkpoint_failed")] == ["MemoryError: no room"] * 2
    assert "the checkpoint of step 3 was not written: MemoryError: no room" in capsys.readouterr().err
