"""The stages of `make gpu` in the order of their worth: their commands, deadlines and outcomes."""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..processes import run_streaming
from ..sources import PACKAGE
from .needs import SANITIZER, absent_modules, tool

KEPT_CHARACTERS = 6000
NO_TESTS_RAN = 5
PYTHON = (sys.executable, "-m")
RECORD = "RECORD"  # stands in a command for the record's place
PYTEST = (*PYTHON, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors")
RUNS = "tests/gpu/live"
EMULATED = "tests/cuda_ext/test_emulated_kernels.py"
BENCH = (*PYTHON, "cuda_ext.bench", "--device", "cuda", "--record", RECORD)
# Of most worth first, where the bench is cut short.
IN_ORDER = tuple(word for op in ("softmax_xent", "add_norm", "grad_stats", "adamw_step") for word in ("--op", op))
# One GPU's share of the recipe, as tests/bench has it: a step's telemetry costs the same as in the whole recipe.
RECIPE = ("--preset", "gpt2-124m", "--set", "data.batch_size=64", "evaluation.every=0", "parallel.micro_batch=64")
# Each tensor is an allocation of its own: an access beyond its end is detected. Without its cache torch cannot capture graphs.
SANITIZED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# Our kernels alone: checking torch's thousands of launches takes hours. Nor failed driver calls of torch's libraries.
SANITIZER_WORDS = (
    SANITIZER, "--error-exitcode", "9", "--target-processes", "application-only",
    "--kernel-name", "kns=sentinel", "--report-api-errors", "no",
)  # fmt: skip
LEFT_OUT = ("compile", "graph", "captured", "trainer", "more_than", "more_elements")  # the last two: of more than 2^31 elements
SANITIZED_TESTS = (*PYTEST, "tests/gpu", "--ignore", RUNS, "-k", " and ".join(f"not {word}" for word in LEFT_OUT))


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    limit_s: float
    """For a sitting of nine minutes. What is stuck must not take the minutes of what comes behind it."""
    environ: Mapping[str, str] = field(default_factory=dict)


Tell = Callable[[dict[str, Any]], None]
"""Called with the outcome of a stage so far, as often as it says something more."""


def speed(label: str, *sets: str, kernels: str = "cuda", limit_s: float = 75.0, alone: bool = True) -> Command:
    """The trainer's tokens a second, all streams on; not alone: beside a plain loop that is compiled whole, in turns."""
    words = ["--label", label, "--record", RECORD, "--rounds", "6", "--steps", "2", *(["--alone"] if alone else [])]
    words += [*RECIPE, *sets]
    return Command((*PYTHON, "tests.bench.trainer_speed", *words), limit_s, {"SENTINEL_KERNELS": kernels, "OMP_NUM_THREADS": "1"})


STAGES: dict[str, tuple[Command, ...]] = {
    "build": (Command((*PYTHON, "cuda_ext.gpu.builds"), 180.0),),
    "values": (Command((*PYTHON, "cuda_ext.gpu.values", "--record", RECORD), 60.0),),
    "kernels": (Command((*BENCH, "--alone", "--rounds", "16", *IN_ORDER), 150.0),),
    "trainer": (
        speed("telemetry on, beside compiled plain torch", limit_s=150.0, alone=False),
        Command(
            (*PYTHON, "tests.bench.telemetry_overhead", "--label", "telemetry on and off", "--record", RECORD,
             "--rounds", "20", "--steps", "2", "--kinds", "none,all", *RECIPE),
            75.0, {"SENTINEL_KERNELS": "cuda", "OMP_NUM_THREADS": "1"},
        ),
        Command((*PYTHON, "tests.bench.attention_speed", "--record", RECORD), 40.0),
        speed("FlashAttention first", "numerics.attention=flash"),
        speed("all logits at once", "parallel.xent_chunk=65536"),
        speed("plain PyTorch kernels", kernels="torch"),
        Command(
            (*PYTHON, "tests.bench.step_profile", "--label", "profile", "--record", RECORD, *RECIPE),
            75.0, {"SENTINEL_KERNELS": "cuda", "OMP_NUM_THREADS": "1"},
        ),
    ),
    "tests": (Command((*PYTEST, "tests/gpu", "--ignore", RUNS), 240.0),),
    "parity": (
        Command((*PYTHON, "cuda_ext", "--build", "--kernels", "cpu"), 120.0),
        Command((*PYTEST, "tests/cuda_ext", "--ignore", EMULATED), 180.0),
        # Alone, and up to its first failure: what ends the process there hides no other test, and why it failed is told.
        Command((*PYTEST, "--maxfail", "1", "-m", "not slow", EMULATED), 180.0),
        Command((*PYTHON, "cuda_ext", "--check"), 180.0),
    ),
    # A resume first: of all that is asked there it is worth most. A run takes 20 to 40 s on a GPU (H100, 2026-11-26).
    "runs": tuple(Command((*PYTEST, f"{RUNS}/test_{name}.py"), 240.0) for name in ("resume", "repairs")),
    "peers": (Command((*BENCH, *IN_ORDER), 300.0),),
    "sanitizer": (
        Command((*SANITIZER_WORDS, "--tool", "memcheck", *SANITIZED_TESTS), 240.0, SANITIZED),
        Command((*SANITIZER_WORDS, "--tool", "racecheck", *SANITIZED_TESTS), 240.0, SANITIZED),
    ),
}  # fmt: skip


def run_stage(name: str, place: Path, until_s: float, patience: float, tell: Tell = lambda _: None) -> dict[str, Any]:
    """The outcome: passed (True), failed (False) or nothing to run (None), its seconds and its output. A stage still running at
    `until_s` (time.monotonic()) is ended. `patience` multiplies every deadline."""
    if absent := absent_modules(name):
        message = f"not run: this Python has no {' and no '.join(absent)}; wheels of them can be given with --wheels\n"
        return {"ok": False, "seconds": 0.0, "said": message}
    if name == "sanitizer" and tool(SANITIZER) is None:
        return {"ok": None, "seconds": 0.0, "said": f"not run: {SANITIZER} is neither on PATH nor beside nvcc\n"}
    return run_commands(STAGES[name], place, until_s, patience, tell)


def run_commands(
    commands: Sequence[Command],
    place: Path | None = None,
    until_s: float = float("inf"),
    patience: float = 1.0,
    tell: Tell = lambda _: None,
) -> dict[str, Any]:
    """Runs every command to its end or its deadline, also after one has failed."""
    transcripts: list[str] = []
    ok, began_s = True, time.monotonic()

    def outcome(ok: bool, *more: str) -> dict[str, Any]:
        return {"ok": ok, "seconds": round(time.monotonic() - began_s, 1), "said": "\n".join([*transcripts, *more]) + "\n"}

    for command in commands:
        limit_s = max(0.0, min(command.limit_s * patience, until_s - time.monotonic()))
        head, output_so_far = shown(command), ""

        def hear(piece: str, head: str = head) -> None:
            nonlocal output_so_far
            output_so_far += piece
            tell(outcome(False, transcript(head, output_so_far, "\n[it was still running when this was written]")))

        code, output = run(command, place, limit_s, hear) if limit_s > 0.0 else (None, "")
        ok = ok and code == 0
        transcripts.append(transcript(head, output, "" if code == 0 else f"\n[{reason(code, command, limit_s)}]"))
    return outcome(ok)


def transcript(head: str, output: str, ended: str) -> str:
    return f"$ {head}\n{without_places(output)[-KEPT_CHARACTERS:].strip()}{ended}"


def without_places(output: str) -> str:
    """The record is published: it names no paths of the machine."""
    places = (
        (str(PACKAGE.parent), "."),
        (sysconfig.get_path("purelib"), "site-packages"),
        (os.path.expanduser("~"), "~"),
    )
    for place, name in places:
        if len(place) > 1:
            output = output.replace(f"{place}/", f"{name}/")
    return output


def shown(command: Command) -> str:
    """As it would be typed, without the path of this machine's Python."""
    words = ["python" if word == sys.executable else word for word in command.argv]
    return " ".join([*(f"{key}={value}" for key, value in command.environ.items()), *words])


def run(command: Command, place: Path | None, limit_s: float, on_output: Callable[[str], None]) -> tuple[int | None, str]:
    """Its exit code, None where it met its deadline, and its output."""
    program = tool(command.argv[0])
    if program is None:
        return 127, f"{command.argv[0]} is not on PATH"
    argv = [program, *(str(place) if word == RECORD else word for word in command.argv[1:])]
    environ = os.environ | {"PYTHONUNBUFFERED": "1"} | dict(command.environ)
    try:
        completed = run_streaming(argv, limit_s, environ, PACKAGE.parent, on_output)
    except OSError as error:
        return 126, f"{command.argv[0]} cannot be started: {error}"
    return completed.code, completed.output


def reason(code: int | None, command: Command, limit_s: float) -> str:
    if code is None:
        return f"ended at its deadline of {limit_s:.0f} s" if limit_s > 0.0 else "not begun: no time is left"
    if code == NO_TESTS_RAN and "pytest" in command.argv:
        return "no test ran"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
