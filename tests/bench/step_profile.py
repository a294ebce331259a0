"""Where a step's time on the device goes: the operators and kernels of three steps with all streams on, by their own time.

    python -m tests.bench.step_profile [--record FILE] [--preset gpt2-124m] [--set SECTION.FIELD=VALUE …]

What misses its goal is looked for here: attention's kernel, whether GELU's gradient and its bias's sum are one pass, copies.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tests.bench.in_turns import main
from tests.bench.telemetry_overhead import train
from tests.bench.trainer_speed import WARM_UP_STEPS, prepare
from trainer.world import World

SHOWN = 30
NAME_CHARACTERS = 100


def compare(given: Namespace, words: list[str], place: Path, world: World) -> Iterator[dict[str, Any]]:
    run, control = prepare(words, place, world)
    on_gpu = world.device.type == "cuda"
    with run.telemetry:
        train(run, control, WARM_UP_STEPS)
        with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as seen:
            train(run, control, given.steps)
    own = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    events = [event for event in seen.key_averages() if not on_gpu or event.device_type == torch.autograd.DeviceType.CUDA]
    whole = sum(getattr(event, own) for event in events) or 1.0
    events.sort(key=lambda event: -getattr(event, own))
    rows = [
        {"name": event.key[:NAME_CHARACTERS], "share": round(getattr(event, own) / whole, 4), "calls": event.count // given.steps}
        for event in events[:SHOWN]
    ]
    for row in rows:
        print(f"{row['share']:7.2%} {row['calls']:6} a step  {row['name']}")
    yield {"ms_a_step": round(whole / 1e3 / given.steps, 3), "largest": rows}


if __name__ == "__main__":
    main(compare, rounds=1, steps=3)
