"""An optimizer that steps outside of `run.settings`: what is read inside of them is not in force, and is not claimed."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from sentinel.client.torch.ranks import Agreed
from sentinel.client.torch.steps_seen import UNSEEN_AT_FIRST, UNSEEN_LATER, StepsSeen
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


def test_rows_without_an_update_are_no_steps_outside(tmp_path, monkeypatch):
    """As fp16 leaves one out, as a loop logs each part of a batch, and as a part of a model is frozen for a while."""
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop(total_steps=120)
    own = loop.optimizer.step
    monkeypatch.setattr(loop.optimizer, "step", lambda: own() if loop.run.step > 100 else None)
    loop.train()
    assert stream(tmp_path, "start")[0]["effective"]["lr_scale"] == 0.5
    assert events(tmp_path, "override_refused") == []


def by_hand(loop: Loop) -> None:
    with torch.no_grad():
        for parameter in loop.model.parameters():
            parameter -= 0.1 * parameter.grad


def by_another_optimizer(loop: Loop) -> None:
    torch.optim.SGD(loop.model.parameters(), lr=0.1).step()


@pytest.mark.parametrize("update", [by_hand, by_another_optimizer])
def test_parameters_that_change_by_no_step_that_was_seen_are_a_doubt(tmp_path, monkeypatch, update):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop(total_steps=UNSEEN_AT_FIRST + 3)
    monkeypatch.setattr(loop.optimizer, "step", lambda: update(loop))
    loop.train()
    (refused,) = events(tmp_path, "override_refused")
    assert (refused["step"], refused["keys"]) == (UNSEEN_AT_FIRST + 1, ["lr_scale"])
    assert f"parameters changed in {UNSEEN_AT_FIRST} rows by no step that was seen" in refused["reason"]


def test_a_loop_that_keeps_a_norm_by_hand_while_fp16_leaves_updates_out_is_believed(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop(total_steps=150)
    own = loop.optimizer.step

    def step() -> None:
        if loop.run.step in (30, 31, 32, 149):
            own()
        with torch.no_grad():
            loop.model.weight.clamp_(-3, 3)

    monkeypatch.setattr(loop.optimizer, "step", step)
    loop.train()
    assert UNSEEN_LATER > 150 > UNSEEN_AT_FIRST > 30
    assert events(tmp_path, "override_refused") == []


@pytest.mark.parametrize("entered", ["at-every-update", "never"])
def test_a_row_without_an_update_is_answered_by_what_it_would_have_had(tmp_path, monkeypatch, entered):
    """A loop that logs each part of a batch, and enters the settings only where it steps."""
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop(uses=())
    for step in loop.run.steps(loop.run.restore(loop.load)):
        loop.model(torch.ones(1, 4)).sum().backward()
        if step % 3 == 0:
            with loop.run.settings() if entered != "never" else contextlib.nullcontext():
                loop.rates.append(loop.optimizer.param_groups[0]["lr"])
                loop.optimizer.step()
        loop.run.log(loss=1.0)
    assert stream(tmp_path, "start")[0]["effective"]["lr_scale"] == 0.5
    refused = [(line["step"], line["keys"]) for line in events(tmp_path, "override_refused")]
    assert refused == ([(3, ["lr_scale"])] if entered == "never" else [])
    assert loop.rates == ([0.1, 0.1] if entered == "never" else [0.05, 0.05])


def test_what_an_older_request_put_in_force_is_taken_back_beside_a_newer_answer(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Elsewhere(since=4)
    loop.train(lambda step: ask(loop.run, "ov-1.clip", clip_norm=0.3) if step == 3 else None)
    (refused,) = events(tmp_path, "override_refused")
    assert (refused["id"], refused["step"], refused["keys"]) == ("ov-1.clip", 4, ["lr_scale"])
    (applied,) = events(tmp_path, "override_applied")
    assert (applied["effective"]["clip_norm"], "lr_scale" in applied["effective"]) == (0.3, False)


def test_a_factor_that_was_never_known_is_taken_back_as_well(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Elsewhere(since=3, lr=0.0)

    def warm_up(step: int) -> None:
        for group in loop.optimizer.param_groups:
            group["lr"] = 0.01 * (step - 1)

    loop.train(warm_up)
    assert "lr_scale" not in stream(tmp_path, "start")[0]["effective"]
    assert [(line["step"], line["keys"]) for line in events(tmp_path, "override_refused")] == [(3, ["lr_scale"])]
    assert [round(line["lr"], 6) for line in stream(tmp_path, "step")] == [0.0, 0.005, 0.02, 0.03, 0.04, 0.05]


@pytest.mark.parametrize(
    "groups",
    [{"lr": 0.1, "eps": (None, 1e-3)}, {"lr": None, "eps": 1e-8}, {"lr": 0.1, "betas": (0.9, 0.9, 0.99)}, {}],
    ids=["Adafactor", "relative-step", "Adan", "nothing"],
)
def test_an_optimizer_with_settings_of_another_form_is_not_broken(tmp_path, monkeypatch, groups):
    class Own(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            found.append(dict(self.param_groups[0]))

    supervise(tmp_path, monkeypatch, lr_scale=0.5, betas=[0.8, 0.9])
    loop, found = Loop(), []
    own = Own(loop.model.parameters(), groups)
    loop.run.bind(loop.model, [own], total_steps=6, clip=1.0)
    for _ in loop.run.steps(loop.run.restore(loop.load)):
        with loop.run.settings():
            own.step()
        loop.run.log(loss=1.0)
    has_rate = groups.get("lr") is not None
    assert [one.get("lr") for one in found] == [0.05 if has_rate else None] * 6
    assert [one.get("betas") for one in found] == [groups.get("betas")] * 6
    assert ("lr_scale" in stream(tmp_path, "start")[0]["effective"]) == has_rate
    (refused,) = events(tmp_path, "override_refused")
    assert refused["keys"] == (["betas"] if has_rate else ["betas", "lr_scale"])


def test_what_another_rank_does_is_taken_back_on_all(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop()
    monkeypatch.setattr(loop.run._ranks, "meet", lambda *flags: Agreed(*flags[:3], doubted=loop.run.step == 3))
    loop.train()
    (refused,) = events(tmp_path, "override_refused")
    assert (refused["step"], refused["keys"]) == (3, ["lr_scale"])
    assert refused["reason"] == "lr_scale: on one of the ranks the optimizer stepped outside of run.settings"
    assert loop.rates == [0.05, 0.05, 0.05, 0.1, 0.1, 0.1]


def test_a_rank_without_an_optimizer_and_parameters_without_a_version_are_no_doubt():
    seen = StepsSeen()
    seen.watch([])
    assert seen.why_doubted == ""
    with torch.inference_mode():
        frozen = torch.ones(2)
    optimizer = an_optimizer()
    optimizer.param_groups[0]["params"].insert(0, frozen)
    seen.watch([optimizer])
    seen.begin()
    assert seen.is_left_out


def test_groups_are_held_against_their_own_rates():
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": [one], "lr": rate} for one, rate in zip(parameters, (0.2, 0.1), strict=True)])
    seen = StepsSeen()
    optimizer.param_groups[0]["lr"] = 0.1
    seen.enter(optimizer.param_groups, {})
    assert seen.agrees(optimizer)
    optimizer.param_groups[0]["lr"] = 0.05
    optimizer.param_groups[1]["lr"] = 0.1
    assert not seen.agrees(optimizer)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.1)
    assert not seen.agrees(optimizer), "another object than was put"


def test_a_step_behind_log_counts_for_the_next_row(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop(uses=("samples",))
    for step in loop.run.steps(loop.run.restore(loop.load)):
        with loop.run.settings():
            loop.model(torch.ones(1, 4)).sum().backward()
        loop.run.log(loss=1.0 * step)
        loop.optimizer.step()
    (refused,) = events(tmp_path, "override_refused")
    assert (refused["step"], refused["keys"]) == (2, ["lr_scale"])


def test_a_step_at_a_rate_of_zero_moves_nothing(tmp_path, monkeypatch):
    """torch.distributed.checkpoint makes one, where the optimizer has no state yet."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop()
    steps = []
    put = torch.optim.SGD(loop.model.parameters(), lr=0.1)  # never has a state
    loop.run.bind(loop.model, [put], total_steps=6, clip=1.0)
    loop.optimizer = put  # type: ignore[assignment]
    loop.train(lambda step: steps.append(get_optimizer_state_dict(loop.model, put)))
    assert len(steps) == 6
    assert stream(tmp_path, "start")[0]["effective"]["lr_scale"] == 0.5
    assert events(tmp_path, "override_refused") == []
    assert [line["lr"] for line in stream(tmp_path, "step")] == [0.05] * 6


def test_what_was_refused_is_not_put_in_force_later(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, lr_scale=0.5)
    loop = Loop()
    loop.train(lambda step: loop.optimizer.step() if step == 3 else None)
    (refused,) = events(tmp_path, "override_refused")
    assert refused["step"] == 3
    assert loop.rates == [0.05, 0.05, 0.05, 0.1, 0.1, 0.1]
    assert [line["lr"] for line in stream(tmp_path, "step")] == loop.rates, "the newest step of a row"


@pytest.mark.parametrize("change", [{"lr": 0.1}, {"betas": (0.9, 0.999)}, {"weight_decay": 0.3}], ids=str)
def test_other_values_inside_are_no_settings(tmp_path, monkeypatch, change):
    supervise(tmp_path, monkeypatch, lr_scale=0.5, betas=[0.8, 0.9], weight_decay=0.2)
    loop = Loop()
    own = loop.optimizer.step

    def step() -> None:
        kept = [dict(group) for group in loop.optimizer.param_groups]
        for group in loop.optimizer.param_groups:
            group |= change if loop.run.step > 2 else {}
        own()
        for group, before in zip(loop.optimizer.param_groups, kept, strict=True):
            group |= before

    monkeypatch.setattr(loop.optimizer, "step", step)
    loop.train()
    (refused,) = events(tmp_path, "override_refused")
    assert (refused["step"], refused["keys"]) == (3, ["betas", "lr_scale", "weight_decay"])


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
        optimizer.register_step_pre_hook(lambda *_: seen.enter([], {}))
        optimizer.register_step_post_hook(lambda *_: seen.leave())

    for register in (hook, lambda: seen.watch([optimizer])) if is_first else (lambda: seen.watch([optimizer]), hook):
        register()
    optimizer.step()
    assert not seen.stepped_outside


class Sharpness:
    """Holds its optimizer by a name of its own, and itself by another."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.base_optimizer, self.itself = optimizer, self

    @property
    def optimizer(self) -> Any:
        raise KeyError("not yet")

    def step(self) -> None:
        self.base_optimizer.step()


@pytest.mark.parametrize("wrap", [Wrapped, Sharpness])
def test_a_wrapped_optimizer_is_seen_within_what_wraps_it(wrap):
    seen, wrapped = StepsSeen(), wrap(an_optimizer())
    seen.watch([wrapped])
    assert not seen.is_blind
    seen.enter([], {})
    wrapped.step()
    seen.leave()
    assert (seen.stepped_inside, seen.stepped_outside, seen.why_doubted) == (True, False, "")
    wrapped.step()
    assert (seen.first_outside, seen.rate) == (True, 0.1)
    assert "outside of run.settings" in seen.why_doubted
    seen.forget()
    assert (seen.stepped_inside, seen.stepped_outside, seen.rate) == (False, False, None)


def test_a_step_that_enters_the_settings_itself_is_inside():
    class Own(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            seen.enter([], {})
            try:
                return inner.step()
            finally:
                seen.leave()

    inner, seen = an_optimizer(), StepsSeen()
    outer = Own([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    outer.inner = inner  # type: ignore[attr-defined]
    seen.watch([outer])
    outer.step()
    assert (seen.stepped_inside, seen.stepped_outside) == (True, False)


def test_an_optimizer_without_hooks_is_not_believed():
    seen = StepsSeen()
    seen.watch([object()])
    assert "nobody sees this optimizer step" in seen.why_doubted


def test_a_compiled_step_is_seen():
    optimizer, seen = an_optimizer(), StepsSeen()
    seen.watch([optimizer])
    step = torch.compile(lambda: optimizer.step(), backend="eager")  # the tracer decides what becomes of the hooks
    for is_inside in (True, False, True):
        if is_inside:
            seen.enter([], {})
        step()
        seen.leave()
        assert (seen.stepped_inside, seen.stepped_outside, seen.first_outside) == (is_inside, not is_inside, not is_inside)
        seen.forget()
