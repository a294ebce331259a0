"""`make install-locked`: a fresh virtual environment, the packages of a lock, and our own wheel, built here and installed.

Nothing is fetched but the files of the lock, from the index that pip is configured with, and pip refuses a file with another
hash. Our wheel is built from a copy of the sources, because a build leaves folders beside them that a later build would pack. The
setuptools of the lock builds it; pip would fetch one without a hash otherwise. Standard library only.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .locks import BUILT_FROM, EXTRAS, ROOT, LockError, lock_path, misfit, read_lock, this_platform

STEP_TIMEOUT_S = 1800.0


def check_fit(lock: Path) -> int:
    """How many packages it holds. Raises LockError where it does not hold on this machine."""
    read = read_lock(lock)
    why = misfit(read.holds_for, this_platform())
    if why is not None:
        raise LockError(
            f"{lock.name} cannot be used here: {why}. Use such a Python (make install-locked PYTHON=...), or `make install`, "
            "which takes the versions of constraints.txt without hashes; `make lock` makes a lock for this machine"
        )
    return len(read.rows)


def check_place(venv: Path) -> None:
    """Raises LockError: what lies in an old environment is in no lock."""
    if venv.exists() and (not venv.is_dir() or any(venv.iterdir())):
        raise LockError(f"{venv} is there already, and this verb makes a fresh one; remove it, or name another: VENV=DIRECTORY")


def run(words: Sequence[str | Path], what: str, cwd: Path) -> None:
    """pip's own output goes to the terminal. Raises LockError."""
    print(f"{what} ...", flush=True)
    done = subprocess.run([str(word) for word in words], timeout=STEP_TIMEOUT_S, check=False, cwd=cwd)
    if done.returncode != 0:
        raise LockError(f"{what} failed with exit {done.returncode}; pip's reason stands above")


def copy_sources(place: Path) -> Path:
    """A build leaves folders beside what it builds."""
    place.mkdir(parents=True, exist_ok=True)
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "built"))
        else:
            shutil.copy(ROOT / name, place / name)
    return place


def install(lock: Path, venv: Path) -> None:
    count = check_fit(lock)
    check_place(venv)
    python = venv / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        run([sys.executable, "-m", "venv", venv], f"a fresh environment in {venv}", place)
        hashed = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", lock)
        run([python, "-m", "pip", "install", *quiet, *hashed], f"{count} packages of {lock.name}, each with its hash", place)
        sources, built = copy_sources(place / "sources"), place / "built"
        build = ("--no-deps", "--no-index", "--no-build-isolation", "-w", built)
        run([python, "-m", "pip", "wheel", *quiet, *build, sources], "our wheel, built", place)
        (wheel,) = built.glob("*.whl")
        run([python, "-m", "pip", "install", *quiet, "--no-deps", "--no-index", wheel], "our wheel, installed", place)
        run([python, "-m", "pip", "check", *quiet], "pip check", place)
    print(f"installed: {venv / 'bin' / 'sentinel'}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make install-locked", description=__doc__)
    parser.add_argument("--lock", default="supervisor", help=f"one of {', '.join(EXTRAS)}")
    parser.add_argument("--venv", type=Path, required=True, help="where; it must not be there, or be empty")
    arguments = parser.parse_args()
    try:
        install(lock_path(arguments.lock), arguments.venv.absolute())
    except LockError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
