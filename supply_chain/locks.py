"""A lock: every package of an installation, its version, and the SHA-256 of the one file that may be installed for it.

The header says for which Python and platform it holds, because a wheel with compiled code fits no other. Standard library only:
whoever installs from a lock has nothing yet.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(__file__).resolve().parent
# The name of a lock, and the extras of pyproject.toml that it holds: `everything` is what `make install` installs.
EXTRAS: dict[str, tuple[str, ...]] = {"supervisor": (), "everything": ("trainer", "dev", "deploy-test")}
# What pip needs of a checkout to build our wheel.
BUILT_FROM = ("sentinel", "trainer", "cuda_ext", "policies", "deploy", "setup.py", "pyproject.toml", "README.md", "LICENSE")
HOLDS_FOR = "# holds for: "
ROW = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9][\w.+!]*) --hash=sha256:(?P<sha256>[0-9a-f]{64})")


class LockError(Exception):
    """A lock cannot be read, or does not hold here; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What a wheel depends on beside its own version."""

    python: str  # "cpython-3.11"
    system: str  # "linux"
    machine: str  # "x86_64"
    glibc: tuple[int, int] | None  # of a lock: the oldest that its wheels run with; None: another C library, or none named

    def __str__(self) -> str:
        library = f" glibc-{self.glibc[0]}.{self.glibc[1]}" if self.glibc else ""
        return f"{self.python} {self.system} {self.machine}{library}"


@dataclass(frozen=True, slots=True)
class Row:
    """One package of a lock."""

    name: str  # normalized: lower case, with hyphens
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, slots=True)
class Lock:
    holds_for: Platform
    rows: tuple[Row, ...]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lock_path(name: str) -> Path:
    """Raises LockError for a name that no lock has."""
    if name not in EXTRAS:
        raise LockError(f"there is no lock {name!r}; there are {', '.join(EXTRAS)}")
    return FOLDER / f"{name}.lock.txt"


def read_lock(path: Path) -> Lock:
    """Raises LockError with the line that is no row: a line that pip reads in its own way would go unchecked."""
    holds_for, rows = None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(HOLDS_FOR):
            holds_for = _read_platform(line.removeprefix(HOLDS_FOR))
        elif line and not line.startswith("#"):
            found = ROW.fullmatch(line)
            if found is None:
                raise LockError(f"{path.name}:{number}: {line!r} is no NAME==VERSION --hash=sha256:DIGEST; run `make lock`")
            rows.append(Row(found["name"], found["version"], found["sha256"]))
    if holds_for is None:
        raise LockError(f"{path.name} does not say for which Python and platform it holds; run `make lock`")
    return Lock(holds_for, tuple(rows))


def _read_platform(words: str) -> Platform:
    python, system, machine, *rest = words.split()
    if not rest:
        return Platform(python, system, machine, None)
    major, minor = rest[0].removeprefix("glibc-").split(".")
    return Platform(python, system, machine, (int(major), int(minor)))


def this_platform() -> Platform:
    python = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"
    return Platform(python, sys.platform, platform.machine(), _glibc_here())


def _glibc_here() -> tuple[int, int] | None:
    """None on other systems, and with another C library (musl has no such name)."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        return None
    found = re.match(r"glibc (\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def misfit(lock: Platform, here: Platform) -> str | None:
    """Why a lock does not hold here, or None."""
    if (lock.python, lock.system, lock.machine) != (here.python, here.system, here.machine):
        return f"it holds for {lock}, and this is {here}"
    if lock.glibc is not None and (here.glibc is None or here.glibc < lock.glibc):
        wanted = ".".join(map(str, lock.glibc))
        return f"its wheels need glibc {wanted} or newer, and this is {here if here.glibc else f'{here} without glibc'}"
    return None
