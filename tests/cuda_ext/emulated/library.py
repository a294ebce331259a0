"""Compiles csrc/cuda/*.cu with g++ for the emulator, once for each change of a source."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from cuda_ext.build import BuildError
from cuda_ext.compilers import find_compiler
from cuda_ext.sources import PACKAGE, cache_folder

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-w", "-pthread", "-ffp-contract=off", "-DSENTINEL_PART_SLOTS=512")
OF_TORCH = "_op.cpp"


@cache
def headers() -> Path:
    """CUDA's own, which a host compiler reads too: where nvcc says that it reads them. Raises BuildError."""
    nvcc = find_compiler("cuda").path
    command = [nvcc, "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stderr
    found = re.search(r'INCLUDES="-I(.*?)"', said)
    if found is None or not (Path(found[1]) / "cuda_runtime.h").is_file():
        raise BuildError(f"{nvcc} names no folder with cuda_runtime.h")
    return Path(found[1])


def emulated_source(name: str, text: str) -> str:
    """What g++ cannot read as it stands: a block's dynamic shared memory, which has no size. Kernels also need names that the
    linker sees, to be told apart (dladdr)."""
    text = re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"\1* const \2 = static_cast<\1*>(emulator::dynamic_shared());", text)
    text = text.replace("__noinline__ ", "")
    if name.endswith(".cu"):
        text = text.replace("namespace {", f"inline namespace of_{Path(name).stem} {{")
    return text


def write_sources(folder: Path, csrc: Path) -> list[Path]:
    """The sources of the emulated library; returns those to compile."""
    (folder / "csrc" / "cuda").mkdir(parents=True)
    for path in sorted([*csrc.glob("*.h"), *(csrc / "cuda").glob("*")]):
        if not path.name.endswith(OF_TORCH):
            name = f"{path.name}.cpp" if path.suffix == ".cu" else path.name
            text = emulated_source(path.name, path.read_text(encoding="utf-8"))
            (folder / "csrc" / path.relative_to(csrc).with_name(name)).write_text(text, encoding="utf-8")
    for path in HERE.iterdir():
        if path.suffix in (".h", ".cpp"):
            shutil.copy(path, folder)
    shutil.copy(HERE / "ptx.cuh", folder / "csrc" / "cuda")
    return [*(folder / "csrc" / "cuda").glob("*.cpp"), *folder.glob("*.cpp")]


def compile_sources(sources: list[Path], folder: Path, target: Path) -> None:
    compiler = find_compiler("cpu").path
    include = headers()

    def compiled(source: Path) -> Path:
        made = folder / f"{source.name}.o"
        run(
            [
                compiler,
                *FLAGS,
                "-I",
                str(include),
                "-I",
                str(folder),
                "-include",
                "emulator.h",
                "-c",
                str(source),
                "-o",
                str(made),
            ]
        )
        return made

    with ThreadPoolExecutor(max_workers=2) as pool:
        objects = list(pool.map(compiled, sources))
    # Bound to itself: a torch built for CUDA has the real runtime in the process, whose functions would come first.
    run([compiler, "-shared", "-Wl,-Bsymbolic", "-pthread", *map(str, objects), "-o", str(target), "-ldl"])


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[:4000]}"


@cache
def emulated_library(csrc: Path = PACKAGE / "csrc") -> ctypes.CDLL:
    """Raises BuildError where there is no nvcc, whose headers it needs, or no g++."""
    digest = hashlib.sha256(repr((FLAGS, str(headers()), find_compiler("cpu").version())).encode())
    for path in sorted([*csrc.rglob("*"), *HERE.iterdir()]):
        if path.suffix in (".h", ".cuh", ".cu", ".cpp", ".py"):
            digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    place = cache_folder().parent / "emulated"
    place.mkdir(parents=True, exist_ok=True)
    target = place / f"{digest.hexdigest()[:32]}.so"
    if not target.exists():
        aside = place / f".{target.stem}-{os.getpid()}"
        try:
            compile_sources(write_sources(aside, csrc), aside, aside / "library.so")
            (aside / "library.so").rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return ctypes.CDLL(str(target))
