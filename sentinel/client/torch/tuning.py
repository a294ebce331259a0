"""The settings of the optimizer: put in force for one step, read back from its parameter groups, and put back.

Weight decay is replaced where the configuration decays: a group of norms and biases with weight decay 0 keeps it. A learning rate
may be a tensor (capturable optimizers); it is then changed in place, so that a captured graph sees it.

What the groups hold inside of `settings` proves nothing where the optimizer steps elsewhere (steps_seen.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import torch

from sentinel.client.torch.steps_seen import StepsSeen

OF_GROUPS = ("lr_scale", "weight_decay", "betas", "eps")


class AttachError(RuntimeError):
    """The program uses `sentinel.client.torch` wrongly; the message names the call, the value and the remedy. `code`: what its
    exit record says, by which nobody relaunches what cannot work."""

    code = 3


class NoCheckpoint(AttachError):
    """There is none to go on from that could be trusted."""

    code = 4


class Tuning:
    """Of all optimizers of a run. `watches`: their steps are looked for; it costs nothing where nobody supervises."""

    def __init__(self, optimizers: Iterable[Any], *, watches: bool = True) -> None:
        self._held: list[tuple[dict[str, Any], dict[str, Any]]] = []  # each group with its values as configured
        self._rates: list[Any] = []  # in force, a group each; None where it is a tensor
        self.lr: Any = None  # in force at the newest step, of the first group
        self.scheduled_lr: Any = None  # what it is outside of `settings`
        self.steps = StepsSeen()
        self._watches = watches
        self.bind(optimizers)

    def bind(self, optimizers: Iterable[Any]) -> None:
        """These from here on."""
        self._optimizers = tuple(optimizers)
        if self._watches:
            self.steps.watch(self._optimizers)

    @property
    def groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    @property
    def can(self) -> tuple[str, ...]:
        """What can be changed: what all groups that have it hold in the form in which it is asked for (Adafactor has two numbers
        for eps, Adan three for betas, and a rate may be None), and a weight decay where there is one."""
        groups = self.groups
        decays = any(group.get("weight_decay") for group in groups)
        held = {key: [group[key] for group in groups if key in group] for key in ("lr", "betas", "eps")}
        able = {
            "lr_scale": bool(groups) and len(held["lr"]) == len(groups) and all(map(_is_number, held["lr"])),
            "weight_decay": decays,
            "betas": bool(held["betas"]) and all(map(_is_pair, held["betas"])),
            "eps": bool(held["eps"]) and all(map(_is_number, held["eps"])),
        }
        return tuple(key for key in OF_GROUPS if able[key])

    def put(self, values: Mapping[str, Any]) -> None:
        """In force until `put_back`, over whatever the program's schedule has set."""
        assert not self._held, "settings are in force already"
        can = self.can if values else ()
        names = {name: value for name, value in values.items() if name in ("betas", "eps", "weight_decay") and name in can}
        scale = values.get("lr_scale") if "lr_scale" in can else None
        for group in self.groups:  # all of them first: groups may share one tensor
            self._held.append((group, {name: _copied(group[name]) for name in ("lr", *names) if name in group}))
        for group, held in self._held:
            if scale is not None:
                _set(group, "lr", held["lr"] * scale)
            for name, value in names.items():
                if name in group and (name != "weight_decay" or group[name] != 0):
                    _set(group, name, value)
        self._rates = [None if isinstance(rate := group.get("lr"), torch.Tensor) else rate for group, _ in self._held]
        first, configured = self._held[0] if self._held else ({}, {})
        self.lr, self.scheduled_lr = _copied(first.get("lr")), configured.get("lr")
        self.steps.enter((group for group, _ in self._held) if scale is not None else (), names)

    def read_back(self) -> dict[str, Any]:
        """What is in force now, from the groups. What they do not agree upon, and the factor of a learning rate of 0, is not
        known and left out."""
        found: dict[str, Any] = {}
        rates = [(group["lr"], held["lr"]) for group, held in self._held if _is_number(group.get("lr"))]
        if rates and len(rates) == len(self._held):
            found["lr"] = float(rates[0][0])
        scales = {float(f"{float(rate) / float(held):.12g}") for rate, held in rates if float(held)}
        if len(scales) == 1:
            found["lr_scale"] = scales.pop()
        for name in ("betas", "eps", "weight_decay"):
            here = [
                group[name] for group, held in self._held if name in group and (name != "weight_decay" or _decays(group, held))
            ]
            if not all(map(_is_pair if name == "betas" else _is_number, here)):
                continue
            values = {tuple(map(float, value)) if name == "betas" else float(value) for value in here}
            if len(values) == 1:
                value = values.pop()
                found[name] = list(value) if isinstance(value, tuple) else value
        return found

    def put_back(self) -> None:
        """As the schedule and the configuration had them. Raises AttachError where the learning rate was changed meanwhile."""
        held, self._held = self._held, []
        self.steps.leave()
        moved = [group["lr"] for (group, _), rate in zip(held, self._rates, strict=True) if rate not in (None, group.get("lr"))]
        for group, values in held:
            for name, value in values.items():
                _set(group, name, value)
        if moved:
            raise AttachError(
                f"run.settings(): the learning rate became {moved[0]!r} inside the block; call the scheduler's step behind it, "
                "where the optimizer has its scheduled learning rate again"
            )

    def reset(self) -> None:
        """Forget the moments."""
        for optimizer in self._optimizers:
            optimizer.state.clear()


def _decays(group: dict[str, Any], held: dict[str, Any]) -> bool:
    return bool(held.get("weight_decay", group["weight_decay"]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (Real, torch.Tensor)) and not isinstance(value, bool)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_is_number, value))


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _set(group: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(group[name], torch.Tensor):
        group[name].copy_(torch.as_tensor(value))
    elif group[name] != value:
        group[name] = value
