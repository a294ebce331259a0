"""The compilers: where they are found, and the exact commands they run."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from .processes import Programs
from .sources import BuildError, Kind, Recipe

COMPILE_S = 900.0
VERSION_S = 60.0
LAST_LINES = 15


@dataclass(frozen=True)
class Compiler:
    path: str
    kind: Kind

    def compiling(self, recipe: Recipe, source: Path, target: Path, torch_folder: Path) -> list[str]:
        return [self.path, *recipe.flags, f"-I{torch_folder / 'include'}", "-c", str(source), "-o", str(target)]

    def linking(self, objects: list[Path], target: Path, torch_folder: Path) -> list[str]:
        """Libraries come after the objects that need them. Some linkers drop a library without a strong reference: the stream's
        function is a weak symbol (csrc/cuda/stream.h), and would be null in a library that no longer names libtorch."""
        place = torch_folder / "lib"
        names = ("torch", "torch_cpu", "c10") if self.kind == "cpu" else ("torch", "torch_cpu", "torch_cuda", "c10")
        libraries = [f"-l{name}" for name in names if (place / f"lib{name}.so").exists()]
        whole = ["-Xlinker", "--no-as-needed", "-cudart", "static"] if self.kind == "cuda" else ["-Wl,--no-as-needed"]
        return [self.path, "-shared", *(str(path) for path in objects), "-o", str(target), f"-L{place}", *whole, *libraries]

    def version(self) -> str:
        try:
            output = Programs().run([self.path, "--version"], VERSION_S).output
        except OSError as error:
            output = f"{Path(self.path).name} ({error})"
        release = re.search(r"release [\d.]+", output)  # nvcc's stands in a line of its own
        return f"{Path(self.path).name} {release[0]}" if release else output.split("\n", 1)[0]


def find_compiler(kind: Kind) -> Compiler:
    """Raises BuildError with the remedy."""
    candidates: list[str | None]
    if kind == "cuda":
        homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
        candidates = [os.environ.get("CUDACXX"), *(f"{home}/bin/nvcc" for home in homes if home), "nvcc"]
        candidates.append("/usr/local/cuda/bin/nvcc")
        remedy = "no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda; install the CUDA toolkit (cuda-nvcc) or set CUDA_HOME"
    else:
        candidates = [os.environ.get("CXX"), "c++", "g++", "clang++"]
        remedy = "no C++ compiler (c++, g++ or clang++) on PATH; install one (apt install g++) or set CXX"
    for word in candidates:
        if word and (found := shutil.which(word)):
            if kind == "cuda" and not has_host_compiler():
                raise BuildError(f"{found} needs g++, which is not on PATH; install it (apt install g++) or set NVCC_CCBIN")
            return Compiler(found, kind)
    raise BuildError(remedy)


def has_host_compiler() -> bool:
    """Whether nvcc has a compiler for host code: g++, or another that one of these variables may name."""
    is_configured = any(os.environ.get(name) for name in ("NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"))
    return is_configured or shutil.which("g++") is not None


def compile_library(recipe: Recipe, compiler: Compiler, target: Path, place: Path) -> str:
    """Every source to an object in `place`, as many at once as there are processors; then the library. Returns all output.

    Raises BuildError with the last lines of the compiler that failed.
    """
    import torch

    torch_folder = Path(torch.__file__).parent
    objects = {source: place / f"{source.name}.o" for source in recipe.units}
    commands = [compiler.compiling(recipe, source, target, torch_folder) for source, target in objects.items()]
    programs = Programs()
    with ThreadPoolExecutor(max_workers=processors()) as pool:
        futures = [pool.submit(run, command, programs) for command in commands]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            outputs = [one.result() for one in futures if one in done]
        except BaseException:  # one has failed, or Ctrl-C: end the others
            pool.shutdown(wait=False, cancel_futures=True)
            programs.end_all()
            raise
    outputs.append(run(compiler.linking(list(objects.values()), target, torch_folder), programs))
    return "".join(outputs)


def processors() -> int:
    """Of this process: a container may have few of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(command: list[str], programs: Programs) -> str:
    """Raises BuildError unless it succeeds, with its last lines; returns the command and what it printed."""
    label = f"{Path(command[0]).name} of {Path(command[-3]).name}" if "-c" in command else f"{Path(command[0]).name}, linking,"
    try:
        done = programs.run(command, COMPILE_S)
    except OSError as error:
        raise BuildError(f"{label} could not be started: {error}") from error
    if done.code == 0:
        return " ".join(command) + "\n" + done.output
    if done.code is None:
        ended = f"took longer than {COMPILE_S:.0f} s and was ended; is the machine overloaded?"
    else:
        ended = f"was killed by signal {-done.code} (out of memory?)" if done.code < 0 else f"failed with {done.code}"
    lines = [line for line in done.output.splitlines() if line.strip() and not line.startswith("ptxas info")]
    raise BuildError("\n".join((f"{label} {ended}", *lines[-LAST_LINES:])))
