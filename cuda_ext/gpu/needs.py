"""What the stages of `make gpu` need and a machine may lack: said at once, before the first minute is spent."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ..compilers import find_compiler
from ..sources import BuildError, Kind

SANITIZER = "compute-sanitizer"
PYTEST = ("pytest",)
TRAINER = ("numpy", "pydantic", "yaml", "yamlcore")
SUPERVISOR = ("typer", "rich", "watchdog", "psutil", "pynvml", "jinja2", "google_crc32c", "waitress", "prometheus_client")
# What a stage imports that does not come with torch.
MODULES: dict[str, tuple[str, ...]] = {
    "trainer": TRAINER,
    "tests": PYTEST,
    "parity": (*PYTEST, "numpy"),
    "runs": (*PYTEST, *TRAINER, "safetensors", *SUPERVISOR),
    "sanitizer": PYTEST,
}


def absent_modules(stage: str) -> list[str]:
    return [module for module in MODULES.get(stage, ()) if importlib.util.find_spec(module) is None]


def tool(name: str) -> str | None:
    """On PATH, or where the CUDA toolkit has it: beside nvcc."""
    try:
        beside = str(Path(find_compiler("cuda").path).resolve().parent)
    except BuildError:
        beside = ""
    return shutil.which(name) or shutil.which(name, path=beside)


def missing() -> dict[str, str]:
    """What is not here → what that costs. Only what is known to be absent."""
    costs: dict[Kind, str] = {"cuda": "none of our kernels can be built: build, values, kernels, tests and peers fail"}
    costs["cpu"] = "parity fails"
    found = {
        f"a compiler for {kind}": f"{cost} ({why})" for kind, cost in costs.items() if (why := _no_compiler(kind)) is not None
    }
    for stage in MODULES:
        for module in absent_modules(stage):
            known = found.get(module)
            found[module] = f"{known}, {stage}" if known else f"not run: {stage}"
    checks: tuple[tuple[str, Callable[[], bool], str], ...] = (
        (SANITIZER, lambda: tool(SANITIZER) is not None, "not run: sanitizer"),
        ("triton", lambda: importlib.util.find_spec("triton") is not None, "torch.compile cannot work: compiled peers, trainer"),
        ("the NVIDIA driver's device files", lambda: os.path.exists("/dev/nvidiactl"), "the health of the GPU is not seen"),
    )
    return found | {name: cost for name, is_here, cost in checks if not is_here()}


def _no_compiler(kind: Kind) -> str | None:
    try:
        find_compiler(kind)
    except BuildError as error:
        return error.sentence
    return None
