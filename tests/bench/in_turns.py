"""The command line of a bench that trains several ways in turn, alone or under torchrun."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from trainer.world import World, join_world

Compare = Callable[[list[str], int, int, Path, World], None]
"""The trainer's words, rounds, steps a block, a folder of its own, and the ranks."""


def main(compare: Compare, *, rounds: int, steps: int) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=steps)
    given, words = parser.parse_known_args()
    torch.set_num_threads(1)
    world = join_world()
    with tempfile.TemporaryDirectory() as place:
        compare(words or ["--preset", "tiny"], given.rounds, given.steps, Path(place), world)
        dist.barrier()
    dist.destroy_process_group()


def sure_of_median(values: list[float]) -> tuple[float, float]:
    """Between these the median of what was drawn from lies, in 95 of 100 such measurements: two of its ordered values, by the
    normal approximation of the binomial (Conover, Practical Nonparametric Statistics, 3.2); no shape is supposed."""
    ordered, half = sorted(values), 0.98 * math.sqrt(len(values))
    last = len(ordered) - 1
    low, high = math.floor(len(ordered) / 2 - half), math.ceil(len(ordered) / 2 + half)
    return ordered[max(low, 0)], ordered[min(high, last)]
