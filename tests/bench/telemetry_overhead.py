"""The same training three times over in one process, block of steps by block of steps in turn: with all that the trainer tells,
with nothing told, and told the way one would at first (a hook on every block, `.item()` on every norm).

    python -m tests.bench.telemetry_overhead [--rounds 600] [--steps 1] [--preset tiny] [--set SECTION.FIELD=VALUE …]

Under torchrun it is the same over its ranks. Taking turns cancels what the machine does besides; of the ratios of neighbouring
blocks the median counts. A single ratio says little on a machine with neighbours (half of them lie 4 % or more
from the median), so there are many, and between which two numbers their median lies is printed with it.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sentinel.client import Session, Spec
from tests.bench.in_turns import ROUNDS_MIN, main
from tests.bench.spread import sure_of_median
from trainer.command_line import parse_arguments
from trainer.control import Control
from trainer.run import Run, build_run
from trainer.start import begin
from trainer.telemetry import Telemetry
from trainer.train import _train_one
from trainer.world import World

KINDS = ("none", "all", "naive")
QUIET = ("telemetry.layers=false", "telemetry.updates=false")
WARM_UP_STEPS = 5
BARS = {"cuda": 0.005, "cpu": 0.02}


class Silence(Telemetry):
    """Tells nothing and asks the device for nothing."""

    def begin(self, step: int) -> None:
        self._step = step

    def measured(self, *_: Any) -> None: ...

    def step(self, *_: Any, **__: Any) -> None: ...

    def settled(self) -> Iterator[Any]:
        return iter(())

    def phase(self, *_: Any) -> None: ...

    def _print(self, line: str) -> None: ...


class Unprinted(Telemetry):
    """Everything but the lines for people, which would mix with the table."""

    def _print(self, line: str) -> None: ...


@dataclass
class Naive:
    """What a person writes first: each number asked for where it arises."""

    run: Run
    path: Path

    def __post_init__(self) -> None:
        self.row: dict[str, float] = {}
        for number, block in enumerate(self.run.model.blocks):
            block.register_forward_hook(self._after_block(number))
        self._update = self.run.optimizer.update
        self.run.optimizer.update = self._measured_update

    def _after_block(self, number: int) -> Callable[..., None]:
        @torch.no_grad()
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            x = output[0] if isinstance(output, tuple) else output
            self.row[f"activation_norm/{number}"] = x.float().square().mean().sqrt().item()
            self.row[f"activation_max/{number}"] = x.abs().max().item()

        return hook

    @torch.no_grad()
    def _measured_update(self, *arguments: Any) -> Any:
        for name, parameter in self.run.model.named_parameters():
            self.row[f"param_norm/{name}"] = parameter.norm().full_tensor().item()
            self.row[f"grad_norm/{name}"] = parameter.grad.norm().full_tensor().item()
        if self.run.world.rank == 0:
            with self.path.open("a") as file:
                file.write(json.dumps(self.row) + "\n")
        return self._update(*arguments)


def prepare(kind: str, words: list[str], place: Path, world: World) -> tuple[Run, Control]:
    """A run at step 0 that tells as `kind` says."""
    sets = QUIET if kind != "all" else ()
    launch = parse_arguments([*words, "--set", "schedule.steps=1000000", *sets, "--out-dir", str(place / kind)])
    session = Session(place / kind, Spec(attempt=1), world.rank) if kind == "all" else None
    run = build_run(launch, session, world)
    other = Unprinted if kind == "all" else Silence
    run.telemetry.__class__ = other  # the same object, told to hold its tongue
    if kind == "naive":
        (place / kind).mkdir(exist_ok=True)
        Naive(run, place / kind / "naive.jsonl")
    begin(run)
    control = Control(world, session)
    control.offer()
    return run, control


def train(run: Run, control: Control, steps: int) -> tuple[float, float]:
    """Seconds a step: by the wall, the device waited for at both ends, and of this rank's processor time."""
    wait = torch.cuda.synchronize if run.world.device.type == "cuda" else lambda: None
    wait()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(steps):
        control.decide()
        _train_one(run, control)
    wait()
    return (time.perf_counter() - began_s) / steps, (time.process_time() - began_cpu_s) / steps


def compare(given: Namespace, words: list[str], place: Path, world: World) -> Iterator[dict[str, Any]]:
    kinds, count = given.kinds, len(given.kinds)
    with ExitStack() as stack:
        runs = {kind: prepare(kind, words, place, world) for kind in kinds}
        for run, _ in runs.values():
            stack.enter_context(run.telemetry)
        for kind in kinds:
            train(*runs[kind], WARM_UP_STEPS)
        blocks: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for number in range(given.rounds):
            for kind in (kinds[number % count :] + kinds[: number % count])[:: 1 if number % 2 else -1]:
                blocks[kind].append(train(*runs[kind], given.steps))
            if number + 1 >= ROUNDS_MIN:
                yield figures(blocks)
        check_same_training(runs)
    if world.rank == 0:
        print_table(blocks, runs["all"][0])


def figures(blocks: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """Seconds a step of each kind, medians so far; and what telling costs, quartiles of neighbours."""
    found: dict[str, Any] = {"step_s": {kind: statistics.median(wall for wall, _ in times) for kind, times in blocks.items()}}
    for kind, times in blocks.items():
        if kind != "none":
            over = [own[0] / none[0] - 1 for own, none in zip(times, blocks["none"], strict=True)]
            found[f"cost of {kind}"] = statistics.quantiles(over, n=4)
    return found | {"rounds": len(blocks["none"])}


def check_same_training(runs: dict[str, tuple[Run, Control]]) -> None:
    """All three have come to the same weights, up to the order in which a norm was summed."""
    squares = [sum(shard.detach().double().square().sum() for shard in run.optimizer.shards.values()) for run, _ in runs.values()]
    for norm in squares[1:]:
        assert math.isclose(float(norm), float(squares[0]), rel_tol=1e-3), "telling has changed what was trained"


def print_table(blocks: dict[str, list[tuple[float, float]]], run: Run) -> None:
    device = run.world.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    line = run.telemetry.recent[-1]
    print(f"\n{run.launch.recipe}, {run.params} parameters, {run.world.size} rank(s), {name}; {len(line)} numbers a step line")
    print("             ms a step, of it host processor   cost by the wall (95 % sure; quartiles), by processor time")
    for kind, times in blocks.items():
        wall, own = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
        cost = "" if kind == "none" else f"{costs(times, blocks['none'], 0)} {costs(times, blocks['none'], 1)}"
        bar = f"   our bar: {BARS[device.type]:.1%}" if kind == "all" else ""
        print(f"  {kind:6} {wall:12.3f} {own:12.3f}             {cost}{bar}")


def costs(times: list[tuple[float, float]], without: list[tuple[float, float]], column: int) -> str:
    """The median of what each block cost beyond its neighbour without."""
    over = [own[column] / none[column] - 1 for own, none in zip(times, without, strict=True)]
    low, middle, high = statistics.quantiles(over, n=4)
    least, most = sure_of_median(over)
    return f"{middle:+8.2%} ({least:+.2%} … {most:+.2%}; {low:+.2%} … {high:+.2%})"


if __name__ == "__main__":
    main(compare, rounds=600, steps=1, kinds=KINDS)
