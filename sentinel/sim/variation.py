"""A drill once more with other faults of the same kind: where, how long and how strong is drawn from a seed.

*Where*: the first fault strikes at a step drawn from `position`; the others keep their distance in whole checkpoint intervals,
and each strikes anywhere within its own interval, so that the same checkpoint is the newest. Ranks, the side of a supervisor's
death and the noise of the run are drawn too. *How long*: lengths, seconds and counts times a factor. *How strong*: heights and
losses in nats times a factor. A step 0 stays one, and a checkpoint that rots moves by whole intervals.

What a file does not narrow follows from the kinds of its faults: what is seen in the loss may strike once the policy's baseline
is awake and while steps are left to see it in, everything else anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sentinel.policy.quantities import Malformed, parse_factor, parse_positive_steps
from sentinel.policy.schema import Policy
from sentinel.sim.faults import ACTION, KINDS, OF_CHECKPOINTS, SAMPLE, STEP, TIME, Fault, parse_fault
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape

Range = tuple[float, float]

LENGTHS = ("length", "for", "times")
STRENGTHS = ("height", "loss")
SEEN_IN_LOSS = ("bad_data", "spike", "unstable", "bit_flip", "sick_optimizer", "drift", "scale_collapse")
LENGTH: Range = (0.5, 1.5)
MAGNITUDE: Range = (0.5, 2.0)
# Kinds for which a common default would change what the fault is.
LENGTH_OF: dict[str, Range] = {"nan_grad": (1.0, 1.0), "slow": (0.5, 1.0)}  # so many in a row are an alarm; a long step is a hang
MAGNITUDE_OF: dict[str, Range] = {"bad_data": (0.8, 1.3)}  # a loss, not a rise: half of it is an ordinary loss
AWAKE_STEPS, SEEN_STEPS = 10, 20  # past what the baseline needs; left behind the last fault


@dataclass(frozen=True, slots=True)
class Vary:
    """Ranges a drill file gives; None is the default of each fault's kind. `position` in steps, the others are factors."""

    position: tuple[int, int] | None = None
    length: Range | None = None
    magnitude: Range | None = None


def parse_span(value: object) -> tuple[int, int]:
    """`60..240 steps` as (first, last)."""
    low, dots, high = value.partition("..") if isinstance(value, str) else ("", "", "")
    if not dots:
        raise Malformed(f"{value!r} is not a range of steps", "write it as '60..240 steps'")
    first, last = parse_positive_steps(f"{low} steps"), parse_positive_steps(high)
    if first > last:
        raise Malformed(f"{value!r} runs backwards", f"write the smaller one first: '{last}..{first} steps'")
    return first, last


def parse_factors(value: object) -> Range:
    """`0.5x..2x` as (least, most)."""
    low, dots, high = value.partition("..") if isinstance(value, str) else ("", "", "")
    if not dots:
        raise Malformed(f"{value!r} is not a range of factors", "write it as '0.5x..2x', or '1x..1x' for as it is")
    least, most = parse_factor(low), parse_factor(high)
    if least > most:
        raise Malformed(f"{value!r} runs backwards", f"write the smaller one first: '{high}..{low}'")
    return least, most


def vary_scenario(scenario: Scenario, vary: Vary, policy: Policy, seed: int) -> Scenario:
    """The scenario with its faults, and the noise of its run, drawn from `seed`; the same on every machine."""
    dice = random.Random(f"{seed}/{scenario}")
    shape = replace(scenario.shape, curve=replace(scenario.shape.curve, seed=seed))
    drawn = tuple(_Draw(dice, shape, vary).faults(scenario.faults, policy))
    return replace(scenario, seed=seed, shape=shape, faults=drawn)


def first_step(fault: Fault, shape: Shape) -> int:
    """The step at which it strikes in a run that skips nothing; 0 for what has no place in the run's steps."""
    if fault.place == SAMPLE:
        return int(fault.at) // shape.batch + 1
    return fault.step if fault.place == STEP else 0


def default_position(faults: Sequence[Fault], shape: Shape, policy: Policy, length: Range | None) -> tuple[int, int]:
    """Where the first of these faults may strike."""
    first = 2
    last = shape.steps - _spread(faults, shape)
    if any(fault.kind in SEEN_IN_LOSS for fault in faults):
        spike = policy.spec.detectors.spike
        first = max(spike.min_history_steps, spike.window_steps) + spike.level_steps + AWAKE_STEPS
        last -= SEEN_STEPS + max(int(_steps_long(fault, shape) * _length_of(fault, length)[1]) for fault in faults)
    elif any(fault.kind.startswith("nan") for fault in faults):
        last -= SEEN_STEPS
    own = min(first_step(fault, shape) for fault in faults)
    return min(first, own), max(last, own)


def _spread(faults: Sequence[Fault], shape: Shape) -> int:
    """From the first fault to the farthest the last may be moved."""
    if len(faults) == 1:
        return 0
    intervals = [_interval(first_step(fault, shape), shape) for fault in faults]
    return (max(intervals) - min(intervals) + 1) * shape.checkpoint_every


def _interval(step: int, shape: Shape) -> int:
    """Steps 1..every are interval 0: a fault in interval n finds n checkpoints."""
    return (step - 1) // shape.checkpoint_every


def _steps_long(fault: Fault, shape: Shape) -> float:
    return (fault.behind - fault.at) / shape.batch if fault.place == SAMPLE else float(fault.options.get("length", "1"))


def _length_of(fault: Fault, given: Range | None) -> Range:
    return given or LENGTH_OF.get(fault.kind, LENGTH)


class _Draw:
    """One drawing of every fault of a file."""

    def __init__(self, dice: random.Random, shape: Shape, vary: Vary) -> None:
        self._dice = dice
        self._shape = shape
        self._vary = vary

    def faults(self, faults: Sequence[Fault], policy: Policy) -> list[Fault]:
        placed = [fault for fault in faults if first_step(fault, self._shape) > 0]
        if not placed:
            return [self._rewritten(fault, 0) for fault in faults]
        leader = min(placed, key=lambda fault: first_step(fault, self._shape))
        low, high = self._vary.position or default_position(placed, self._shape, policy, self._vary.length)
        step = self._dice.randint(low, high)
        moved = _interval(step, self._shape) - _interval(first_step(leader, self._shape), self._shape)
        return [self._rewritten(fault, step if fault is leader else self._near(fault, moved)) for fault in faults]

    def _near(self, fault: Fault, moved: int) -> int:
        """Anywhere in the fault's own checkpoint interval, which was moved by so many."""
        own = first_step(fault, self._shape)
        if own == 0:
            return 0
        every = self._shape.checkpoint_every
        return max(0, _interval(own, self._shape) + moved) * every + self._dice.randint(1, every)

    def _rewritten(self, fault: Fault, step: int) -> Fault:
        options = {name: self._option(fault, name) for name in fault.options}
        items = [f"{name}={value}" for name, value in options.items() if value != KINDS[fault.kind][1][name]]
        items += [f"attempt={fault.attempt}"] if fault.attempt else []
        items += ["always"] if fault.always else []
        tail = f":{','.join(items)}" if items else ""
        return parse_fault(f"{fault.kind}@{fault.place}={self._place(fault, step)}{tail}")

    def _place(self, fault: Fault, step: int) -> str:
        dice, every = self._dice, self._shape.checkpoint_every
        if fault.place == ACTION:
            return fault.word
        if fault.place == SAMPLE:
            start = (step - 1) * self._shape.batch + dice.randrange(self._shape.batch)
            count = round((fault.behind - fault.at) * dice.uniform(*_length_of(fault, self._vary.length)))
            return f"{start}-{start + max(1, count)}"
        if fault.place == STEP:
            return str((_interval(step, self._shape) + 1) * every if fault.kind in OF_CHECKPOINTS else step)
        if fault.place == TIME:
            return f"{fault.at * dice.uniform(0.5, 1.5):.2f}"
        return str(dice.randint(max(1, int(fault.at) // 2), max(1, 2 * int(fault.at))))  # of a journal's appends, or effects

    def _option(self, fault: Fault, name: str) -> str:
        value = fault.options[name]
        if name == "rank":
            return str(self._dice.randrange(self._shape.ranks))
        if name == "side":
            return self._dice.choice(("before", "after"))
        if name in LENGTHS:
            return self._times(value, _length_of(fault, self._vary.length), least=1.0 if name != "for" else 0.0)
        if name in STRENGTHS:
            return self._times(value, self._vary.magnitude or MAGNITUDE_OF.get(fault.kind, MAGNITUDE), least=0.0)
        return value

    def _times(self, value: str, factors: Range, least: float) -> str:
        number = float(value) * self._dice.uniform(*factors)
        return f"{max(least, round(number)):g}" if least else f"{number:.2f}"
