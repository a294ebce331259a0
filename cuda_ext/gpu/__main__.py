"""`python -m cuda_ext.gpu` (`make gpu`): builds, tests, sanitizes and measures on this machine's GPU, and records the results.

Needs Python, torch and nvcc; the tests need pytest, the trainer's stage what the trainer imports. Without these the other stages
run. Each stage is recorded in cuda_ext/bench/results/DATE-GPU.json and in the table of cuda_ext/README.md when it ends, so that
a machine that is taken away has left what it measured.
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
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ..bench import record, table
from .stages import STAGES, run_stage

TESTS = table.README.parents[1] / "tests" / "gpu"
OUTCOME_NAMES = {True: "ok", False: "FAILED", None: "not run"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description="All that a machine with a GPU can tell, and kept."
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"only these: {', '.join(STAGES)}")
    parser.add_argument("--copy-to", type=Path, metavar="DIR", help="leave a copy of record and README there too")
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
        return run_all(args.stages or list(STAGES), machine, place, args.copy_to, until_s)


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


def run_all(stages: Sequence[str], machine: dict[str, Any], place: Path, copy_to: Path | None, until_s: float = math.inf) -> int:
    outcomes, kept = {}, True
    for stage in stages:
        print(f"== {stage}", flush=True)
        outcomes[stage] = run_stage(stage, place, until_s)
        print(outcomes[stage]["said"], flush=True)
        try:
            record.write(place, machine, {"stages": {stage: outcomes[stage]}})
            table.write_readme()
            keep_copy(place, copy_to)
        except (OSError, ValueError) as error:
            kept = False
            print(f"cuda_ext.gpu: not kept: {error}", file=sys.stderr)
    for stage, outcome in outcomes.items():
        print(f"{stage:10} {OUTCOME_NAMES[outcome['ok']]:7} {outcome['seconds']:8.1f} s")
    return 1 if not kept or any(outcome["ok"] is False for outcome in outcomes.values()) else 0


def keep_copy(place: Path, folder: Path | None) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (place, table.README):
            shutil.copy(path, folder / path.name)


if __name__ == "__main__":
    sys.exit(main())
