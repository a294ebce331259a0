"""Drawn streams of thousands of steps: healthy runs with all that `trend` reads, and the five slow declines in them."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator

from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import falling_loss, row

BREAK = 10_000
WARM = 2000
Noise = Callable[[random.Random], float]
Schedule = Callable[[float], float]


def gaussian(dice: random.Random) -> float:
    return dice.gauss(0.0, 1.0)


def t4(dice: random.Random) -> float:
    """Student's t with four degrees of freedom, scaled to a deviation of one."""
    return dice.gauss(0.0, 1.0) / math.sqrt(sum(dice.gauss(0.0, 1.0) ** 2 for _ in range(4)) / 2.0)


SCHEDULES: dict[str, Schedule] = {
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - 0.9 * share,
    "cosine": lambda share: 0.1 + 0.45 * (1.0 + math.cos(math.pi * share)),
    "stable, then decay": lambda share: 1.0 if share < 0.8 else 5.05 - 5.0 * share,
}


class Scale:
    """An fp16 loss scale at work: halved where the largest gradient times it overflows, doubled after 1000 good steps."""

    def __init__(self, dice: random.Random) -> None:
        self._dice, self._scale, self._good = dice, 2.0**15, 0

    def after(self, step: int, every: int) -> float:
        for _ in range(every):
            self._good += 1
            largest = self._dice.lognormvariate(-0.5 * math.log1p(step / 20_000), 0.8) if self._dice.random() < 0.02 else 0.0
            if self._scale * largest > 1e5:
                self._scale, self._good = self._scale / 2.0, 0
            if self._good == 1000:
                self._scale, self._good = min(2.0**24, self._scale * 2.0), 0
        return self._scale


def healthy(
    steps: int, every: int, seed: int, noise: Noise = gaussian, schedule: str = "linear", *, has_rate: bool = True
) -> Iterator[StepReading]:
    """Loss and gradient descend, activations and parameters grow ever more slowly, 5 % of the steps are clipped."""
    dice = random.Random(seed)
    scale = Scale(dice)
    for step in range(every, steps + 1, every):
        share = max(0.0, (step - WARM) / (steps - WARM))
        metrics = {
            "loss": falling_loss(step) * (1.0 + 0.05 * noise(dice)),
            "grad_norm": 0.2 * (1.0 + 2.0 / (1.0 + step / 300.0)) * math.exp(0.15 * noise(dice)),
            "activation_norm": 3.0 * (1.0 + step / 2000.0) ** 0.05 * math.exp(0.03 * noise(dice)),
            "param_norm": 100.0 * (1.0 + step / 1000.0) ** 0.2 * (1.0 + 0.0005 * noise(dice)),
            "loss_scale": scale.after(step, every),
            "clip_fraction": min(1.0, max(0.0, 0.05 + 0.02 * noise(dice))),
        }
        if has_rate:
            metrics["lr"] = 3e-4 * min(1.0, step / WARM) * SCHEDULES[schedule](share)
        yield row(step, **metrics)


def scale_falls(since: int, metrics: dict[str, float]) -> None:
    metrics["loss_scale"] = max(64.0, 4096.0 / 2.0 ** (max(0, since) // 500))


def activations_rise(since: int, metrics: dict[str, float]) -> None:
    metrics["activation_norm"] *= 1.0 + 0.75 * min(1.0, max(0, since) / 15_000)


def gradient_creeps(since: int, metrics: dict[str, float]) -> None:
    metrics["grad_norm"] *= 1.0 + 0.25 * min(1.0, max(0, since) / 30_000)


def parameters_turn(since: int, metrics: dict[str, float]) -> None:
    if since > 0:
        healthy_growth = (1.0 + (BREAK + since) / 1000.0) ** 0.2 / (1.0 + BREAK / 1000.0) ** 0.2
        metrics["param_norm"] *= (1.0 - 0.05 * since / 10_000) / healthy_growth


def clips_more(since: int, metrics: dict[str, float]) -> None:
    if since > 0:
        metrics["clip_fraction"] = min(1.0, 0.55 + metrics["clip_fraction"])


Shape = Callable[[int, dict[str, float]], None]
SHAPES: dict[str, tuple[Shape, int, int, int]] = {  # what happens, the steps of the run, and found within (at every interval)
    "loss_scale": (scale_falls, 18_000, 1500, 4000),
    "activation_norm": (activations_rise, 30_000, 2000, 10_000),
    "grad_norm": (gradient_creeps, 60_000, 5000, 44_000),
    "param_norm": (parameters_turn, 24_000, 1500, 8000),
    "clip_fraction": (clips_more, 24_000, 100, 8000),
}  # fmt: skip


def changed(rows: Iterable[StepReading], *shapes: Shape, first: int = BREAK) -> Iterator[StepReading]:
    for reading in rows:
        metrics = dict(reading.metrics)
        for shape in shapes:
            shape(reading.step - first, metrics)
        yield dataclasses.replace(reading, metrics=metrics)
