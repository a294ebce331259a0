"""Settings of a training run: the command line, checked. Imports no torch, so that --help and a wrong value answer at once."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from trainer.exits import ConfigError
from trainer.faults import OPTIONS, Fault, parse_fault

PRECISIONS = ("fp32", "bf16", "fp16")
PLACES = {kind: "sample=A-B" if kind == "bad_data" else "step=N" for kind in OPTIONS}
FAULTS_TOLD = "  ".join(
    f"{kind}@{PLACES[kind]}" + (":" if names else "") + ",".join(f"{name}=…" for name in names) for kind, names in OPTIONS.items()
)


@dataclass(frozen=True)
class ModelShape:
    """`width` must divide by `heads`; the vocabulary is the 256 bytes."""

    layers: int
    width: int
    heads: int
    vocabulary: int = 256


@dataclass(frozen=True)
class Preset:
    """A model and the peak learning rate and warm-up that suit it for some hundred steps."""

    shape: ModelShape
    lr: float
    warmup_steps: int


PRESETS = {
    "micro": Preset(ModelShape(layers=3, width=32, heads=2), lr=4e-3, warmup_steps=20),  # ~50k: tests, fp16 on a CPU
    "tiny": Preset(ModelShape(layers=4, width=128, heads=4), lr=2e-3, warmup_steps=40),  # ~0.9M: the demonstration
}


@dataclass(frozen=True)
class Config:
    """One run. Sizes are global (over all ranks) unless they say otherwise."""

    preset: str
    shape: ModelShape
    steps: int
    seed: int
    data_seed: int
    precision: str
    batch_size: int
    seq_len: int
    lr: float
    min_lr_ratio: float
    warmup_steps: int
    clip_norm: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    loss_scale: float
    checkpoint_every: int
    eval_every: int
    eval_batches: int
    max_skipped: int
    gate: bool
    threads: int
    out_dir: Path
    resume: bool
    faults: tuple[Fault, ...]

    def schedule(self, step: int) -> float:
        """The learning rate of an update before any override: linear warm-up, then a cosine down to min_lr_ratio."""
        high = [fault for fault in self.faults if fault.kind == "unstable" and fault.step is not None and step >= fault.step]
        peak = self.lr * math.prod(fault.number("times") for fault in high)
        if step <= self.warmup_steps:
            return peak * step / self.warmup_steps
        progress = min(1.0, (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps))
        return peak * (self.min_lr_ratio + (1 - self.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * progress)))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see python -m trainer --help")


def parse_arguments(arguments: Sequence[str]) -> Config:
    """The checked settings of a command line. Raises ConfigError; --help prints and leaves with 0."""
    given = _build_parser().parse_args(arguments)
    preset = PRESETS[given.preset]
    values = vars(given) | {
        "shape": preset.shape,
        "lr": preset.lr if given.lr is None else given.lr,
        "warmup_steps": preset.warmup_steps if given.warmup_steps is None else given.warmup_steps,
        "data_seed": given.seed if given.data_seed is None else given.data_seed,
        "betas": tuple(given.betas),
        "gate": given.gate == "nonfinite",
        "faults": tuple(parse_fault(text) for text in given.fault),
    }
    del values["fault"]
    return check(Config(**values))


def check(config: Config) -> Config:
    """The same settings, or a ConfigError that names the first one that cannot work."""
    floors = {"steps": 1, "batch_size": 1, "seq_len": 2, "checkpoint_every": 1, "threads": 1, "eval_batches": 1, "max_skipped": 1}
    floors |= {"warmup_steps": 0, "eval_every": 0, "seed": 0, "data_seed": 0}
    for name, floor in floors.items():
        if getattr(config, name) < floor:
            raise ConfigError(f"{_flag(name)} {getattr(config, name)}: must be {floor} or above")
    for name in ("lr", "clip_norm", "eps", "loss_scale"):
        value = getattr(config, name)
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{_flag(name)} {value}: must be a finite number above 0")
    if not (math.isfinite(config.weight_decay) and config.weight_decay >= 0):
        raise ConfigError(f"--weight-decay {config.weight_decay}: must be a finite number, 0 or above")
    if not 0 <= config.min_lr_ratio <= 1:
        raise ConfigError(f"--min-lr-ratio {config.min_lr_ratio}: must lie between 0 and 1")
    if not all(0 <= beta < 1 for beta in config.betas):
        raise ConfigError(f"--betas {config.betas[0]} {config.betas[1]}: both must lie in [0, 1)")
    if config.precision not in PRECISIONS:
        raise ConfigError(f"precision {config.precision!r}: use one of {', '.join(PRECISIONS)}")
    return config


def with_precision(config: Config, precision: str | None) -> Config:
    """The settings under another precision, as spec.json may ask at a relaunch; None changes nothing."""
    return config if precision is None else check(replace(config, precision=precision))


def check_world(config: Config, world_size: int) -> None:
    """What can only be judged once the number of ranks is known. Raises ConfigError."""
    if config.batch_size % world_size:
        raise ConfigError(
            f"--batch-size {config.batch_size}: is global and must divide by the {world_size} ranks; "
            f"use {math.ceil(config.batch_size / world_size) * world_size}"
        )
    for fault in config.faults:
        if fault.rank >= world_size:
            raise ConfigError(f"--fault {fault.text!r}: rank={fault.rank} does not exist; ranks are 0 to {world_size - 1}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m trainer",
        description="Pretrain a byte-level GPT on this machine's Python standard library, under FSDP2. Start one process per "
        "rank with torchrun, or a single process plainly. With SENTINEL_RUN_DIR and SENTINEL_ATTEMPT it obeys the run directory.",
        epilog=f"Faults: {FAULTS_TOLD}. A step fault strikes once per run; with :always from that step on, in every attempt. "
        "Exit codes: 0 finished, 3 configuration, 4 data, 5 non-finite, 6 stopped on request, else a crash.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--preset", choices=sorted(PRESETS), default="tiny", help="size of the model")
    add("--steps", type=int, default=600, help="optimizer steps of the whole run; the schedule ends there")
    add("--seed", type=int, default=1337, help="of the initial weights")
    add("--data-seed", type=int, help="of the data order (default: --seed)")
    add("--precision", choices=PRECISIONS, default="fp32", help="of forward and backward; the optimizer keeps fp32")
    add("--batch-size", type=int, default=16, help="sequences a step, over all ranks")
    add("--seq-len", type=int, default=128, help="bytes a sequence")
    add("--lr", type=float, help="peak learning rate (default: the preset's)")
    add("--min-lr-ratio", type=float, default=0.1, help="where the cosine ends, as a share of --lr")
    add("--warmup-steps", type=int, help="linear warm-up (default: the preset's)")
    add("--clip-norm", type=float, default=1.0, help="global gradient norm is clipped to this")
    add("--weight-decay", type=float, default=0.1, help="on matrices; never on norms")
    add("--betas", type=float, nargs=2, default=(0.9, 0.95), metavar=("B1", "B2"), help="of AdamW")
    add("--eps", type=float, default=1e-8, help="of AdamW")
    add("--loss-scale", type=float, default=65536.0, help="initial dynamic loss scale, fp16 only")
    add("--checkpoint-every", type=int, default=50, metavar="STEPS", help="and always after the last step")
    add("--eval-every", type=int, default=0, metavar="STEPS", help="held-out evaluation; 0: only after the last step")
    add("--eval-batches", type=int, default=16, help="batches of --batch-size per evaluation, always the same ones")
    add("--max-skipped", type=int, default=100, help="updates in a row that may be non-finite before giving up with code 5")
    add("--gate", choices=("nonfinite", "off"), default="nonfinite", help="leave out an update that is not finite, or let it in")
    add("--threads", type=int, default=1, help="torch threads per rank")
    add("--out-dir", type=Path, default=Path("out"), help="checkpoints go here when no supervisor names a run directory")
    add("--resume", action="store_true", help="without a supervisor: continue from the newest checkpoint in --out-dir")
    add("--fault", action="append", default=[], metavar="SPEC", help="hurt this run; may be repeated")
    return parser
