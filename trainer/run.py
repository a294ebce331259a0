"""A run in progress: its parts, its position, and the settings in force."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from sentinel.client import Overrides, Session

from . import checkpoint
from .checkpoint.saving import Saver
from .command_line import Launch
from .config import Config
from .control import LiveSettings, idle_settings
from .data import Loader, open_corpus, same_on_all_ranks
from .data_order import Position, Span
from .exits import NonFiniteError
from .fused import Kernels, choose
from .model.attention_order import put_in_order
from .model.gpt import GPT, build_model
from .model.sizes import padded_vocabulary
from .optim import ShardedAdamW
from .optim.scaler import LossScaler
from .parallel import shard
from .rates import mfu_of
from .schedule import Schedule
from .telemetry import Telemetry
from .world import World


@dataclass
class Run:
    """What a checkpoint must bring back is in `optimizer`, `scaler`, `position`, `step` and `skipped_in_row`."""

    launch: Launch
    config: Config
    schedule: Schedule
    session: Session | None
    world: World
    root: Path  # checkpoints and quarantine go below it
    telemetry: Telemetry
    model: GPT
    optimizer: ShardedAdamW
    scaler: LossScaler
    loader: Loader
    configured: LiveSettings
    settings: LiveSettings
    idle: Mapping[str, str]  # settings that act on nothing here, and why
    position: Position
    params: int
    saver: Saver
    kernels: Kernels
    step: int = 0  # done
    skipped_in_row: int = 0
    repeats: bool = True  # numbers of the attempts before this one, to the bit (trainer.start)


def build_run(launch: Launch, session: Session | None, world: World) -> Run:
    """All parts, at step 0. Raises DataError without a corpus, and ConfigError for one of another vocabulary or for kernels that
    cannot be had."""
    config = launch.config
    root = launch.out_dir if session is None else session.run_dir
    corpus = same_on_all_ranks(open_corpus(config), world.control)
    torch.manual_seed(config.init.seed)  # a process begins with a seed of its own; only dropout draws, and seeds itself
    padded = agree_on_padding(launch, session, root, world)
    kernels = choose_kernels(config, session, world)
    put_in_order(config.numerics.attention, world.device)
    model = build_model(config, padded, kernels.fused)
    params = sum(parameter.numel() for parameter in model.parameters())
    # Where a supervisor names a checkpoint, it is one that fills every weight, or an error.
    sharded = shard(model, world, config, initial=session is None or session.spec.resume is None)
    scaler = LossScaler(config.numerics, world.device)
    settings = LiveSettings.configured(config)
    mfu = mfu_of(config, padded, world.device, world.size)
    return Run(
        launch=launch,
        config=config,
        schedule=Schedule(config),
        session=session,
        world=world,
        root=root,
        telemetry=Telemetry(session, world.rank, root, world.device, fp16=scaler.active, mfu=mfu),
        model=sharded,
        optimizer=ShardedAdamW(sharded, config, world.replicas, fused=kernels.fused),
        scaler=scaler,
        loader=Loader(corpus, world.device),
        configured=settings,
        settings=settings,
        idle=idle_settings(config),
        position=Position.first(config.data_seed),
        params=params,
        saver=Saver.for_run(config.checkpoint, root, session, world),
        kernels=kernels,
    )


def agree_on_padding(launch: Launch, session: Session | None, root: Path, world: World) -> int:
    """Rows of the embedding: as many as the run has had since its first launch, or what suits this number of ranks where it
    begins now. Rank 0 reads the manifests and broadcasts the result."""
    requested = session.spec.resume if session is not None else None
    found: list[int | None] = [None]
    if world.rank == 0 and (requested is not None or (session is None and launch.resume)):
        found[0] = checkpoint.stored_padding(root, requested)
    dist.broadcast_object_list(found, src=0, group=world.storage)
    return found[0] or padded_vocabulary(launch.config.model.vocab_size, world.size)


def choose_kernels(config: Config, session: Session | None, world: World) -> Kernels:
    """The first launch on a machine may compile them, which a supervisor is not to take for a hang. Raises ConfigError."""
    if session is not None:
        session.heartbeat(0, "compile")
    kernels = choose(config.numerics.kernels, world)
    if session is not None:
        session.heartbeat(0, "init")
    return kernels


def apply_overrides(run: Run, overrides: Overrides) -> list[Span]:
    """Put overrides in force. Returns the parts of their skip list that come too late. The caller has refused what cannot be
    applied."""
    run.settings = run.settings.overridden(overrides, run.configured, run.idle)
    if overrides.data_seed is not None:
        run.position = run.position.reordered(overrides.data_seed)
    run.position, late = run.position.skipping(overrides.skip)
    if overrides.reset_optimizer:
        run.optimizer.reset()
    if overrides.loss_scale is not None and run.scaler.active:
        run.scaler.set_scale(overrides.loss_scale)
    return late


def settings_at(run: Run, step: int) -> list[str]:
    """Set the model and the optimizer up for a step; the names of settings that lapse with it."""
    now = run.settings.at(step, run.configured)
    lapsed = run.settings.differing(now)
    run.settings = now
    run.model.shrink = now.embed_grad_scale
    run.optimizer.set(now.hyperparameters(run.schedule, step))
    return lapsed


def effective(run: Run) -> dict[str, Any]:
    """What is in force for the next step, read back from the live model, optimizer, scaler and data position; null where it acts
    on nothing."""
    live = run.optimizer.read_back()
    scheduled = run.schedule.lr(run.step + 1)  # 0 at the very end of a cosine that ends there
    read_back = {
        "lr_scale": float(f"{live['lr'] / scheduled:.12g}") if scheduled else run.settings.lr_scale,
        "seed": run.config.init.seed,
        "data_seed": run.position.data_seed,
        "embed_grad_scale": run.model.shrink,
        "loss_scale": run.scaler.scale.item(),
        "precision": run.config.numerics.precision,
        "checkpoint_interval": run.settings.checkpoint_interval,
        "skip": run.position.skipped_ahead(),
        "until": dict(run.settings.until),
        "deterministic": run.repeats and (run.world.device.type == "cpu" or torch.are_deterministic_algorithms_enabled()),
    }
    return live | read_back | dict.fromkeys(run.idle)


def count_skipped(run: Run) -> None:
    """Count updates left out in a row, by the numbers every rank has by now. Raises NonFiniteError where they are too many."""
    for step, metrics in run.telemetry.settled():
        usable = math.isfinite(metrics["loss"]) and math.isfinite(metrics["grad_norm"]) and not metrics["skipped"]
        run.skipped_in_row = 0 if usable else run.skipped_in_row + 1
        if run.skipped_in_row >= run.config.stability.max_skipped:
            raise NonFiniteError(
                f"step {step}: {run.skipped_in_row} updates in a row were not finite or left out (stability.max_skipped); "
                "roll back to before the first of them"
            )
