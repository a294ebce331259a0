"""The stages of `make gpu`: their commands, deadlines and outcomes."""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..compilers import find_compiler
from ..processes import Programs
from ..sources import PACKAGE, BuildError

KEPT_CHARACTERS = 6000
NO_TESTS_RAN = 5
PYTHON = (sys.executable, "-m")
RECORD = "RECORD"  # stands in a command for the record's place
PYTEST = (*PYTHON, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors")
# One GPU's share of the recipe, as tests/bench has it: a step's telemetry costs the same as in the whole recipe.
RECIPE = ("--preset", "gpt2-124m", "--set", "data.batch_size=64", "evaluation.every=0")
# Each tensor is an allocation of its own: an access beyond its end is detected. Without its cache torch cannot capture graphs.
SANITIZED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# Our kernels alone: checking torch's thousands of launches takes hours. Nor failed driver calls of torch's libraries.
SANITIZER = (
    "compute-sanitizer", "--error-exitcode", "9", "--target-processes", "application-only",
    "--kernel-name", "kns=sentinel", "--report-api-errors", "no",
)  # fmt: skip
LEFT_OUT = ("compile", "graph", "captured", "trainer", "more_than", "more_elements")  # the last two: of more than 2^31 elements
SANITIZED_TESTS = (*PYTEST, "tests/gpu", "-k", " and ".join(f"not {word}" for word in LEFT_OUT))


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    limit_s: float
    environ: Mapping[str, str] = field(default_factory=dict)


def trainer_bench(program: str, *words: str, kernels: str = "cuda") -> Command:
    return Command((*PYTHON, f"tests.bench.{program}", *words), 900.0, {"SENTINEL_KERNELS": kernels, "OMP_NUM_THREADS": "1"})


STAGES: dict[str, tuple[Command, ...]] = {
    "build": (
        Command((*PYTHON, "cuda_ext", "--build", "--kernels", "cuda"), 1200.0),
        Command((*PYTHON, "cuda_ext", "--check"), 1200.0),
        Command((*PYTHON, "cuda_ext", "--build", "--kernels", "cpu"), 900.0),
    ),
    "tests": (Command((*PYTEST, "tests/gpu"), 1200.0),),
    "parity": (Command((*PYTEST, "tests/cuda_ext"), 1200.0),),
    "kernels": (Command((*PYTHON, "cuda_ext.bench", "--device", "cuda", "--record", RECORD), 1200.0),),
    "trainer": (
        trainer_bench("telemetry_overhead", "--rounds", "40", "--steps", "2", *RECIPE),
        trainer_bench("trainer_speed", "--rounds", "10", *RECIPE, "parallel.micro_batch=64"),
        trainer_bench("trainer_speed", "--rounds", "10", *RECIPE, "parallel.micro_batch=64", kernels="torch"),
    ),
    "sanitizer": (
        Command((*SANITIZER, "--tool", "memcheck", *SANITIZED_TESTS), 900.0, SANITIZED),
        Command((*SANITIZER, "--tool", "racecheck", *SANITIZED_TESTS), 900.0, SANITIZED),
    ),
}


# What a stage imports that does not come with torch.
NEEDS = {
    "tests": ("pytest",),
    "parity": ("pytest",),
    "sanitizer": ("pytest",),
    "trainer": ("pydantic", "yamlcore", "yaml", "safetensors", "numpy"),
}


def missing_for(name: str) -> list[str]:
    return [module for module in NEEDS.get(name, ()) if importlib.util.find_spec(module) is None]


def run_stage(name: str, place: Path, until_s: float = math.inf) -> dict[str, Any]:
    """The outcome: passed (True), failed (False) or nothing to run (None), its seconds and its output. A stage still running at
    `until_s` (time.monotonic()) is ended."""
    if absent := missing_for(name):
        message = f"not run: this Python has no {' and no '.join(absent)}; wheels of them can be given with --wheels\n"
        return {"ok": False, "seconds": 0.0, "said": message}
    if name == "sanitizer" and tool(SANITIZER[0]) is None:
        return {"ok": None, "seconds": 0.0, "said": f"not run: {SANITIZER[0]} is neither on PATH nor beside nvcc\n"}
    return run_commands(STAGES[name], place, until_s)


def tool(name: str) -> str | None:
    """On PATH, or where the CUDA toolkit has it: beside nvcc."""
    try:
        beside = str(Path(find_compiler("cuda").path).resolve().parent)
    except BuildError:
        beside = ""
    return shutil.which(name) or shutil.which(name, path=beside)


def run_commands(commands: Sequence[Command], place: Path | None = None, until_s: float = math.inf) -> dict[str, Any]:
    """Runs every command to its end or its deadline, also after one has failed."""
    outputs, ok, began_s = [], True, time.monotonic()
    for stage_command in commands:
        command = replace(stage_command, limit_s=max(0.0, min(stage_command.limit_s, until_s - time.monotonic())))
        code, output = run(command, place) if command.limit_s > 0.0 else (None, "")
        ok = ok and code == 0
        shown = " ".join([*(f"{key}={value}" for key, value in command.environ.items()), *shortened(command.argv)])
        ended = "" if code == 0 else f"\n[{reason(code, command)}]"
        outputs.append(f"$ {shown}\n{without_places(output)[-KEPT_CHARACTERS:].strip()}{ended}")
    return {"ok": ok, "seconds": round(time.monotonic() - began_s, 1), "said": "\n".join(outputs) + "\n"}


def without_places(output: str) -> str:
    """The record is published: it names no paths of the machine."""
    places = ((str(PACKAGE.parent), "."), (os.path.expanduser("~"), "~"))
    for place, name in places:
        if len(place) > 1:
            output = output.replace(f"{place}/", f"{name}/")
    return output


def shortened(argv: Sequence[str]) -> list[str]:
    """Without the path of this machine's Python."""
    return ["python" if word == sys.executable else word for word in argv]


def run(command: Command, place: Path | None = None) -> tuple[int | None, str]:
    """Its exit code, None where it met its deadline, and its output."""
    program = tool(command.argv[0])
    if program is None:
        return 127, f"{command.argv[0]} is not on PATH"
    argv = [program, *(str(place) if word == RECORD else word for word in command.argv[1:])]
    try:
        environ = os.environ | {"PYTHONUNBUFFERED": "1"} | dict(command.environ)
        completed = Programs().run(argv, command.limit_s, environ, PACKAGE.parent)
    except OSError as error:
        return 126, f"{command.argv[0]} cannot be started: {error}"
    return completed.code, completed.output


def reason(code: int | None, command: Command) -> str:
    if code is None:
        return f"ended at its deadline of {command.limit_s:.0f} s" if command.limit_s > 0.0 else "not begun: no time is left"
    if code == NO_TESTS_RAN and "pytest" in command.argv:
        return "no test ran"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
