"""Builds a library once per machine, into a cache: ~/.cache/sentinel/kernels/KEY/, a digest of sources, flags and torch.

Any number of processes may build at once: one compiles under a lock, the others wait. A library in the cache is always complete,
because it is renamed into its place. A compile that has just failed is not tried again by every rank in turn.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .compilers import COMPILE_S, Compiler, compile_library, find_compiler
from .sources import BuildError, Kind, Recipe, cache_folder, recipe, torch_version

__all__ = ["BuildError", "Built", "build", "cached"]

LOCK_S = 2 * COMPILE_S
POLL_S = 0.1
FAILED_S = 600.0
KEPT = 12
UNUSED_S = 90 * 86400.0


@dataclass(frozen=True)
class Built:
    path: Path
    log: str
    """The compilers' commands and output; for CUDA with the registers of each kernel."""


def build(kind: Kind, folder: Path | None = None, verbose: bool = False, *, bare: bool = False, again: bool = False) -> Built:
    """The library of all of csrc/cpu/*.cpp or csrc/cuda/*.cu, from the cache or compiled now.

    `folder` is a csrc/ other than the package's; `verbose` prints the compilers' output. `bare` compiles the statistics out,
    under the namespace sentinel_bare. `again` compiles even if that has just failed. Raises BuildError.
    """
    spec, version = recipe(kind, folder, bare=bare), torch_version()
    if found := cached(spec, version):
        return found
    place = cache_folder() / spec.key(version)
    compiler = find_compiler(kind)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.with_suffix(".lock")):
            if found := cached(spec, version):
                return found
            if not again:
                raise_if_just_failed(place.with_suffix(".failed"))
            label = f"{kind} kernels{' without statistics' if bare else ''}"
            notice(f"compiling the {label}, {len(spec.units)} files, with {compiler.path}; this is done once")
            began_s = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=".building-", dir=place.parent, ignore_cleanup_errors=True) as aside:
                log = compile_into(spec, compiler, Path(aside), place.with_suffix(".failed"))
                publish(Path(aside) / "library", place, spec, version)
            notice(f"compiled in {time.monotonic() - began_s:.0f} s: {place / spec.library}")
            if verbose:
                print(log, end="", file=sys.stderr, flush=True)
            with suppress(OSError):
                prune(place.parent)
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or place}"
        raise BuildError(f"the cache of kernels cannot be written ({reason}); set XDG_CACHE_HOME to a folder that can") from error
    return Built(place / spec.library, log)


def cached(spec: Recipe, version: str) -> Built | None:
    """The library in the cache, if there is a complete one. Needs neither a compiler nor write access."""
    place = cache_folder() / spec.key(version)
    try:
        if (place / spec.library).stat().st_size == 0:  # left by a loss of power
            return None
        log = (place / "build.log").read_text(encoding="utf-8", errors="replace")
        age_s = time.time() - place.stat().st_mtime
    except OSError:
        return None
    if age_s > 86400.0:
        with suppress(OSError):  # another user's
            os.utime(place)
    return Built(place / spec.library, log)


def compile_into(spec: Recipe, compiler: Compiler, aside: Path, failed: Path) -> str:
    """Writes library and log to `aside`/library. An error is kept in `failed` for the next process."""
    finished, objects = aside / "library", aside / "objects"
    finished.mkdir()
    objects.mkdir()
    try:
        log = compile_library(spec, compiler, finished / spec.library, objects)
    except BuildError as error:
        with suppress(OSError):
            failed.write_text(str(error), encoding="utf-8")
        raise
    (finished / "build.log").write_text(log, encoding="utf-8")
    for path in (finished / spec.library, finished / "build.log"):
        keep(path)
    failed.unlink(missing_ok=True)
    return log


def keep(path: Path) -> None:
    """Flushes to disk: after a loss of power the name must not stand for an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def publish(finished: Path, place: Path, spec: Recipe, version: str) -> None:
    """Renames it into the cache. A complete library already there is of the same sources (another process's, where the filesystem
    has no locks) and stays; an incomplete one is replaced."""
    if place.exists() and cached(spec, version) is None:
        os.rename(place, finished.parent / "broken")
    try:
        os.rename(finished, place)
    except OSError:
        if cached(spec, version) is None:
            raise


def raise_if_just_failed(failed: Path) -> None:
    try:
        age_s, message = time.time() - failed.stat().st_mtime, failed.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    if abs(age_s) < FAILED_S:  # a file server's clock may be ahead of ours
        first, _, rest = message.partition("\n")
        again = f"`python -m {__package__} --build` tries again"
        raise BuildError(f"{first} (tried {max(0.0, age_s):.0f} s ago; {again})" + (f"\n{rest}" if rest else ""))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Raises BuildError if the holder does not finish. On a filesystem without locks two processes may compile the same."""
    with path.open("a") as file:
        deadline_s, waits = time.monotonic() + LOCK_S, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waits:
                    notice("waiting for another process, which compiles the same kernels")
                waits = True
            except OSError:
                break
            if time.monotonic() > deadline_s:
                raise BuildError(f"another process compiles the kernels without an end ({LOCK_S:.0f} s); end it, it holds {path}")
            time.sleep(POLL_S)
        yield


def prune(folder: Path) -> None:
    """Removes libraries that nobody has used for UNUSED_S, except the newest KEPT, and what killed processes left. What vanishes
    meanwhile or cannot be removed is skipped. A run that has mapped a library keeps its mapping."""
    ages: dict[Path, float] = {}
    for path in folder.iterdir():
        with suppress(OSError):
            ages[path] = time.time() - path.stat().st_mtime
    places = sorted((path for path in ages if path.is_dir() and not path.name.startswith(".")), key=lambda path: ages[path])
    for path, age_s in ages.items():
        if age_s < UNUSED_S or path in places[:KEPT]:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:  # a lock, or a compiler's last lines
            with suppress(OSError):
                path.unlink()


def notice(sentence: str) -> None:
    print(f"cuda_ext: {sentence}", file=sys.stderr, flush=True)
