"""What a simulated model learns and suffers: a loss that falls, noise that is the data's own, and wounds in the weights.

Equal weights, step and samples give equal numbers, in whichever attempt: a resume is bitwise. Bad data raises the loss of the
steps that train on it and leaves a wound that heals slowly, or never; a checkpoint carries the wounds it was saved with.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

NOISE_SIZE = 1 << 14
MATERIAL = 0.02  # a wound below this (in nats) is within any noise; checkpoints with less count as clean
WOUND_GONE = 0.002
WOUND_MAX = 4.0
PARAM_GROWTH = 0.01  # of the parameter norm, each step
LOSS_SCALE = 65536.0  # where an fp16 run stands before it overflows
UNSTABLE_LR = 0.6  # an unstable run heals below this learning rate scale
HEALING = {"fast": 0.15, "slow": 0.02, "never": 0.0}

_ONCE = random.Random(20261120)
_NOISE = tuple(_ONCE.gauss(0.0, 1.0) for _ in range(NOISE_SIZE))


def noise(seed: int, index: int) -> float:
    """A standard normal number that belongs to this index of this seed."""
    return _NOISE[(seed * 7919 + index * 31337 + (index >> 7) * 101) % NOISE_SIZE]


class Wound(NamedTuple):
    """Excess loss that one fault left in the weights. `first_step`: the update that began it; `rank`: whose shard it is in;
    `shows`: the step before which nothing is seen of it; `grows`: nats that each update adds."""

    fault: str
    nats: float
    heals: str
    first_step: int
    rank: int | None = None
    shows: int = 0
    grows: float = 0.0


@dataclass(frozen=True, slots=True)
class Weights:
    """What of a model's state can be damaged. `ruined_by`: the fault that made every parameter NaN; `halvings`: overflows that
    halved the loss scale."""

    wounds: tuple[Wound, ...] = ()
    ruined_by: str = ""
    ruined_step: int = 0
    halvings: int = 0

    def excess(self, step: int) -> float:
        """What all wounds together add to the loss of this step, in nats."""
        return sum(wound.nats for wound in self.wounds if wound.shows <= step)

    def overflowed(self) -> Weights:
        """After an fp16 overflow: no update, and half the loss scale."""
        return replace(self, halvings=self.halvings + 1)

    def damage(self) -> dict[str, float]:
        """Material damage by fault; infinite for ruined weights."""
        found = {wound.fault: wound.nats for wound in self.wounds if wound.nats >= MATERIAL}
        return found | {self.ruined_by: math.inf} if self.ruined_by else found

    @property
    def since(self) -> dict[str, int]:
        """The update that each damage began with."""
        found = {wound.fault: wound.first_step for wound in self.wounds}
        return found | {self.ruined_by: self.ruined_step} if self.ruined_by else found


HEALTHY = Weights()


def param_norm(step: int, weights: Weights) -> float:
    """Of the parameters before the update of `step`: it grows evenly, and no wound shows in it but the last."""
    return math.nan if weights.ruined_by else 30.0 + PARAM_GROWTH * step


def own_norms_and_scale(
    weights: Weights, hurts: Sequence[Hurt], step: int, ranks: int, is_fp16: bool, overflowed: bool
) -> dict[str, float]:
    """Metrics of the state before the update, as the bundled trainer writes them: each rank's own parameter norm, which has its
    own shard's damage in it (with more ranks than one), and with fp16 the loss scale and whether this update overflowed."""
    scale = max(1.0, LOSS_SCALE * 0.5**weights.halvings)
    found = {"loss_scale": scale, "overflow": float(overflowed)} if is_fp16 else {}
    found["param_norm"] = param_norm(step, weights)
    if ranks == 1:
        return found
    found |= {f"param_norm/rank-{rank}": 30.0 + PARAM_GROWTH * step for rank in range(ranks)}
    for damage, rank in (*((w.nats, w.rank) for w in weights.wounds), *((h.lasts, h.rank) for h in hurts)):
        if rank is not None:
            found[f"param_norm/rank-{rank % ranks}"] += damage
    return found


@dataclass(frozen=True, slots=True)
class LossCurve:
    """How loss and gradient norm run without any fault; noise is relative."""

    seed: int
    floor: float = 2.1
    height: float = 3.4
    halved_at: float = 60.0
    loss_noise: float = 0.02
    norm_noise: float = 0.12
    activation_noise: float = 0.03
    clip_noise: float = 0.02

    def loss(self, step: int, cursor: int) -> float:
        level = self.floor + self.height / (1.0 + step / self.halved_at)
        return level * (1.0 + self.loss_noise * noise(self.seed, cursor))

    def norm(self, step: int, cursor: int) -> float:
        return self._norm_level(step) * math.exp(self.norm_noise * noise(self.seed + 1, cursor))

    def _norm_level(self, step: int) -> float:
        return 0.5 + 1.0 / (1.0 + step / self.halved_at)

    def activation_norm(self, step: int, cursor: int) -> float:
        return 3.0 * math.pow(1.0 + step / 2000.0, 0.05) * math.exp(self.activation_noise * noise(self.seed + 3, cursor))

    def clip_fraction(self, step: int, cursor: int, clip_norm: float) -> float:
        """The share of the steps hereabouts whose norm is above `clip_norm`: what it is on the average, with noise."""
        above = math.log(max(clip_norm, 1e-9) / self._norm_level(step)) / self.norm_noise
        share = 0.5 * math.erfc(above / math.sqrt(2.0)) + self.clip_noise * noise(self.seed + 4, cursor)
        return min(1.0, max(0.0, share))


class Hurt(NamedTuple):
    """What a fault does to one update: `share` of the batch is bad and has this `loss`; so much `excess` now, so much `lasts`;
    `unstable`: the factor by which it grows with every update unless the learning rate is low.
    `rank`, `shows` and `grows` are the wound's."""

    fault: str
    heals: str
    share: float = 0.0
    loss: float = 0.0
    excess: float = 0.0
    unstable: float = 0.0
    lasts: float = 0.0
    rank: int | None = None
    shows: int = 0
    grows: float = 0.0


class Update(NamedTuple):
    loss: float
    grad_norm: float
    weights: Weights


def update(curve: LossCurve, weights: Weights, step: int, cursor: int, hurts: list[Hurt], lr_scale: float, clip: float) -> Update:
    """One optimizer step: the loss before it, the norm of its gradient, and the weights after it."""
    loss, norm = curve.loss(step, cursor), curve.norm(step, cursor)
    if weights is HEALTHY and not hurts:
        return Update(loss, norm, weights)
    if weights.ruined_by:
        return Update(math.nan, math.nan, weights)
    excess = weights.excess(step)
    burden = sum(hurt.share * max(0.0, hurt.loss - loss) + hurt.excess for hurt in hurts)
    loss, norm = loss + excess + burden, norm * (1.0 + 3.0 * min(excess, 2.0) + 4.0 * burden)
    return Update(loss, norm, _wounded(weights, step, hurts, lr_scale, clip))


def _wounded(weights: Weights, step: int, hurts: list[Hurt], lr_scale: float, clip: float) -> Weights:
    force = lr_scale * min(1.0, clip)
    wounds = {wound.fault: wound for wound in weights.wounds}
    grown = set()
    for hurt in hurts:
        old = wounds.get(hurt.fault, Wound(hurt.fault, 0.0, hurt.heals, step))
        if hurt.unstable > 0.0 and lr_scale > UNSTABLE_LR:
            nats = min(WOUND_MAX, max(old.nats, 0.02) * hurt.unstable)
        elif hurt.share > 0.0:
            nats = min(WOUND_MAX, old.nats + 0.12 * hurt.share * force)
        elif hurt.lasts > 0.0:
            nats, old = hurt.lasts, old._replace(rank=hurt.rank, shows=hurt.shows, grows=hurt.grows)
        else:
            continue
        grown.add(hurt.fault)
        wounds[hurt.fault] = old._replace(nats=nats)
    left = [
        wound if wound.fault in grown else wound._replace(nats=min(WOUND_MAX, _healed(wound) + wound.grows))
        for wound in wounds.values()
    ]
    kept = tuple(wound for wound in left if wound.nats >= WOUND_GONE)
    return Weights(kept, halvings=weights.halvings) if kept or weights.halvings else HEALTHY


def _healed(wound: Wound) -> float:
    return wound.nats * (1.0 - HEALING[wound.heals])
