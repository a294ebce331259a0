"""The command line of a training run. Imports no torch, so that --help and a wrong value answer at once."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .checkpoint.verifying import list_steps
from .config import Config
from .config.loading import DEFAULT_PRESET, changed, describe_settings, load_config, preset_names
from .exits import PROGRAM, ConfigError
from .faults import OPTIONS, Fault, parse_fault
from .mesh import mesh_of
from .schedule import Schedule

KERNELS = ("cuda", "cpu", "torch")
PLACES = {kind: "sample=A-B" if kind == "bad_data" else "step=N" for kind in OPTIONS}
FAULTS_HELP = "  ".join(
    f"{kind}@{PLACES[kind]}" + (":" if names else "") + ",".join(f"{name}=…" for name in names) for kind, names in OPTIONS.items()
)


@dataclass(frozen=True)
class Launch:
    """The command line of one start: the settings of the run, and the options of this start alone."""

    config: Config
    recipe: str  # the preset or file, for people
    out_dir: Path
    resume: bool
    faults: tuple[Fault, ...]
    check: bool = False
    ranks: int | None = None  # for --check: as if on so many


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see python -m {PROGRAM} --help")


class _Settings(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(describe_settings())
        parser.exit()


def parse_arguments(arguments: Sequence[str]) -> Launch:
    """The checked settings of a command line. Raises ConfigError; --help and --settings print and leave with 0."""
    parsed = _build_parser().parse_args(arguments)
    sets = [words for several in parsed.set for words in several]
    sets += [f"numerics.kernels={parsed.kernels}"] if parsed.kernels is not None else []
    file = parsed.check if isinstance(parsed.check, Path) else parsed.config
    if parsed.config is not None and isinstance(parsed.check, Path):
        raise ConfigError(f"--check {parsed.check} and --config {parsed.config}: name the file once")
    config = load_config(parsed.preset, file, sets)
    recipe = file.name if file is not None else parsed.preset or DEFAULT_PRESET
    faults = tuple(parse_fault(text) for text in parsed.fault)
    if parsed.ranks is not None and parsed.ranks < 1:
        raise ConfigError(f"--ranks {parsed.ranks}: must be 1 or above")
    return Launch(
        config=config,
        recipe=recipe,
        out_dir=parsed.out_dir,
        resume=parsed.resume,
        faults=faults,
        check=parsed.check is not None,
        ranks=parsed.ranks,
    )


def with_precision(config: Config, precision: str | None) -> Config:
    """The settings under another precision, as spec.json may ask at a relaunch; None changes nothing."""
    return config if precision is None else changed(config, numerics={"precision": precision})


def check_world(launch: Launch, world_size: int) -> None:
    """What can only be judged once the number of ranks is known. Raises ConfigError."""
    mesh_of(world_size, launch.config.parallel.replicas)
    for size in Schedule(launch.config).batch_sizes():
        if size % world_size:
            key = "data.batch_size" if size == launch.config.data.batch_size else "schedule.batch_ramp"
            raise ConfigError(
                f"{key} {size}: a batch is global and must divide by the {world_size} ranks; "
                f"use {math.ceil(size / world_size) * world_size}"
            )
    for fault in launch.faults:
        if fault.rank >= world_size:
            raise ConfigError(f"--fault {fault.text!r}: rank={fault.rank} does not exist; ranks are 0 to {world_size - 1}")


def check_out_dir(launch: Launch) -> None:
    """Check --out-dir before anything is computed; nothing is created yet. Raises ConfigError where it cannot be written, or
    holds another run's checkpoints: a new run there would move them aside one by one, and a
    later --resume would continue the old run, not this one."""
    place = launch.out_dir.absolute()
    there = next(above for above in (place, *place.parents) if os.path.lexists(above))
    if not there.is_dir():
        raise ConfigError(f"--out-dir {launch.out_dir}: {there} is no directory; name another")
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"--out-dir {launch.out_dir}: {there} cannot be written by this user; name another, or grant it")
    steps = list_steps(place / "checkpoints")
    if steps and not launch.resume:
        raise ConfigError(
            f"--out-dir {launch.out_dir}: holds checkpoints of an earlier run, the newest of step {steps[-1]}; "
            "add --resume to continue it, or name another --out-dir"
        )


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"python -m {PROGRAM}",
        description="Pretrain a GPT under FSDP2. Start one process per rank with torchrun, or a single process plainly. With "
        "SENTINEL_RUN_DIR and SENTINEL_ATTEMPT it obeys the run directory. Without settings it trains a byte-level model of "
        "about a million parameters on this machine's Python standard library.",
        epilog=f"Faults: {FAULTS_HELP}. A step fault strikes once per run; with :always from that step on, in every attempt. "
        "Exit codes: 0 finished, 3 configuration, 4 data, 5 non-finite, 6 stopped on request, else a crash.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--preset",
        metavar="NAME",
        help=f"a shipped recipe: {', '.join(preset_names())} (default {DEFAULT_PRESET}, without --config)",
    )
    add("--config", type=Path, metavar="FILE", help="a YAML file of settings; `preset: NAME` in it says what it builds on")
    add(
        "--set", nargs="+", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="over all others; as often as needed"
    )
    add(
        "--kernels",
        choices=KERNELS,
        help="what computes norms, loss and optimizer: the same as --set numerics.kernels=… (default: the best there is)",
    )
    add("--settings", nargs=0, action=_Settings, help="list every setting, its default and what it is for")
    add(
        "--check",
        nargs="?",
        type=Path,
        const=True,
        metavar="FILE",
        help="sizes, memory, cost and what looks wrong; trains nothing",
    )
    add("--ranks", type=int, metavar="N", help="with --check: as if on so many ranks (default: those of torchrun, else 1)")
    add(
        "--out-dir",
        type=Path,
        default=Path("out"),
        help="checkpoints and metrics.jsonl go here when no supervisor names a run directory (out)",
    )
    add("--resume", action="store_true", help="without a supervisor: continue from the newest checkpoint in --out-dir")
    add("--fault", action="append", default=[], metavar="SPEC", help="hurt this run; may be repeated")
    return parser
