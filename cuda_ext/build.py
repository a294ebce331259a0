"""Builds a library once per machine, into a cache: ~/.cache/sentinel/kernels/KEY/, a digest of sources, flags and torch.

Any number of processes may ask at once: one compiles under a lock, the others wait for it and say so. What is found in the cache
is always whole, because it is renamed into its place. A compile that has just failed is not tried again by each rank in turn.
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

from cuda_ext.compilers import COMPILE_S, Compiler, compile_library, find_compiler
from cuda_ext.sources import BuildError, Kind, Recipe, cache_folder, recipe, torch_version

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
    """The compilers' commands and all they said: for CUDA with the registers of each kernel."""


def build(kind: Kind, folder: Path | None = None, verbose: bool = False, *, bare: bool = False, again: bool = False) -> Built:
    """The library of all of csrc/cpu/*.cpp or csrc/cuda/*.cu, from the cache or compiled now.

    `folder` is a csrc/ other than the package's; `verbose` prints what the compilers say. `bare` leaves the statistics out, under
    the namespace sentinel_bare. `again` compiles although it failed a moment ago. Raises BuildError.
    """
    made, version = recipe(kind, folder, bare=bare), torch_version()
    if found := cached(made, version):
        return found
    place = cache_folder() / made.key(version)
    compiler = find_compiler(kind)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.with_suffix(".lock")):
            if found := cached(made, version):
                return found
            if not again:
                refuse_what_just_failed(place.with_suffix(".failed"))
            what = f"{kind} kernels{' without statistics' if bare else ''}"
            say(f"compiling the {what}, {len(made.units)} files, with {compiler.path}; this is done once")
            began_s = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=".building-", dir=place.parent, ignore_cleanup_errors=True) as aside:
                log = compile_into(made, compiler, Path(aside), place.with_suffix(".failed"))
                move_into_place(Path(aside) / "library", place, made, version)
            say(f"compiled in {time.monotonic() - began_s:.0f} s: {place / made.library}")
            if verbose:
                print(log, end="", file=sys.stderr, flush=True)
            with suppress(OSError):
                prune(place.parent)
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or place}"
        raise BuildError(f"the cache of kernels cannot be written ({reason}); set XDG_CACHE_HOME to a folder that can") from error
    return Built(place / made.library, log)


def cached(made: Recipe, version: str) -> Built | None:
    """The library of the cache, where there is one and it is whole. Needs no compiler, and no right to write there."""
    place = cache_folder() / made.key(version)
    try:
        if (place / made.library).stat().st_size == 0:  # what a machine leaves that lost its power: never of ours
            return None
        log = (place / "build.log").read_text(encoding="utf-8", errors="replace")
        age_s = time.time() - place.stat().st_mtime
    except OSError:
        return None
    if age_s > 86400.0:
        with suppress(OSError):  # another user's
            os.utime(place)
    return Built(place / made.library, log)


def compile_into(made: Recipe, compiler: Compiler, aside: Path, failed: Path) -> str:
    """Library and log in `aside`/library. What a compiler said against it is kept for whoever asks next."""
    whole, objects = aside / "library", aside / "objects"
    whole.mkdir()
    objects.mkdir()
    try:
        log = compile_library(made, compiler, whole / made.library, objects)
    except BuildError as error:
        with suppress(OSError):
            failed.write_text(str(error), encoding="utf-8")
        raise
    (whole / "build.log").write_text(log, encoding="utf-8")
    for path in (whole / made.library, whole / "build.log"):
        keep(path)
    failed.unlink(missing_ok=True)
    return log


def keep(path: Path) -> None:
    """On the disk, not in memory alone: a name that outlives a loss of power must not be of an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def move_into_place(whole: Path, place: Path, made: Recipe, version: str) -> None:
    """What is there already is another's of the same sources (a filesystem without locks), or no library: that gives way."""
    if place.exists() and cached(made, version) is None:
        os.rename(place, whole.parent / "broken")
    try:
        os.rename(whole, place)
    except OSError:
        if cached(made, version) is None:
            raise


def refuse_what_just_failed(failed: Path) -> None:
    try:
        age_s, said = time.time() - failed.stat().st_mtime, failed.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    if abs(age_s) < FAILED_S:  # a file server's clock may be ahead of ours
        first, _, rest = said.partition("\n")
        again = "`python -m cuda_ext --build` tries again"
        raise BuildError(f"{first} (tried {max(0.0, age_s):.0f} s ago; {again})" + (f"\n{rest}" if rest else ""))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Raises BuildError when who holds it comes to no end. Where a filesystem has no locks, two may compile the same."""
    with path.open("a") as file:
        deadline_s, waits = time.monotonic() + LOCK_S, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waits:
                    say("waiting for another process, which compiles the same kernels")
                waits = True
            except OSError:
                break
            if time.monotonic() > deadline_s:
                raise BuildError(f"another process compiles the kernels without an end ({LOCK_S:.0f} s); end it, it holds {path}")
            time.sleep(POLL_S)
        yield


def prune(folder: Path) -> None:
    """Libraries of former sources that nobody has asked for lately, and what killed processes have left. It hinders nobody: what
    vanishes meanwhile is another's, and what cannot be removed stays. A run may have mapped a library for as long as it lives."""
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


def say(sentence: str) -> None:
    print(f"cuda_ext: {sentence}", file=sys.stderr, flush=True)
