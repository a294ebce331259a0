"""How well onsets are dated: |dated - true| before and after the change point, on synthetic faults: pytest -m bench -s.

The fault begins at a known step; the first alarm's own onset ("before") and the date of `DetectorBank.date_onset` ("after") are
compared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest

from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import falling_loss, make_bank, row

SEEDS = range(40)
LAST = 2400
Hurt = Callable[[dict[str, float], int, random.Random], None]


def healthy(dice: random.Random, step: int) -> dict[str, float]:
    """Norms that creep as healthy ones do (up by a third in 2000 steps), and the scale of a healthy fp16 run: halves, doubles."""
    creep = 1.0 + step / 6000
    return {
        "loss": falling_loss(step) * (1.0 + dice.gauss(0.0, 0.02)),
        "grad_norm": 0.4 * creep * dice.lognormvariate(0.0, 0.2),
        "activation_norm": 2.0 * creep * dice.lognormvariate(0.0, 0.03),
        "update_norm": 0.1 * dice.lognormvariate(0.0, 0.1),
        "loss_scale": 65536.0 if step % 300 > 100 else 32768.0,
    }


def spike(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["loss"] += 2.0 if since < 30 else 0.0
    m["grad_norm"] *= 8.0 if since < 30 else 1.0


def gradient_first(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["grad_norm"] *= 6.0
    m["loss"] += 1.5 if since >= 6 else 0.0


def two_rows_of_gradient(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["grad_norm"] *= 6.0
    m["loss"] += 1.5 if since >= 2 else 0.0


def drift(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["loss"] += 0.004 * since


def blow_up(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["loss"] += 0.02 * math.expm1(min(since, 300) / 40)


def activation_creep(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["activation_norm"] *= 1.0 + 0.004 * since
    m["loss"] += 2.0 if since >= 120 else 0.0


def scale_first(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["loss_scale"] = 32768.0 / 2 ** min(4, 1 + since // 40)
    m["loss"] += 2.0 if since >= 150 else 0.0


def nan_after_gradient(m: dict[str, float], since: int, dice: random.Random) -> None:
    m["grad_norm"] *= 1.25**since
    m["loss"] = math.nan if since >= 15 else m["loss"]


FAULTS: dict[str, Hurt] = {
    "spike, no forerunner": spike,
    "gradient 2 rows, then spike": two_rows_of_gradient,
    "gradient 6 rows, then spike": gradient_first,
    "drift +0.004 a step": drift,
    "exponential blow-up": blow_up,
    "activation creep of 120, then spike": activation_creep,
    "loss scale 150 before the spike": scale_first,
    "gradient grows 15 rows, then NaN": nan_after_gradient,
}


def run(hurt: Hurt, seed: int, every: int = 1) -> Iterator[tuple[int, StepReading]]:
    dice = random.Random(f"{hurt.__name__}/{seed}")
    true = dice.randint(900, 1900)
    for step in range(1, LAST):
        metrics = healthy(dice, step)
        if step >= true:
            hurt(metrics, step - true, dice)
        if step % every == 0:
            yield true, row(step, **metrics)


def errors_of(hurt: Hurt, seed: int) -> tuple[int, int] | None:
    """Signed errors, before and after; None when nothing was found."""
    bank = make_bank()
    for true, reading in run(hurt, seed):
        for finding in bank.step(reading, float(reading.step)):
            if finding.severity != "info" and finding.onset_step is not None:
                dated = bank.date_onset(finding)
                return finding.onset_step - true, (dated.step if dated else finding.onset_step) - true
    return None


@pytest.mark.bench
def test_error_of_the_onset_before_and_after() -> None:
    print(f"\n{len(SEEDS)} seeds each; |dated - true| in steps: median, worst, and those dated more than 5 steps early")
    total = [0, 0]
    for name, hurt in FAULTS.items():
        found = [both for seed in SEEDS if (both := errors_of(hurt, seed)) is not None]
        cells = []
        for side in (0, 1):
            errors = sorted(abs(both[side]) for both in found)
            total[side] += sum(errors)
            early = sum(both[side] < -5 for both in found)
            cells.append(f"{errors[len(errors) // 2]:4d} {errors[-1]:4d} {early:3d}")
        print(f"{name:38s} found {len(found):2d}   before {cells[0]}   after {cells[1]}")
        assert found, name
    assert total[1] < total[0]
