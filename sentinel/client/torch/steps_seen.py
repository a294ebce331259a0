"""Where the optimizers of a run step: inside of `settings`, with what was put in force there, or elsewhere.

The hooks that every torch optimizer has tell of each step. They are looked at before it and behind it, since libraries enter
`settings` and leave it by hooks of their own, in any order, and since a step may enter them itself. A step at a learning rate of
0 moves nothing: torch's own tools make one, so that the optimizer has a state that can be saved or loaded.

What no hook tells of is not seen: another optimizer than the one attached, an update by hand. Parameters change by them all the
same. A row without a step in which none changed is one without an update: fp16 leaves it out where a gradient overflows.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

# Rows in which parameters changed by no step that was seen. The program may change them itself, as by a norm that it keeps, while
# fp16 leaves updates out (a scale of 2**16 overflows 26 times until it is 2**-10), or while what is attached is frozen.
UNSEEN_AT_FIRST = 40
UNSEEN_LATER = 200
LOOKED_AT = 4  # groups, of each the first and the last parameter: every row pays for them


class StepsSeen:
    """Of all optimizers of a run. Holds none of them; torch.compile can trace it.

    Attributes:
    in_force: the settings are, now.
    stepped_inside: an optimizer has stepped with them since `forget`.
    stepped_outside: one has stepped without them since then, or with other values.
    first_outside: so the newest step of the first optimizer was made. rate: of the newest such step, the learning rate of the
        first group; None where torch.compile traced it.
    steps_inside: how many were seen, in all.
    rows_unseen: in so many rows, since the newest step that was seen, parameters changed without one.
    is_blind: there are optimizers, and none of them has hooks.
    """

    def __init__(self) -> None:
        self.in_force = self.stepped_inside = self.stepped_outside = self.first_outside = self.is_blind = False
        self.rate: Any = None
        self.rows_unseen = self.steps_inside = 0
        self._rates: dict[int, Any] = {}  # of each group, by its identity
        self._values: tuple[tuple[str, Any], ...] = ()
        self._handles: list[Any] = []
        self._parameters: list[weakref.ref[Any]] = []
        self._version = 0

    def watch(self, optimizers: Sequence[Any]) -> None:
        """These from here on, with every optimizer that one of them wraps."""
        for handle in self._handles:
            handle.remove()
        found = [(one, place == 0) for place, optimizer in enumerate(optimizers) for one in _layers(optimizer)]
        hooks = [(one, _Hooks(self, is_first)) for one, is_first in found if hasattr(one, "_optimizer_step_post_hooks")]
        self._handles = [one.register_step_pre_hook(each.before) for one, each in hooks]
        self._handles += [one.register_step_post_hook(each.behind) for one, each in hooks]
        self.is_blind = bool(optimizers) and not hooks
        groups = [group for one, _ in hooks for group in one.param_groups][:LOOKED_AT]
        ends = [one for group in groups for one in (*group["params"][:1], *group["params"][1:][-1:])]
        self._parameters = [weakref.ref(one) for one in ends if one.requires_grad and not one.is_inference()]

    def enter(self, groups: Iterable[Mapping[str, Any]], values: Mapping[str, Any]) -> None:
        """`groups`: with the rates in force, where a factor was asked for. `values`: what else was asked for."""
        self._rates = {id(group): group["lr"] for group in groups}
        self._values = tuple(values.items())
        self.in_force = True

    def leave(self) -> None:
        self.in_force = False

    def begin(self) -> None:
        """The run begins: what was before is undone by what was loaded."""
        self.forget()
        self.rows_unseen = 0

    def forget(self) -> None:
        """The row is written."""
        before, self._version = self._version, self._versions()
        if self.stepped_inside or self.stepped_outside:
            self.rows_unseen = 0
        elif self._version != before:
            self.rows_unseen += 1
        self.stepped_inside = self.stepped_outside = self.first_outside = False
        self.rate = None

    def _versions(self) -> int:
        return sum(one._version for each in self._parameters if (one := each()) is not None)

    @property
    def is_left_out(self) -> bool:
        """No step was seen since `forget`, and nothing changed: a row without an update."""
        return not self.stepped_inside and not self.stepped_outside and self._versions() == self._version

    @property
    def why_doubted(self) -> str:
        """Why what is read inside of `settings` proves nothing; empty where it does, or where an update was left out."""
        if self.is_blind:
            return "nobody sees this optimizer step: give attach the torch optimizers that it is made of"
        if self.stepped_outside:
            return "the optimizer steps outside of run.settings, or with other values than were put in force there"
        if not self.stepped_inside and self.rows_unseen >= (UNSEEN_LATER if self.steps_inside else UNSEEN_AT_FIRST):
            return f"parameters changed in {self.rows_unseen} rows by no step that was seen: give attach the optimizer that steps"
        return ""

    def agrees(self, optimizer: Any) -> bool:
        """Whether its groups hold what was put in force. A group whose weight decay is 0 keeps it."""
        for group in optimizer.param_groups:
            if self._rates and not self._has_rate(group):
                return False
            if any(key in group and not _holds(key, group[key], value) for key, value in self._values):
                return False
        return True

    def _has_rate(self, group: Mapping[str, Any]) -> bool:
        """An optimizer that another one wraps may have groups of its own, with the rates of the other's. The value of a rate in a
        tensor is not looked at: nobody waits for a device here."""
        rate, is_own = group.get("lr"), id(group) not in self._rates
        if isinstance(rate, torch.Tensor):
            return is_own or rate is self._rates[id(group)]
        known = self._rates.values() if is_own else (self._rates[id(group)],)
        return any(rate == one for one in known if not isinstance(one, torch.Tensor))


class _Hooks:
    """Of one optimizer. `is_first`: it is the first one attached, or a layer of it."""

    def __init__(self, seen: StepsSeen, is_first: bool) -> None:
        self._seen, self._is_first = seen, is_first
        self._was_in_force = False
        self._steps_before = 0

    def before(self, *_: Any) -> None:
        self._was_in_force = self._seen.in_force
        if not torch.compiler.is_compiling():  # a number that changes would be traced anew
            self._steps_before = self._seen.steps_inside

    def behind(self, optimizer: Any, *_: Any) -> None:
        seen = self._seen
        is_inside = seen.in_force or self._was_in_force
        if torch.compiler.is_compiling():
            seen.stepped_inside |= is_inside
            seen.stepped_outside |= not is_inside
            if self._is_first:
                seen.first_outside = not is_inside
            return
        wraps_one_inside = seen.steps_inside > self._steps_before
        is_within = is_inside or wraps_one_inside
        if is_within and (not seen.in_force or seen.agrees(optimizer)):
            seen.stepped_inside = True
            seen.steps_inside += 1
            if self._is_first:
                seen.first_outside = False
        elif is_within or _moves(optimizer):
            seen.stepped_outside = True
            if self._is_first:
                seen.first_outside = True
                rate = optimizer.param_groups[0].get("lr")
                seen.rate = rate.clone() if isinstance(rate, torch.Tensor) else rate


def _layers(optimizer: Any) -> Iterator[Any]:
    """It, and what it wraps, by whatever name: accelerate, DeepSpeed, Lightning and sharpness-aware optimizers do."""
    waiting, known = [optimizer], set()
    while waiting:
        one = waiting.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        yield one
        held: list[Any] = []
        with contextlib.suppress(Exception):  # an attribute may be computed
            held.append(one.optimizer)
        with contextlib.suppress(Exception):
            held += vars(one).values()
        for each in held:
            many = each if isinstance(each, (list, tuple)) else [each]
            waiting += [inner for inner in many if isinstance(inner, torch.optim.Optimizer)]


def _moves(optimizer: Any) -> bool:
    """A rate on a device is waited for: this is looked at behind a step outside alone."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return any(rate is None or bool(rate != 0.0) for rate in rates)


def _holds(key: str, found: Any, value: Any) -> bool:
    if isinstance(found, torch.Tensor):
        return True
    if key == "betas":
        return [*map(float, found)] == [*map(float, value)]
    return bool(found == value or (key == "weight_decay" and found == 0))
