"""`healed` is true: no incident of a drawn stream is closed so while the loss stays above where it would have been, and one that
truly came back is closed within a probation.

Cadence, noise, descent, place, height and ramp of one fault are drawn, and whether there is a history. CLOSING_SEED_BASE=N draws
others. Of 4,000 streams (2026-11-27, the seeds below) 805 closings were right, none false and none late; no more than one in 300
may be, for once 3 were: the fault began while the run was too young for its detectors, or hid in noise and descent, and the level
before the incident held rows of it already.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from sentinel.model.incidents import IncidentState
from sentinel.model.readings import StepReading
from tests.closings import Watched, is_false, watch
from tests.sim.kit import policy_named

BASE = int(os.environ.get("CLOSING_SEED_BASE", "20261123"))
FEW, MANY = 150, 4_000
FALSE_SHARE = 1 / 300
FADING_FALSE_SHARE = 1 / 100  # of all streams
FLOOR = 2.2
REST_ROWS = 400


@dataclass(frozen=True)
class Stream:
    """Rows of one fault at row `onset`. stays: rows that it lasts, and then the loss is back; 0: for good, after a ramp. fade: it
    falls back from its height to `rest`, in an exponential of so many rows."""

    cadence: int
    noise: float
    descent: float
    tau: float
    height: float
    ramp: int
    stays: int
    onset: int
    history: int
    is_power_law: bool
    rest: float = 0.0
    fade: float = 0.0

    def level(self, row: int) -> float:
        """Where the loss would stand had nothing happened; rows of the history are negative."""
        age = row + self.history + 1
        return FLOOR + (3 * self.descent * age**-0.3 if self.is_power_law else self.descent * math.exp(-age / self.tau))

    def risen(self, row: int) -> float:
        since = row - self.onset
        if since < 0 or (self.stays and since >= self.stays):
            return 0.0
        if self.fade:
            return self.rest + (self.height - self.rest) * math.exp(-since / self.fade)
        return self.height if self.stays else self.height * min(1.0, (since + 1) / max(1, self.ramp))

    @property
    def rows(self) -> int:
        return self.onset + (self.stays or self.ramp) + REST_ROWS

    def step(self, row: int) -> int:
        return (self.history + 1 + row) * self.cadence

    def row_of(self, step: int) -> int:
        return step // self.cadence - self.history - 1


def draw(seed: int) -> Stream:
    dice = random.Random(f"closings/{seed}")
    return Stream(
        cadence=dice.choice((1, 1, 5, 10, 50, 100, 500)),
        noise=dice.choice((0.003, 0.01, 0.02, 0.04)),
        descent=dice.uniform(0.0, 1.0),
        tau=dice.uniform(50.0, 600.0),
        height=dice.uniform(0.03, 0.5),
        ramp=dice.choice((0, dice.randint(10, 60), dice.randint(60, 2_000))),
        stays=dice.choice((0, dice.randint(5, 200))),
        onset=dice.randint(120, 400),
        history=dice.choice((0, 0, dice.randint(50, 400))),
        is_power_law=dice.random() < 0.5,
    )


def draw_fading(seed: int) -> Stream:
    """A fault that falls back, and not to where the loss would have been, while the loss goes on falling."""
    dice = random.Random(f"fading/{seed}")
    return replace(
        draw(seed),
        descent=dice.uniform(0.0, 1.5),
        height=dice.uniform(0.15, 0.6),
        ramp=300,
        stays=0,
        rest=dice.uniform(0.06, 0.12),
        fade=dice.uniform(5.0, 80.0),
    )


def judged(stream: Stream, seed: int) -> list[tuple[Watched, str]]:
    """Each incident with `false`, `late`, `true` or `open` (also of one that was taken as the new normal)."""
    dice, policy = random.Random(f"noise/{seed}"), policy_named("default")
    loss = {
        row: stream.level(row) * (1.0 + stream.risen(row)) + FLOOR * stream.noise * dice.gauss(0.0, 1.0)
        for row in range(-stream.history, stream.rows)
    }
    told = [StepReading(1, stream.step(row), float(stream.step(row)), (), {"loss": value}) for row, value in loss.items()]
    found = []
    for one in watch(told[stream.history :], policy, tuple(told[: stream.history])):
        closed, opened = stream.row_of(one.step), stream.row_of(one.incident.detected_step)
        back = max(opened, stream.onset + stream.stays) if stream.stays else stream.rows
        after = [(row, loss[row]) for row in range(closed + 1, stream.rows)]
        is_late = min(closed, stream.rows) - back > policy.spec.probation.steps
        if one.state is IncidentState.RECOVERED and is_false(after, stream.level):
            found.append((one, "false"))
        elif is_late:
            found.append((one, "late"))
        else:
            found.append((one, "true" if one.state is IncidentState.RECOVERED else "open"))
    return found


def judge_streams(count: int, draw: Callable[[int], Stream] = draw) -> dict[str, list[str]]:
    print(f"seeds {BASE} to {BASE + count - 1}")
    kept: dict[str, list[str]] = {"false": [], "late": [], "true": [], "open": []}
    for seed in range(BASE, BASE + count):
        stream = draw(seed)
        for one, how in judged(stream, seed):
            kept[how].append(f"seed {seed}, {one.incident.kind} found at {one.incident.detected_step}, {one.step}: {one.reason}")
    return kept


def test_what_is_closed_as_healed_has_healed_and_soon() -> None:
    kept = judge_streams(FEW)
    assert not kept["false"] + kept["late"]
    assert len(kept["true"]) > FEW / 6, "some heal"
    assert len(kept["open"]) > FEW / 2, "and some do not"


@pytest.mark.slow
@pytest.mark.timeout(3600)  # six minutes of the processor, of which a busy machine gives a tenth
def test_and_in_thousands() -> None:
    kept = judge_streams(MANY)
    print(f"{len(kept['true'])} closed rightly, {len(kept['false'])} falsely, {len(kept['late'])} late, {len(kept['open'])} open")
    assert len(kept["false"]) + len(kept["late"]) <= FALSE_SHARE * len(kept["true"]), kept["false"] + kept["late"]


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_what_fades_and_stays_too_high_is_hardly_ever_called_healed(count: int) -> None:
    """What its own descent brings is known only as far as the noise allows, and of a young run not whether it flattens soon."""
    kept = judge_streams(count, draw_fading)
    assert len(kept["false"]) <= FADING_FALSE_SHARE * count, kept["false"]
    assert len(kept["open"]) > count / 2
