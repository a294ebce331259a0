"""Tokens a second: the trainer with every stream on, beside a plain PyTorch loop of the same model, in turns in one process.

    python -m tests.bench.trainer_speed [--rounds 20] [--steps 4] [--preset tiny] [--set SECTION.FIELD=VALUE …]

The plain loop (tests/plain_gpt.py) has fused attention and the fused AdamW, clips by the global norm, and tells nothing. Where
parallel.compile is on, its loss is compiled whole. Of the ratios of neighbouring blocks of steps the median counts.
"""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from sentinel.client import Session, Spec
from tests.bench.in_turns import ROUNDS_MIN, main
from tests.bench.telemetry_overhead import Unprinted, train
from tests.plain_gpt import PlainTrainer, initial_weights_of
from trainer.command_line import parse_arguments
from trainer.control import Control
from trainer.data_order import Position
from trainer.rates import mfu_of, peak_memory_bytes
from trainer.run import Run, build_run
from trainer.start import begin
from trainer.world import World

WARM_UP_STEPS = 5
BAR = 0.95


def prepare(words: list[str], place: Path, world: World) -> tuple[Run, Control]:
    launch = parse_arguments([*words, "--set", "schedule.steps=1000000", "--out-dir", str(place)])
    session = Session(place, Spec(attempt=1), world.rank)
    run = build_run(launch, session, world)
    run.telemetry.__class__ = Unprinted
    begin(run)
    control = Control(world, session)
    control.offer()
    return run, control


def plain_loop(run: Run) -> Callable[[int], float]:
    """Trains so many steps on the same batches; seconds a step."""
    device = run.world.device
    weights = {name: value.to(device) for name, value in initial_weights_of(run.config, run.model.embed.num_embeddings).items()}
    plain = PlainTrainer(run.config, weights, fused=True)
    if run.config.parallel.compile:
        plain.loss = torch.compile(plain.loss)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    position, done = Position.first(run.config.data_seed), 0

    def train_plainly(steps: int) -> float:
        nonlocal position, done
        wait()
        began_s = time.perf_counter()
        for _ in range(steps):
            done += 1
            indices, behind = position.take(run.schedule.batch_size(done))
            plain.train_step(*run.loader.batch(indices, position, 0, 1), lr=run.schedule.lr(done))
            position = behind
        wait()
        return (time.perf_counter() - began_s) / steps

    return train_plainly


def compare(given: Namespace, words: list[str], place: Path, world: World) -> Iterator[dict[str, Any]]:
    steps = given.steps
    run, control = prepare(words, place, world)
    with run.telemetry:
        train(run, control, WARM_UP_STEPS)
        peak_bytes = peak_memory_bytes(run.world.device)
        first = [train(run, control, steps)[0] for _ in range(ROUNDS_MIN)]
        yield figures(run, first, []) | {"peak_memory_bytes": peak_bytes}  # the other takes a minute to be compiled
        plainly = None if given.alone else warm_plain_loop(run)
        ours: list[float] = []
        plain: list[float] = []
        for number in range(given.rounds):
            for is_plain in (number % 2 == 1, number % 2 == 0):
                if not is_plain:
                    ours.append(train(run, control, steps)[0])
                elif plainly is not None:
                    plain.append(plainly(steps))
            if number + 1 >= ROUNDS_MIN:
                yield figures(run, ours, plain) | {"peak_memory_bytes": peak_bytes}
    tell(run, figures(run, ours, plain))


def warm_plain_loop(run: Run) -> Callable[[int], float] | None:
    """None where its memory does not fit beside: our own figures do not depend on it."""
    try:
        plainly = plain_loop(run)
        plainly(WARM_UP_STEPS)
    except torch.OutOfMemoryError as error:
        print(f"the plain loop does not fit: {str(error).splitlines()[0]}")
        return None
    return plainly


def figures(run: Run, ours: list[float], plain: list[float]) -> dict[str, Any]:
    """Medians of the blocks so far; of the ratio of neighbours the quartiles."""
    device, config = run.world.device, run.config
    mfu = mfu_of(config, run.model.embed.num_embeddings, device, run.world.size)
    both = {"plain": plain, "trainer": ours}
    rates = {kind: run.schedule.tokens(1) / statistics.median(times) for kind, times in both.items() if times}
    found: dict[str, Any] = {"tokens_per_s": rates, "rounds": len(ours), "kernels": run.kernels.name}
    if plain:
        found["of_plain"] = statistics.quantiles([b / a for a, b in zip(ours, plain, strict=True)], n=4)
    return found | ({"mfu": {kind: mfu(rate, config.data.seq_len) for kind, rate in rates.items()}} if mfu is not None else {})


def tell(run: Run, found: dict[str, Any]) -> None:
    device, config = run.world.device, run.config
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU, 1 thread"
    tokens = run.schedule.tokens(1)
    print(f"\n{run.launch.recipe}, {run.params} parameters, {config.numerics.precision}, {tokens} tokens a step, 1 rank, {name}")
    for words, kind in (("plain loop", "plain"), ("trainer, all streams", "trainer")):
        if kind not in found["tokens_per_s"]:
            continue
        used = f", mfu {found['mfu'][kind]:.1%}" if "mfu" in found else ""
        print(f"  {words:22} {found['tokens_per_s'][kind]:12,.0f} tokens/s{used}")
    if "of_plain" not in found:
        return
    low, middle, high = found["of_plain"]
    print(f"  trainer : plain loop   {middle:.1%} ({low:.1%} … {high:.1%})   our bar: {BAR:.0%} on a CPU")


if __name__ == "__main__":
    main(compare, rounds=20, steps=4)
