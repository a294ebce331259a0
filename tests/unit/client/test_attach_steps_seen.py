"""An optimizer that steps outside of `run.settings`: what is read inside of them is not in force, and is not claimed."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from sentinel.client.torch.tuning import StepsSeen
from tests.unit.client.attached_kit import Loop, ask, events, stream, supervise

pytestmark = pytest.mark.usefixtures("alone")

ASKED = {"lr_scale": 0.5, "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.2}


class Elsewhere(Loop):
    """Enters the settings and steps behind them, from step `since` on."""

    def __init__(self, since: int = 1, **attached: Any) -> None:
        super().__init__(uses=("samples", "clip", "save"), **attached)
        self.since = since
        step, self.optimizer.step = self.optimizer.step, self._step  # type: ignore[method-assign]
        self._own = step

    def _step(self) -> None:
        is_outside = self.run.step >= self.since
        with self.run.settings():
            if not is_outside:
                self.rates.append(self.optimizer.param_groups[0]["lr"])
                self._own()
        if is_outside:
            self.rates.append(self.optimizer.param_groups[0]["lr"])
            self._own()


def test_a_loop_that_enters_the_settings_and_steps_behind_them_claims_nothing(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, **ASKED, clip_norm=0.25)
    loop = Elsewhere().train()
    receipt = stream(tmp_path, "start")[0]
    assert not {"lr", *ASKED} & set(receipt["effective"])
    assert receipt["effective"]["clip_norm"] == 0.25, "what it does use is in force"
    (refused,) = events(tmp_path, "override_refused")
    assert refused["keys"] == sorted(ASKED)
    assert "lr_scale: the optimizer steps outside of run.settings" in refused["reason"]
    assert [line["lr"] for line in stream(tmp_path, "step")] == loop.rates == [0.1] * 6, "the rate with which it stepped"


def test_a_claim_is_taken_back_once_where_a_later_step_is_made_outside(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Elsewhere(since=3).train()
    assert stream(tmp_path, "start")[0]["effective"]["lr_scale"] == 0.5
    (refused,) = events(tmp_path, "override_refused")
    assert (refused["id"], refused["step"], refused["keys"]) == ("ov-1", 3, ["lr_scale"])
    assert [line["lr"] for line in stream(tmp_path, "step")] == loop.rates == [0.05, 0.05, 0.1, 0.1, 0.1, 0.1]


def test_a_live_change_that_the_next_steps_do_not_heed_is_refused(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Elsewhere(since=3)
    loop.train(lambda step: ask(loop.run, "ov-1.live", lr_scale=0.25) if step == 3 else None)
    assert [(line["id"], line["keys"]) for line in events(tmp_path, "override_refused")] == [("ov-1.live", ["lr_scale"])]
    (applied,) = events(tmp_path, "override_applied")
    assert "lr_scale" not in applied["effective"]


def test_where_nothing_was_asked_for_a_step_outside_is_the_programs_own_affair(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    Elsewhere(since=3).train()
    assert events(tmp_path, "override_refused") == []


def test_a_step_that_leaves_the_settings_out_shows_its_own_rate(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop()
    settings = loop.run.settings
    monkeypatch.setattr(loop.run, "settings", lambda: settings() if loop.run.step < 4 else contextlib.nullcontext())
    loop.train()
    assert [line["lr"] for line in stream(tmp_path, "step")] == loop.rates == [0.05, 0.05, 0.05, 0.1, 0.1, 0.1]
    (refused,) = events(tmp_path, "override_refused")
    assert refused["step"] == 4


def test_one_of_two_optimizers_outside_is_enough(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop()
    other = torch.optim.SGD(loop.model.parameters(), lr=0.1)
    loop.run.bind(loop.model, [loop.optimizer, other], total_steps=6, clip=1.0)
    loop.train(lambda step: other.step())
    assert "lr_scale" not in stream(tmp_path, "start")[0]["effective"]


def test_an_update_that_fp16_leaves_out_is_no_step_outside(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop()
    monkeypatch.setattr(loop.optimizer, "step", lambda: None)
    loop.train()
    assert stream(tmp_path, "start")[0]["effective"]["lr_scale"] == 0.5


def test_nobody_looks_where_nobody_supervises_and_the_old_optimizer_is_let_go(tmp_path, monkeypatch):
    assert not Loop().optimizer._optimizer_step_post_hooks
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    assert len(loop.optimizer._optimizer_step_post_hooks) == 1
    loop.run.bind(loop.model, [torch.optim.SGD(loop.model.parameters(), lr=0.1)], total_steps=6, clip=1.0)
    assert not loop.optimizer._optimizer_step_post_hooks


# -- the hooks ---------------------------------------------------------------------------------------------------------


class Wrapped(torch.optim.Optimizer):
    """As accelerate wraps one: a torch optimizer by its class alone, without hooks of its own."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def step(self, closure: Any = None) -> None:
        self.optimizer.step(closure)


def an_optimizer() -> torch.optim.Optimizer:
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return torch.optim.SGD([parameter], lr=0.1)


@pytest.mark.parametrize("is_first", [True, False], ids=["before-ours", "behind-ours"])
def test_a_library_enters_the_settings_in_hooks_of_its_own_in_any_order(is_first):
    optimizer, seen = an_optimizer(), StepsSeen()

    def hook() -> None:
        optimizer.register_step_pre_hook(lambda *_: setattr(seen, "inside", True))
        optimizer.register_step_post_hook(lambda *_: setattr(seen, "inside", False))

    for register in (hook, lambda: seen.watch([optimizer])) if is_first else (lambda: seen.watch([optimizer]), hook):
        register()
    optimizer.step()
    assert not seen.outside


def test_a_wrapped_optimizer_and_one_without_hooks():
    seen, wrapped = StepsSeen(), Wrapped(an_optimizer())
    seen.watch([wrapped, object()])
    seen.inside = True
    wrapped.step()
    assert not seen.outside
    seen.inside = False
    wrapped.step()
    assert seen.outside
    seen.forget()
    assert not seen.outside


def test_a_compiled_step_is_seen():
    optimizer, seen = an_optimizer(), StepsSeen()
    seen.watch([optimizer])
    step = torch.compile(lambda: optimizer.step(), backend="eager")  # the tracer decides what becomes of the hooks
    for is_inside in (True, False, True):
        seen.inside, seen.outside = is_inside, False
        step()
        assert seen.outside is not is_inside
