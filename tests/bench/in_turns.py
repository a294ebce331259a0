"""The command line of a bench that trains several ways in turn, alone or under torchrun.

    --rounds N, --steps N          blocks of so many steps of each way
    --record FILE --label WORDS    keep the figures so far there, after each round (cuda_ext.bench.record)
    --alone                        nothing beside the trainer, where that is what a bench compares

Everything else is the trainer's.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from cuda_ext.bench import record
from trainer.world import World, join_world

ROUNDS_MIN = 4  # quartiles of fewer say nothing
Figures = Mapping[str, Any]
Compare = Callable[[argparse.Namespace, list[str], Path, World], Iterator[Figures]]
"""What was asked for, the trainer's words, a folder of its own, and the ranks. Yields the figures so far."""


def main(compare: Compare, *, rounds: int, steps: int, kinds: tuple[str, ...] = ()) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=Path)
    parser.add_argument("--label", default="")
    parser.add_argument("--alone", action="store_true")
    if kinds:
        parser.add_argument("--kinds", type=lambda words: tuple(words.split(",")), default=kinds)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=steps)
    given, words = parser.parse_known_args()
    torch.set_num_threads(1)
    world = join_world()
    with tempfile.TemporaryDirectory() as place:
        for figures in compare(given, words or ["--preset", "tiny"], Path(place), world):
            if given.record is not None and world.rank == 0:
                record.write(given.record, {}, {"trainer": {given.label: dict(figures)}})
        dist.barrier()
    dist.destroy_process_group()
