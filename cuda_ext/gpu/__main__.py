"""`python -m cuda_ext.gpu` (`make gpu`): builds, measures, tests and sanitizes on this machine's GPU, and records the results.

Needs Python and torch, and nvcc for all that is about our kernels; the tests need pytest, the trainer's stage what the trainer
imports. What is missing is said first, and the other stages run. They come in the order of their worth, and each is recorded in
cuda_ext/bench/results/DATE-GPU.json as it speaks: a machine that is taken away at any moment has left what it measured.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ..bench import record, table
from .needs import missing
from .stages import STAGES, run_stage

TESTS = table.README.parents[1] / "tests" / "gpu"
SHORT_MIN = 15.0  # a sitting up to this has the deadlines of nine minutes; a longer one has patience
PATIENCE = 5.0
KEEP_EVERY_S = 1.0  # between two writings of what a stage says
OUTCOME_NAMES = {True: "ok", False: "FAILED", None: "not run"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description="All that a machine with a GPU can tell, and kept."
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"only these: {', '.join(STAGES)}")
    parser.add_argument("--copy-to", type=Path, metavar="DIR", help="keep a copy of record and README there too, all the time")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="take what this Python lacks from the wheels in DIR")
    minutes_help = "end within so many, with what there is by then"
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help=minutes_help)
    args = parser.parse_args(argv)
    until_s = time.monotonic() + 60.0 * args.minutes
    unknown = [stage for stage in args.stages if stage not in STAGES]
    if unknown:
        parser.error(f"{unknown[0]!r} is no stage; there are {', '.join(STAGES)}")
    if not args.minutes > 0.0:
        parser.error(f"--minutes {args.minutes:g}: must be above 0")
    if args.wheels and not list(args.wheels.glob("*.whl")):
        parser.error(f"--wheels {args.wheels}: no *.whl file is there")
    if not TESTS.is_dir():
        print(f"cuda_ext.gpu: {TESTS} is not there; run it in a checkout of the repository", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print(
            f"cuda_ext.gpu: no GPU is visible to torch {torch.__version__}; "
            f"`python -m {__package__.partition('.')[0]} --check` compiles the kernels without one",
            file=sys.stderr,
        )
        return 1
    machine = record.describe_machine(torch.device("cuda"))
    place = record.place_of(machine)
    print(f"{machine['device']}, torch {machine['torch']}, Python {machine['python']}; into {place}", flush=True)
    with tempfile.TemporaryDirectory() as unpacked:
        if args.wheels:
            unpack(args.wheels, Path(unpacked))
        patience = 1.0 if args.minutes <= SHORT_MIN else PATIENCE
        absent = missing()
        for name, cost in absent.items():
            print(f"missing: {name}: {cost}", flush=True)
        return Sitting(machine | {"missing": absent}, place, args.copy_to).run(args.stages or list(STAGES), until_s, patience)


def unpack(wheels: Path, folder: Path) -> None:
    """Puts the wheels on the path of this process and of every stage. Nothing is installed; installed packages stay in use."""
    for wheel in sorted(wheels.glob("*.whl")):
        if is_installed(wheel.name.split("-")[0]):
            continue
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    sys.path.append(str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(folder))))


def is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


@dataclass
class Sitting:
    """The stages of one call, and where what they say is kept."""

    machine: dict[str, Any]
    place: Path
    copy_to: Path | None = None
    kept: bool = True
    _written_s: float = -math.inf

    def run(self, stages: Sequence[str], until_s: float = math.inf, patience: float = 1.0) -> int:
        outcomes = {}
        for stage in stages:
            print(f"== {stage}", flush=True)
            tell = partial(self.hear, stage)
            tell({"ok": False, "seconds": 0.0, "said": "[begun]\n"})
            outcomes[stage] = run_stage(stage, self.place, until_s, patience, tell)
            print(outcomes[stage]["said"], flush=True)
            self.keep(stage, outcomes[stage], table.write_readme)
        for stage, outcome in outcomes.items():
            print(f"{stage:10} {OUTCOME_NAMES[outcome['ok']]:7} {outcome['seconds']:8.1f} s")
        return 1 if not self.kept or any(outcome["ok"] is False for outcome in outcomes.values()) else 0

    def hear(self, stage: str, so_far: dict[str, Any]) -> None:
        """A stage says something: kept at once, but no more often than every KEEP_EVERY_S."""
        if time.monotonic() - self._written_s >= KEEP_EVERY_S:
            self.keep(stage, so_far)
            self._written_s = time.monotonic()

    def keep(self, stage: str, outcome: dict[str, Any], publish: Callable[[], None] = lambda: None) -> None:
        try:
            record.write(self.place, self.machine, {"stages": {stage: outcome}})
            publish()
            if self.copy_to is not None:
                self.copy_to.mkdir(parents=True, exist_ok=True)
                for path in (self.place, table.README):
                    copy_whole(path, self.copy_to)
        except (OSError, ValueError) as error:
            self.kept = False
            print(f"cuda_ext.gpu: not kept: {error}", file=sys.stderr)


def copy_whole(path: Path, folder: Path) -> None:
    """Renamed into place: a copy is complete at any moment."""
    aside = folder / f"{path.name}.part"
    shutil.copy(path, aside)
    os.replace(aside, folder / path.name)


if __name__ == "__main__":
    sys.exit(main())
