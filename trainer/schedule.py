"""What each step is trained with, as pure functions of its number: learning rate, weight decay, batch and sequence length.

All are functions of the step alone, so a rollback, a resume and a relaunch compute the same numbers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from .config import Config

SEQ_RAMP_UNIT = 8  # lengths move in eights: tensor cores want them, and a compiled block is specialised to few of them


@dataclass(frozen=True)
class Stage:
    """A stretch of steps with one batch size. `step`: its first; `samples`: trained on before it."""

    step: int
    samples: int
    batch_size: int


class Schedule:
    """Of a run."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stages = batch_stages(config)

    def batch_size(self, step: int) -> int:
        """Sequences over all ranks."""
        return self._stage(step).batch_size

    def samples_before(self, step: int) -> int:
        """Sequences that the steps before this one trained on."""
        stage = self._stage(step)
        return stage.samples + (step - stage.step) * stage.batch_size

    def batch_sizes(self) -> list[int]:
        """All that occur."""
        return [stage.batch_size for stage in self._stages]

    def seq_len(self, step: int) -> int:
        """Tokens a sequence: grows along a line to data.seq_len (Li et al. 2021, sequence length warm-up)."""
        full, ramp = self._config.data.seq_len, self._config.schedule.seq_ramp
        if ramp is None or step > ramp[1]:
            return full
        length = ramp[0] + (full - ramp[0]) * (step - 1) / ramp[1]
        return min(full, max(ramp[0], int(length) // SEQ_RAMP_UNIT * SEQ_RAMP_UNIT))

    def tokens(self, step: int) -> int:
        return self.batch_size(step) * self.seq_len(step)

    @property
    def tokens_per_step(self) -> int | None:
        """Where all steps train on as many. None under a ramp: times a step's number it would be no count of tokens."""
        plan = self._config.schedule
        return self.tokens(1) if plan.batch_ramp is None and plan.seq_ramp is None else None

    def lr(self, step: int) -> float:
        """The learning rate of an update before any override: linear warm-up, then the decay that was chosen."""
        return self.peak_lr(step) * self._share(step)

    def peak_lr(self, step: int) -> float:  # noqa: ARG002 - a subclass may change it in the course of a run
        """What the warm-up leads up to and the decay starts from."""
        return self._config.optim.lr

    def weight_decay(self, step: int) -> float:
        """From optim.weight_decay along a cosine to schedule.weight_decay_end (Caron et al. 2021, DINO)."""
        start, end = self._config.optim.weight_decay, self._config.schedule.weight_decay_end
        if end is None:
            return start
        return end + (start - end) * _half_cosine(min(1.0, step / self._config.schedule.steps))

    def _share(self, step: int) -> float:
        """Of the peak learning rate."""
        plan = self._config.schedule
        warm = self._warm_up(step)
        if warm < 1.0:
            return warm
        least, progress = plan.min_lr_ratio, self._progress(step)
        if plan.kind == "cosine":
            return least + (1 - least) * _half_cosine(progress)
        if plan.kind == "linear":
            return 1 - (1 - least) * progress
        if plan.kind == "wsd":  # stable, then a straight line down over the last share of all steps
            left = (plan.steps - step) / max(1.0, plan.decay_share * plan.steps)
            return 1.0 if left >= 1 else least + (1 - least) * max(0.0, left)
        return 1.0

    def _warm_up(self, step: int) -> float:
        plan = self._config.schedule
        if plan.warmup_samples is not None:
            return self.samples_before(step + 1) / plan.warmup_samples
        return step / plan.warmup_steps if step <= plan.warmup_steps else 1.0

    @cached_property
    def warm_up_steps(self) -> int:
        """The last step of the warm-up, whichever way it is counted."""
        plan = self._config.schedule
        return plan.warmup_steps if plan.warmup_samples is None else self._step_of_sample(plan.warmup_samples)

    def _progress(self, step: int) -> float:
        """Of the decay: 0 where the warm-up ends, 1 at the last step."""
        first, last = self.warm_up_steps, self._config.schedule.steps
        return min(1.0, max(0.0, (step - first) / max(1, last - first)))

    def _step_of_sample(self, samples: int) -> int:
        """The last step that trains on one of the first so many sequences."""
        stage = self._stages[bisect_right(self._stages, samples, key=lambda stage: stage.samples) - 1]
        return stage.step - 1 + math.ceil((samples - stage.samples) / stage.batch_size)

    def _stage(self, step: int) -> Stage:
        return self._stages[max(0, bisect_right(self._stages, step, key=lambda stage: stage.step) - 1)]


def batch_stages(config: Config) -> list[Stage]:
    """The ramp-up in equal shares of its samples (GPT-3; Megatron's --rampup-batch-size), ending at data.batch_size."""
    full, ramp = config.data.batch_size, config.schedule.batch_ramp
    if ramp is None:
        return [Stage(1, 0, full)]
    start, increment, ramp_samples = ramp
    sizes = range(start, full, increment)
    stages, step, samples = [], 1, 0
    for number, size in enumerate(sizes, start=1):
        stages.append(Stage(step, samples, size))
        until = ramp_samples * number / len(sizes)
        steps = max(1, math.ceil((until - samples) / size))
        step, samples = step + steps, samples + steps * size
    return [*stages, Stage(step, samples, full)]


def _half_cosine(progress: float) -> float:
    """From 1 to 0."""
    return 0.5 * (1 + math.cos(math.pi * progress))
