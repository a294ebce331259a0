"""Which kernels run: CUDA's, the CPU's or plain torch. Chosen once in a process, with the reason.

A library is looked for inside the package (made by `pip install` where a compiler was there), then in the cache, and is compiled
into the cache at first use where there is a compiler. If that fails the next tier is taken: cuda, cpu, torch. A tier requested by
name is loaded or refused, never replaced. A library has kernels for its own device only: tensors of another device are computed
by the references, in plain torch.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .build import build, cached, notice
from .compilers import find_compiler
from .registry import register
from .sources import KINDS, PACKAGE, BuildError, Kind, recipe, torch_version

__all__ = ["ENVIRONMENT", "KernelsUnavailable", "Tier", "load"]

Name = Literal["cuda", "cpu", "torch"]
NAMES: tuple[Name, ...] = ("cuda", "cpu", "torch")
ENVIRONMENT = "SENTINEL_KERNELS"
CAPABILITY_MIN = (8, 0)
STREAM = "aoti_torch_get_current_cuda_stream"  # weak in the library (csrc/cuda/stream.h)


class KernelsUnavailable(RuntimeError):
    """A tier is not available. The message gives the reason and the remedy."""


@dataclass(frozen=True)
class Tier:
    name: Name
    why: str
    """In one line."""
    libraries: tuple[Path, ...] = ()
    """What was loaded for it. Empty for plain torch, and where a library is still to be compiled."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


_lock = threading.Lock()
_chosen: dict[str | None, Tier] = {}
_loaded: dict[Kind, Path] = {}


def load(kernels: str | None = None, *, may_build: bool = True) -> Tier:
    """Loads the kernels into torch.ops, once in a process, and returns their tier.

    `kernels` is cuda, cpu, torch, or None for SENTINEL_KERNELS and, where that is not set, for the best available. Raises
    ValueError for another word, KernelsUnavailable where the requested tier is not available. Without `may_build` nothing is
    compiled: a tier that would have to be is returned without libraries.
    """
    name = requested(kernels)
    if importlib.util.find_spec("torch") is None:
        raise KernelsUnavailable("there is no torch here, which every kernel and every reference needs; install torch >= 2.11")
    with _lock:
        if name not in _chosen:
            tier = best_available(may_build) if name is None else exactly(name, may_build)
            if not may_build and not tier.libraries:
                return tier
            _chosen[name] = tier
        return _chosen[name]


def requested(kernels: str | None) -> Name | None:
    """The tier that the argument names, or else the environment. Raises ValueError for an unknown name."""
    sources = (("kernels", kernels), (ENVIRONMENT, os.environ.get(ENVIRONMENT) or None))
    for place, value in sources:
        if value is not None:
            for name in NAMES:
                if value == name:
                    return name
            raise ValueError(f"{place}={value!r}: must be one of {', '.join(NAMES)}")
    return None


def best_available(may_build: bool) -> Tier:
    reasons = []
    for kind in KINDS:
        try:
            tier = available(kind, may_build)
        except KernelsUnavailable as error:
            reasons.append(str(error))
        else:
            return Tier(tier.name, "; ".join([*reasons, tier.why]), tier.libraries)
    return Tier("torch", "; ".join(dict.fromkeys(reasons)))


def exactly(name: Name, may_build: bool) -> Tier:
    if name == "torch":
        if _loaded:
            raise KernelsUnavailable(f"plain torch was asked for, but this process has loaded kernels ({', '.join(_loaded)})")
        return Tier("torch", "it was asked for")
    try:
        return available(name, may_build)
    except KernelsUnavailable as error:
        raise KernelsUnavailable(f"the {name} kernels were asked for and cannot be had: {error}") from error


def available(kind: Kind, may_build: bool) -> Tier:
    """The tier of one library, loaded. Raises KernelsUnavailable with the reason."""
    try:
        version = torch_version()
        device = gpu(version) if kind == "cuda" else "C++ for this processor"
        packaged = in_package(kind)
        if packaged is not None:
            try:
                return load_once(kind, packaged, f"{device}, built when the package was installed")
            except KernelsUnavailable as error:
                notice(f"{error}; looking for another")
        found = in_cache(kind, version, may_build)
    except BuildError as error:
        if "\n" in str(error):
            notice(str(error))
        raise KernelsUnavailable(error.sentence) from error
    if found is None:
        return Tier(kind, f"{device}; not built yet: it is compiled at first use, or now by `python -m {__package__} --build`")
    return load_once(kind, found[0], f"{device}, {found[1]}")


def load_once(kind: Kind, path: Path, why: str) -> Tier:
    """Loads a library once in a process; a later call for its kind changes nothing."""
    if kind not in _loaded:
        load_library(kind, path)
        _loaded[kind] = path
    return Tier(kind, why, (_loaded[kind],))


def gpu(version: str) -> str:
    """The GPU that the CUDA kernels would run on."""
    import torch

    if not torch.cuda.is_available():
        raise KernelsUnavailable(f"no GPU is visible to torch {version}")
    try:
        name, capability = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    except RuntimeError as error:  # a lost GPU, or one reserved by another process
        raise KernelsUnavailable(f"the GPU does not answer torch {version}: {first_line(error)}") from error
    if torch.version.hip is not None:
        raise KernelsUnavailable(f"{name} is not a CUDA device")
    if capability < CAPABILITY_MIN:
        raise KernelsUnavailable(f"{name} has compute capability {capability[0]}.{capability[1]}, the CUDA kernels need 8.0")
    return f"{name}, torch {version}"


def in_package(kind: Kind) -> Path | None:
    """The library that came with the package, if it is of these sources and for this processor."""
    spec = recipe(kind)
    path = PACKAGE / "built" / spec.library
    return path if path.is_file() and digest_beside(path) == spec.digest else None


def in_cache(kind: Kind, version: str, may_build: bool) -> tuple[Path, str] | None:
    """The library and where it comes from; None where it would have to be compiled and may not be."""
    spec = recipe(kind)
    if found := cached(spec, version):
        return found.path, f"built before in {found.path.parent}"
    try:
        find_compiler(kind)
    except BuildError as error:
        if (PACKAGE / "built" / spec.library).is_file():
            raise BuildError(f"the package's library does not serve here, and {error}") from error
        raise
    if not may_build:
        return None
    built = build(kind)
    return built.path, f"built at first use into {built.path.parent}"


def digest_beside(library: Path) -> str:
    """The digest of the sources and flags that a library of the package was built from; "" if unknown."""
    try:
        contents = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
        return str(contents["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def load_library(kind: Kind, path: Path) -> None:
    import torch

    try:
        if kind == "cuda" and not hasattr(ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch.so")), STREAM):
            raise KernelsUnavailable(
                f"torch {torch.__version__} has no CUDA streams for the kernels; install one built with CUDA"
            )
        register(path)
    except OSError as error:
        raise KernelsUnavailable(f"{path} cannot be loaded: {first_line(error)}; delete it to have it built again") from error
    if kind == "cuda":
        check_on_gpu(path)


def check_on_gpu(path: Path) -> None:
    """Runs one small op and waits for it: a driver older than the nvcc that compiled the library, or a GPU without code in it, is
    found here with a reason, not at the first step of a run. Raises KernelsUnavailable."""
    import torch

    from .ops.grad_stats import grad_stats

    try:
        stats = grad_stats([torch.full((3,), 2.0, device="cuda")], torch.ones((), device="cuda")).tolist()
    except RuntimeError as error:
        remedy = f"compile it with a nvcc of torch's own CUDA, {torch.version.cuda}, after deleting it"
        raise KernelsUnavailable(f"{path} does not run on this GPU: {first_line(error)}; {remedy}") from error
    if stats != [[12.0, 2.0, 0.0]]:
        raise KernelsUnavailable(f"{path} computes {stats} on this GPU where [[12.0, 2.0, 0.0]] is right; delete it")


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
