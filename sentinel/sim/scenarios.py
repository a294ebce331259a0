"""Disasters drawn from a seed: a run of random shape, and nothing, one, several or far too many faults.

The same seed gives the same scenario on every machine. Some scenarios are such that the shipped policies can repair every
fault; those must train all their steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from sentinel.sim.faults import SOURCES, Fault, parse_fault
from sentinel.sim.learning import Curve
from sentinel.sim.run import Scenario
from sentinel.sim.trainer import Shape

Draw = Callable[[random.Random, Shape, int], str]

PLANS = ("healthy", "one", "several", "chaos", "hopeless")
WEIGHTS = (8, 38, 26, 20, 8)
GAP_STEPS = 110  # between repairable faults: a repair and its probation fit in between
RETRIED = ("StartAttempt", "KillAttempt", "VerifyCheckpoint", "Quarantine", "Capture", "SendPage", "RequestStop")


def _bad_data(dice: random.Random, shape: Shape, step: int) -> str:
    start = step * shape.batch + dice.randrange(shape.batch)
    return f"bad_data@sample={start}-{start + dice.randrange(40, 400)}:heals={dice.choice(('fast', 'slow', 'never'))}"


def _rank(dice: random.Random, shape: Shape) -> int:
    return dice.randrange(shape.ranks)


REPAIRABLE: tuple[Draw, ...] = (
    lambda dice, shape, step: f"kill@step={step}:rank={_rank(dice, shape)}",
    lambda dice, shape, step: f"kill@step={step}:rank={_rank(dice, shape)}",
    lambda dice, shape, step: f"hang@step={step}:rank={_rank(dice, shape)}",
    lambda dice, shape, step: f"crash@step={step}:rank={_rank(dice, shape)}",
    lambda dice, shape, step: f"keeper_kill@step={step}",
    lambda dice, shape, step: f"slow@step={step}:for={dice.choice((2, 5, 9, 30))}",
    lambda dice, shape, step: f"damaged_line@step={step}:length={dice.choice((1, 3))}",
    lambda dice, shape, step: f"nan_grad@step={step}:length={dice.choice((1, 2, 4, 7))}",
    lambda dice, shape, step: f"nan_state@step={step}",
    lambda dice, shape, step: f"spike@step={step}:length={dice.choice((1, 2, 4, 12))},height={dice.choice((0.5, 2, 8))}",
    _bad_data,
    _bad_data,
    _bad_data,
)
BEYOND: tuple[Draw, ...] = (
    *REPAIRABLE,
    lambda dice, shape, step: f"exit@step={step}:code={dice.choice((1, 5, 77))}",
    lambda dice, shape, step: f"exit@step={step}:code={dice.choice((3, 4))}",
    lambda dice, shape, step: f"exit@step=0:code=1,attempt={dice.randrange(1, 4)}",
    lambda dice, shape, step: f"kill@step={step}:attempt={dice.randrange(2, 4)}",
    lambda dice, shape, step: f"hang@step={step}:attempt={dice.randrange(2, 4)}",
    lambda dice, shape, step: f"bit_rot@step={step // shape.checkpoint_every * shape.checkpoint_every or shape.checkpoint_every}",
    lambda dice, shape, step: f"unstable@step={step}",
    lambda dice, shape, step: f"term@step={step}",
)
HOPELESS: tuple[Draw, ...] = (
    lambda dice, shape, step: f"crash@step={step}:always",
    lambda dice, shape, step: f"kill@step={step}:rank={_rank(dice, shape)}:always",
    lambda dice, shape, step: f"hang@step={step}:rank={_rank(dice, shape)}:always",
    lambda dice, shape, step: f"nan_state@step={step}:always",
    lambda dice, shape, step: "exit@step=0:always",
    lambda dice, shape, step: f"exit@step={step}:code=5:always",
    lambda dice, shape, step: f"exit@step={step}:code=3:always",
    lambda dice, shape, step: f"spike@step={step}:length=3,height=4:always",
    lambda dice, shape, step: f"bit_rot@step={shape.checkpoint_every}:always",
)


def draw_scenario(seed: int, long_history: bool = False) -> Scenario:
    """`long_history`: the policy needs hundreds of steps before its detectors are awake, so the run is longer."""
    dice = random.Random(seed)
    shape = _draw_shape(dice, seed, long_history)
    plan = dice.choices(PLANS, WEIGHTS)[0]
    texts = _draw_faults(dice, shape, plan)
    observe_only = dice.random() < 0.06
    must_finish = plan in ("healthy", "one", "several") and not observe_only
    texts += _draw_supervisor_deaths(dice)
    if dice.random() < 0.12:
        texts.append(_draw_blindness(dice))
    if dice.random() < 0.1:
        texts.append(f"fails@action={dice.choice(RETRIED)}:times={dice.randrange(1, 4)},retry={dice.choice((1, 4))}")
    if plan == "chaos" and dice.random() < 0.2:
        texts.append(f"stop@time={dice.randrange(5, 200)}")
    if plan == "chaos" and dice.random() < 0.15:
        texts.append(f"fails@action={dice.choice(RETRIED)}:times=1,retry=0")
    if plan in ("chaos", "hopeless") and dice.random() < 0.3:
        texts += ["again@time=0:for=60", "again@time=0:for=20"][: dice.randrange(1, 3)]
    faults = tuple(parse_fault(text) for text in dict.fromkeys(texts))
    return Scenario(
        seed=seed,
        shape=shape,
        faults=faults,
        observe_only=observe_only,
        must_finish=must_finish and all(fault.kind not in ("stop", "again") for fault in faults),
        lines_per_poll=dice.choice((5000, 5000, 7)),
        hears=dice.random() < 0.7,
    )


def _draw_shape(dice: random.Random, seed: int, long_history: bool) -> Shape:
    steps = dice.randrange(700, 1100) if long_history else dice.randrange(110, 330)
    return Shape(
        steps=steps,
        ranks=dice.choice((1, 2, 2, 4)),
        step_s=dice.choice((0.2, 0.4, 0.7, 1.1)),
        startup_s=dice.choice((1.0, 3.0, 8.0)),
        first_step_s=dice.choice((0.3, 2.0, 20.0)),
        checkpoint_every=dice.choice((10, 20, 25, 50)),
        save_s=dice.choice((0.1, 0.8, 4.0, 12.0)),
        max_skipped=dice.choice((20, 100)),
        curve=Curve(seed, loss_noise=dice.choice((0.003, 0.01, 0.02, 0.04))),
    )


def _draw_faults(dice: random.Random, shape: Shape, plan: str) -> list[str]:
    def step() -> int:
        return dice.randrange(2, shape.steps)

    if plan == "one":
        return [dice.choice(REPAIRABLE)(dice, shape, step())]
    if plan == "several":
        places = range(dice.randrange(5, GAP_STEPS), shape.steps, GAP_STEPS)
        return [dice.choice(REPAIRABLE)(dice, shape, place) for place in places]
    if plan == "chaos":
        near = step()
        return [dice.choice(BEYOND)(dice, shape, step() if dice.random() < 0.5 else near) for _ in range(dice.randrange(2, 7))]
    if plan == "hopeless":
        return [dice.choice(HOPELESS)(dice, shape, step())]
    return []


def _draw_supervisor_deaths(dice: random.Random) -> list[str]:
    if dice.random() > 0.4:
        return []
    texts = []
    for _ in range(dice.randrange(1, 4)):
        place = dice.choice(("time", "journal", "effect"))
        at = {"time": dice.randrange(1, 200), "journal": dice.randrange(1, 40), "effect": dice.randrange(1, 9)}[place]
        side = "" if place == "time" else f",side={dice.choice(('before', 'after'))}"
        texts.append(f"supervisor_kill@{place}={at}:for={dice.choice((1, 5, 40))}{side}")
    return texts


def _draw_blindness(dice: random.Random) -> str:
    return f"blind@time={dice.randrange(1, 150)}:source={dice.choice(SOURCES)},for={dice.choice((3, 20, 90))}"


def faults_text(faults: tuple[Fault, ...]) -> str:
    return "  ".join(fault.text for fault in faults) or "no fault"
