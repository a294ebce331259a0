"""`python -m trainer --check`: what a configuration amounts to, and what in it sank other people's runs. Trains nothing.

`examine` is pure: settings, ranks and what the device can do go in, facts (`amounts`) and warnings (`pitfalls`) come out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from ..command_line import Launch, check_world
from ..config import Config
from ..exits import ConfigError
from ..model.sizes import padded_vocabulary, sizes_of
from ..schedule import Schedule
from .amounts import Device, Plan, facts_of, host_memory_of_rank, memory_of_rank
from .pitfalls import warnings_of


@dataclass(frozen=True)
class Examined:
    """The report. `facts`: (name, value as text)."""

    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]

    def as_text(self) -> str:
        width = max(len(what) for what, _ in self.facts)
        lines = [f"{what:<{width}}  {value}" for what, value in self.facts]
        warnings = [f"warning: {warning}" for warning in self.warnings] or ["nothing in it is known to have sunk a run"]
        return "\n".join([*lines, "", *warnings])


def examine(launch: Launch, ranks: int, device: Device | None, corpus_tokens: int | None = None) -> Examined:
    """Raises ConfigError for what cannot run at all on so many ranks."""
    check_world(launch, ranks)
    config = launch.config
    padded = padded_vocabulary(config.model.vocab_size, ranks)
    schedule, steps = Schedule(config), config.schedule.steps
    ramped = config.schedule.seq_ramp[1] if config.schedule.seq_ramp is not None else 0
    cut = sum(
        schedule.batch_size(step) * (config.data.seq_len - schedule.seq_len(step)) for step in range(1, min(ramped, steps) + 1)
    )
    plan = Plan(
        config=config,
        ranks=ranks,
        device=device,
        params=sizes_of(config, padded).total,
        padded=padded,
        tokens=schedule.samples_before(steps + 1) * config.data.seq_len - cut,
        step_tokens=config.data.batch_size * config.data.seq_len,
        warm_up_steps=schedule.warm_up_steps,
        memory_bytes=memory_of_rank(config, ranks, padded),
        host_bytes=host_memory_of_rank(config, ranks, padded),
        corpus_tokens=corpus_tokens,
    )
    return Examined(tuple(facts_of(plan)), warnings_of(plan))


def report(launch: Launch) -> str:
    """What `--check` prints: of so many ranks as were named, or as torchrun gives, on the device that is here. Raises
    TrainerError."""
    ranks = launch.ranks or int(os.environ.get("WORLD_SIZE", "1"))
    return with_kernels(examine(launch, ranks, this_device(), corpus_tokens(launch.config)), launch.config).as_text()


def with_kernels(found: Examined, config: Config) -> Examined:
    """And which kernels would run on this machine. That those asked for cannot is a warning only: it may be meant for another."""
    from ..fused import foreseen  # torch comes with it

    try:
        kernels = foreseen(config.numerics.kernels)
    except ConfigError as error:
        return replace(found, warnings=(*found.warnings, str(error)))
    return replace(found, facts=(*found.facts, ("kernels", f"{kernels.name}: {kernels.why}")))


def corpus_tokens(config: Config) -> int:
    """Training tokens of the data the settings name. Raises DataError where they name none that can be opened."""
    from ..data import open_corpus  # torch comes with it

    return len(open_corpus(config).train)


def this_device() -> Device | None:
    """Of the first accelerator here; None without one, where a configuration may be meant for another machine."""
    import torch  # seconds: not for --help

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    return Device(properties.name, properties.total_memory, torch.cuda.is_bf16_supported())
