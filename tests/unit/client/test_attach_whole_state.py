"""`restore` and `save` without a function: all of the state comes back as data alone; what could not is refused."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.client.torch import AttachError, attach
from sentinel.client.torch.whole_state import WholeState
from tests.unit.client.attached_kit import Loop, numbers, supervise

pytestmark = pytest.mark.usefixtures("alone")


class Part:
    """What has a state: a schedule, a scaler, averaged weights."""

    def __init__(self, **state: Any) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return dict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = dict(state)


def resume_at(step: int) -> dict[str, Any]:
    return {"step": step, "path": f"checkpoints/step-{step:08d}", "digest": None}


def drawn() -> list[float]:
    return [torch.rand(()).item(), random.random(), float(np.random.rand())]


def test_all_of_the_state_comes_back_with_no_function_given(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    counted, seen = Part(steps=0, mean=torch.zeros(3)), []

    def count(step):
        counted.state = {"steps": step, "mean": torch.full((3,), float(step))}
        seen.append(drawn())

    whole = Loop(saves_itself=False, extra_state={"counted": counted}, dataset_size=50).train(count)
    assert whole.saved == [3, 6]
    assert verify_checkpoint(tmp_path / "checkpoints/step-00000003").ok

    supervise(tmp_path, monkeypatch, 2, resume_at(3))
    first, again = seen[3:], Part(steps=-1)
    states: list[Any] = []
    seen.clear()
    loop = Loop(saves_itself=False, extra_state={"counted": again}, dataset_size=50)
    loop.train(lambda step: (states.append((again.state["steps"], again.state["mean"].tolist())), seen.append(drawn())))
    assert states[0] == (3, [3.0, 3.0, 3.0])
    assert seen == first, "torch's, Python's and numpy's random numbers go on"
    assert loop.taken == whole.taken[3:]
    assert list(numbers(loop)) == list(numbers(whole)), "so do model and optimizer"


def test_what_only_one_of_both_can_do_is_refused_before_anybody_supervises():
    loop = Loop()
    loop.run.restore()
    with pytest.raises(AttachError, match="give both a function, or neither"):
        loop.run.save(1, loop.save)
    loop.run.restore(loop.load)
    with pytest.raises(AttachError, match="give both a function, or neither"):
        loop.run.save(1)


def test_a_loop_that_restores_by_halves_is_told_what_save_needs(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.run.checkpoint_to_load()
    loop.run.restored()
    with pytest.raises(AttachError, match=r"run.save\(3\): call run.restore\(\) first, or give save the function"):
        loop.run.save(3)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ([1], r"give a dict of names and objects"),
        ({1: Part()}, r"give a dict of names and objects"),
        ({"schedule": object()}, r"'schedule' \(object\) has no state_dict and load_state_dict"),
    ],
)
def test_what_has_no_state_is_refused(extra, words):
    with pytest.raises(AttachError, match=words):
        Loop(extra_state=extra)


class Odd(dict):
    """A container of a program's own."""


class OddTensor(torch.Tensor):
    """A tensor of a program's own, as libraries of quantization have them."""


@pytest.mark.parametrize(
    "held",
    [
        Odd(a=1),
        torch.zeros(2).as_subclass(OddTensor),
        object(),
        SimpleNamespace(a=1),
        lambda: 0,
        np.float64(0.5),
        [{"deep": (1, SimpleNamespace())}],
    ],
)
def test_a_state_that_could_be_written_and_not_be_read_is_refused_at_the_start(tmp_path, monkeypatch, held):
    """Found out at the relaunch, it would be too late."""
    supervise(tmp_path, monkeypatch)
    loop = Loop(saves_itself=False, extra_state={"odd": Part(held=held)})
    with pytest.raises(AttachError, match=r"the state of extra odd is more than tensors, .*leave it out of extra_state, or give"):
        loop.train()
    assert not (tmp_path / "checkpoints").exists()


def test_a_state_that_becomes_so_later_is_refused_when_it_is_saved(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    part = Part(fine=1)
    loop = Loop(saves_itself=False, extra_state={"part": part})
    with pytest.raises(AttachError, match="the state of extra part"):
        loop.train(lambda step: part.state.update(odd=object()))
    assert loop.run.step == 3


def test_a_checkpoint_of_another_program_is_refused_in_words(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    Loop(saves_itself=False, extra_state={"schedule": Part(at=1)}).train()
    supervise(tmp_path, monkeypatch, 2, resume_at(3))
    with pytest.raises(
        AttachError, match=r"holds model, optimizer 0, extra schedule; this program has model, optimizer 0: name"
    ) as raised:
        Loop(saves_itself=False).train()
    assert raised.value.code == 4


def test_a_checkpoint_of_the_programs_own_function_is_refused_in_words(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.save = lambda place: torch.save({}, f"{place}/mine.pt")
    loop.train()
    supervise(tmp_path, monkeypatch, 2, resume_at(3))
    with pytest.raises(
        AttachError, match=r"has no state.pt: it was saved by a function of the program; give run.restore the one"
    ):
        Loop(saves_itself=False).train()


def test_a_state_that_is_no_state_of_ours_is_refused_in_words(tmp_path):
    torch.save([1], tmp_path / "state.pt")
    model = torch.nn.Linear(1, 1)
    state = WholeState(model, [torch.optim.SGD(model.parameters(), lr=1.0)], {}, rank=0, size=1, shares=1)
    with pytest.raises(AttachError, match="holds list; this program has model, optimizer 0"):
        state.load(str(tmp_path))


def test_a_model_of_which_ranks_hold_parts_needs_functions():
    model = torch.nn.Linear(1, 1)
    with pytest.raises(AttachError, match=r"1 of 2 ranks share a batch, .*; give run.restore and run.save functions of your own"):
        WholeState(model, [], {}, rank=0, size=2, shares=1)
    model.weight.to_local = lambda: model.weight
    with pytest.raises(AttachError, match=r"weight is sharded over the ranks \(DTensor\), and one file cannot hold it"):
        WholeState(model, [], {}, rank=0, size=1, shares=1)


def test_a_state_that_cannot_be_taken_is_refused_at_the_start():
    model = torch.nn.Linear(1, 1)
    part = Part()
    part.state_dict = lambda: (_ for _ in ()).throw(RuntimeError("has not been consolidated on this rank"))
    with pytest.raises(
        AttachError, match="the state of extra part cannot be taken: has not been consolidated on this rank; give"
    ):
        WholeState(model, [], {"part": part}, rank=0, size=1, shares=1).check()
    sharded = type("FullyShardedDataParallel", (torch.nn.Module,), {})()
    with pytest.raises(AttachError, match="sharded by FSDP1"):
        WholeState(torch.nn.Sequential(sharded), [], {}, rank=0, size=1, shares=1)


def test_only_the_first_rank_writes_the_state_and_each_its_own_random_numbers(tmp_path):
    model = torch.nn.Linear(1, 1)
    for rank in (0, 1):
        WholeState(model, [], {}, rank=rank, size=2, shares=2).save(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["random-00000.pt", "random-00001.pt", "state.pt"]
    WholeState(model, [], {}, rank=2, size=3, shares=3).load(str(tmp_path))  # a rank more than before


def test_a_run_without_a_supervisor_saves_nothing_and_looks_at_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Loop(saves_itself=False, extra_state={"odd": Part(held=object())}).train().saved == []
    assert list(tmp_path.iterdir()) == []


def test_several_optimizers_come_back(tmp_path):
    def made() -> tuple[Any, list[Any]]:
        model = torch.nn.Linear(2, 2)
        return model, [torch.optim.AdamW([model.weight], lr=0.1), torch.optim.SGD([model.bias], lr=0.1, momentum=0.9)]

    def train(run: Any, model: Any, optimizers: list[Any]) -> None:
        for step in run.steps(run.restore()):
            model(torch.ones(1, 2)).sum().backward()
            for each in optimizers:
                with run.settings() if each is optimizers[0] else torch.no_grad():
                    each.step()
            run.log(loss=0.0)
            run.save(step)

    model, optimizers = made()
    train(attach(model, optimizers, total_steps=2, save_every=2, out_dir=tmp_path), model, optimizers)
    again, others = made()
    run = attach(again, others, total_steps=2, out_dir=tmp_path, resume="newest_existing")
    assert run.restore() == 3
    assert torch.equal(again.weight, model.weight)
    assert torch.equal(
        others[1].state_dict()["state"][0]["momentum_buffer"], optimizers[1].state_dict()["state"][0]["momentum_buffer"]
    )
