"""What a library is made of: its sources, its exact flags, and the digest of both under which a built one is found again.

The flags fix what the numbers are: no contraction into fused multiply-adds on the CPU, so that its results are the same bits
on every machine, and no flag that lets a compiler reorder sums. -fno-math-errno and -fno-trapping-math drop only
errno and floating-point traps, so that plain loops become vectors.
"""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Kind = Literal["cpu", "cuda"]
KINDS: tuple[Kind, ...] = ("cuda", "cpu")
PACKAGE = Path(__file__).resolve().parent
LIBRARY = {"cpu": "_C.so", "cuda": "_C_cuda.so"}
SUFFIX = {"cpu": (".cpp",), "cuda": (".cu", ".cpp")}  # nvcc passes a .cpp to the host compiler once, not for each target
ARCHITECTURES = ("sm_80", "sm_90")
TORCH_MIN = (2, 11)

COMMON = ("-O3", "-std=c++17", "-DTORCH_TARGET_VERSION=0x020b000000000000")
CPU = ("-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
CUDA = (
    "-Xcompiler", "-fPIC", "-DUSE_CUDA",
    *(word for arch in ARCHITECTURES for word in ("-gencode", f"arch={arch.replace('sm', 'compute')},code={arch}")),
    "-gencode", "arch=compute_90,code=compute_90",  # PTX, for what comes after
    "-Xptxas", "-v", "-lineinfo",
)  # fmt: skip
# The same ops under another name, their statistics compiled away: what the bench compares with.
BARE = ("-Dsentinel=sentinel_bare", "-DSENTINEL_BARE")

V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


class BuildError(RuntimeError):
    """A library cannot be built. The first line is the reason and the remedy; a compiler's last lines follow."""

    @property
    def sentence(self) -> str:
        return str(self).split("\n", 1)[0]


@dataclass(frozen=True)
class Recipe:
    """One library: what is compiled, and how."""

    kind: Kind
    folder: Path
    files: tuple[Path, ...]
    flags: tuple[str, ...]
    digest: str
    """Of sources and flags. No path and no torch version is in it: a built library serves every torch from 2.11 on."""

    @property
    def units(self) -> list[Path]:
        """What is compiled; the other files are included by these."""
        return [path for path in self.files if path.suffix in SUFFIX[self.kind]]

    @property
    def library(self) -> str:
        return LIBRARY[self.kind]

    def key(self, torch_version: str) -> str:
        """Its folder in the cache. Machines that share a home may differ: none finds a library that it could not load."""
        machine = (platform.machine(), *platform.libc_ver())
        return hashlib.sha256(" ".join((self.digest, torch_version, *machine)).encode()).hexdigest()[:20]


def recipe(kind: Kind, folder: Path | None = None, *, bare: bool = False) -> Recipe:
    """Of the sources in `folder` (the package's own csrc/): its headers and what lies under cpu/ or cuda/.

    Raises BuildError where there is nothing to compile.
    """
    folder = folder or PACKAGE / "csrc"
    files = tuple(sorted(path for place in (folder, folder / kind) for path in place.glob("*") if is_source(path)))
    flags = (*COMMON, *(CUDA if kind == "cuda" else (*CPU, *processor_flags())), *(BARE if bare else ()))
    if not any(path.suffix in SUFFIX[kind] for path in files):
        raise BuildError(f"no *{SUFFIX[kind][0]} file in {folder / kind}: the package lacks its sources; install it again")
    digest = hashlib.sha256("\0".join(flags).encode())
    for path in files:
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return Recipe(kind, folder, files, flags, digest.hexdigest())


def is_source(path: Path) -> bool:
    return path.suffix in (".h", ".cuh", ".cpp", ".cu") and path.is_file()


@cache
def processor_flags() -> tuple[str, ...]:
    """The widest vectors of this processor. In the digest: machines that share a home may have different processors."""
    if platform.machine() != "x86_64":
        return ()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ()
    there = set(next((line for line in lines if line.startswith("flags")), "").split())
    return ("-march=x86-64-v4",) if there >= V4 else ("-march=x86-64-v3",) if there >= V3 else ()


def cache_folder() -> Path:
    """Raises BuildError for a user without a home, as in some containers."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sentinel" / "kernels"
    except RuntimeError as error:
        raise BuildError(f"nowhere to keep compiled kernels ({error}); set XDG_CACHE_HOME") from error


def torch_version() -> str:
    """Raises BuildError where there is no torch, or one that is too old."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: torch is there, a library that it loads is not
        why = str(error).partition("\n")[0]
        raise BuildError(f"torch cannot be imported ({why}); install torch >= 2.11") from error
    version = str(torch.__version__)
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < TORCH_MIN:
        raise BuildError(f"torch {version} is older than 2.11, whose stable interface the kernels need; install a newer one")
    return version
