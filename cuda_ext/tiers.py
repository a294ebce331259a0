"""Which kernels run: CUDA's, the CPU's, or plain torch; found once in a process, with the reason in a sentence.

A library is looked for inside the package (made by `pip install` where a compiler was there), then in the cache, and is compiled
into the cache at first use where there is a compiler. Where none can be had the next tier is taken: cuda, cpu, torch. A tier that
was asked for by name is had or refused, never replaced. A library brings kernels for its own device only: the tensors of another
device are computed by the references, in plain torch.
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

from cuda_ext.build import build, cached, say
from cuda_ext.compilers import find_compiler
from cuda_ext.registered import register
from cuda_ext.sources import KINDS, PACKAGE, BuildError, Kind, recipe, torch_version

__all__ = ["ENVIRONMENT", "KernelsUnavailable", "Tier", "load"]

Name = Literal["cuda", "cpu", "torch"]
NAMES: tuple[Name, ...] = ("cuda", "cpu", "torch")
ENVIRONMENT = "SENTINEL_KERNELS"
CAPABILITY_MIN = (8, 0)
STREAM = "aoti_torch_get_current_cuda_stream"  # weak in the library (csrc/cuda/stream.h)


class KernelsUnavailable(RuntimeError):
    """A tier cannot be had. The sentence says why, and what would help."""


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
    """Loads what there is into torch.ops, once in a process, and says what that is.

    `kernels` is cuda, cpu, torch, or None for SENTINEL_KERNELS and, where that is not set, for the best there is. Raises
    ValueError for another word, KernelsUnavailable where the tier that was named cannot be had. Without `may_build` nothing is
    compiled: a tier that would be is told of, with no libraries.
    """
    wanted = wish(kernels)
    if importlib.util.find_spec("torch") is None:
        raise KernelsUnavailable("there is no torch here, which every kernel and every reference needs; install torch >= 2.11")
    with _lock:
        if wanted not in _chosen:
            tier = best(may_build) if wanted is None else exactly(wanted, may_build)
            if not may_build and not tier.libraries:
                return tier
            _chosen[wanted] = tier
        return _chosen[wanted]


def wish(kernels: str | None) -> Name | None:
    """What was asked for, by the argument or else by the environment."""
    words = (("kernels", kernels), (ENVIRONMENT, os.environ.get(ENVIRONMENT) or None))
    for place, word in words:
        if word is not None:
            for name in NAMES:
                if word == name:
                    return name
            raise ValueError(f"{place}={word!r}: must be one of {', '.join(NAMES)}")
    return None


def best(may_build: bool) -> Tier:
    reasons = []
    for kind in KINDS:
        try:
            tier = have(kind, may_build)
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
        return have(name, may_build)
    except KernelsUnavailable as error:
        raise KernelsUnavailable(f"the {name} kernels were asked for and cannot be had: {error}") from error


def have(kind: Kind, may_build: bool) -> Tier:
    """The tier of one library, loaded. Raises KernelsUnavailable with the reason."""
    try:
        version = torch_version()
        device = gpu(version) if kind == "cuda" else "C++ for this processor"
        packaged = in_package(kind)
        if packaged is not None:
            try:
                return loaded(kind, packaged, f"{device}, built when the package was installed")
            except KernelsUnavailable as error:
                say(f"{error}; looking for another")
        found = in_cache(kind, version, may_build)
    except BuildError as error:
        if "\n" in str(error):
            say(str(error))
        raise KernelsUnavailable(error.sentence) from error
    if found is None:
        return Tier(kind, f"{device}; not built yet: it is compiled at first use, or now by `python -m cuda_ext --build`")
    return loaded(kind, found[0], f"{device}, {found[1]}")


def loaded(kind: Kind, path: Path, why: str) -> Tier:
    """Once in a process, from whatever path it was first."""
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
    except RuntimeError as error:  # one that is lost, or another process's alone
        raise KernelsUnavailable(f"the GPU does not answer torch {version}: {first_line(error)}") from error
    if torch.version.hip is not None:
        raise KernelsUnavailable(f"{name} is not a CUDA device")
    if capability < CAPABILITY_MIN:
        raise KernelsUnavailable(f"{name} has compute capability {capability[0]}.{capability[1]}, the CUDA kernels need 8.0")
    return f"{name}, torch {version}"


def in_package(kind: Kind) -> Path | None:
    """The library that came with the package, if it is of these sources and for this processor."""
    made = recipe(kind)
    path = PACKAGE / "built" / made.library
    return path if path.is_file() and digest_beside(path) == made.digest else None


def in_cache(kind: Kind, version: str, may_build: bool) -> tuple[Path, str] | None:
    """The library and where it comes from; None where it would have to be compiled and may not be."""
    made = recipe(kind)
    if found := cached(made, version):
        return found.path, f"built before in {found.path.parent}"
    try:
        find_compiler(kind)
    except BuildError as error:
        if (PACKAGE / "built" / made.library).is_file():
            raise BuildError(f"the package's library does not serve here, and {error}") from error
        raise
    if not may_build:
        return None
    built = build(kind)
    return built.path, f"built at first use into {built.path.parent}"


def digest_beside(library: Path) -> str:
    """Of which sources and flags a library of the package is: another processor's, or those of former sources, do not serve."""
    try:
        told = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
        return str(told["digest"])
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
        launch(path)


def launch(path: Path) -> None:
    """One small op, waited for. A driver older than the nvcc that compiled it, or a GPU that it has no code for, is met here with
    a reason, and not at the first step of a run. Raises KernelsUnavailable."""
    import torch

    from cuda_ext.ops.grad_stats import grad_stats

    try:
        told = grad_stats([torch.full((3,), 2.0, device="cuda")], torch.ones((), device="cuda")).tolist()
    except RuntimeError as error:
        remedy = f"compile it with a nvcc of torch's own CUDA, {torch.version.cuda}, after deleting it"
        raise KernelsUnavailable(f"{path} does not run on this GPU: {first_line(error)}; {remedy}") from error
    if told != [[12.0, 2.0, 0.0]]:
        raise KernelsUnavailable(f"{path} computes {told} on this GPU where [[12.0, 2.0, 0.0]] is right; delete it")


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
