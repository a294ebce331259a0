"""`make lock`: asks pip which files it would install, and writes them down with their hashes.

The versions come from constraints.txt, the names from pyproject.toml, the hashes from the index that pip is configured with.
Addresses are left out: where a file comes from is the installing person's affair, what is in it is the lock's.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from .locks import EXTRAS, HOLDS_FOR, ROOT, LockError, Platform, Row, lock_path, normalized, read_lock, this_platform

CONSTRAINTS = ROOT / "constraints.txt"
PIP_TIMEOUT_S = 1800.0
OLDEST_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
HEADER = """\
# {what}
# Every package, its version, and the SHA-256 of the one file that may be installed for it: `make install-locked LOCK={name}`.
{holds_for}{platform}
# It holds for nothing else: another Python, processor or system needs other files, whose hashes are not known here.
# setuptools builds our own wheel. pip itself is not locked: it is the one that the Python brings along.
{notes}# Made by `make lock` from pyproject.toml and constraints.txt, with the files that pip chose on such a machine.
# To renew it: change a version in constraints.txt, then `make install lock sbom`. Do not edit it by hand.
"""
WHAT = {
    "supervisor": "The supervisor alone: what `pip install training-sentinel` brings. No torch.",
    "everything": "All that `make install` installs: supervisor, bundled trainer, and what the tests need.",
}
LOCAL_NOTE = """\
# {name} {version} is a build of its own ({local}): pip needs an index or a folder of wheels that has this very file.
"""


def wanted(extras: Iterable[str]) -> list[str]:
    """Requirements of pyproject.toml: of the package, of the extras, and of its build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    of_extras = [one for extra in extras for one in project["project"]["optional-dependencies"][extra]]
    return [*project["project"]["dependencies"], *of_extras, *project["build-system"]["requires"]]


def ask_pip(requirements: Sequence[str]) -> list[dict[str, Any]]:
    """What pip would install into an empty environment, as its report has it. It fetches what it must read, and installs nothing.

    Raises LockError with pip's own words.
    """
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.json"
        options = ["--quiet", "--disable-pip-version-check", "--dry-run", "--ignore-installed", "--only-binary", ":all:"]
        words = [sys.executable, "-m", "pip", "install", *options, "--report", str(report), "-c", str(CONSTRAINTS), *requirements]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False, cwd=place)
        if done.returncode != 0:
            raise LockError(f"pip found no set of packages (exit {done.returncode}):\n{done.stderr.strip()}")
        return list(json.loads(report.read_text(encoding="utf-8"))["install"])


def file_name(entry: dict[str, Any]) -> str:
    return unquote(urlsplit(entry["download_info"]["url"]).path).rpartition("/")[2]


def build_row(entry: dict[str, Any]) -> Row:
    """Raises LockError where pip has no SHA-256 of a wheel."""
    name, version = entry["metadata"]["name"], entry["metadata"]["version"]
    digest = entry["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
    if digest is None or not file_name(entry).endswith(".whl"):
        raise LockError(f"{name} {version}: the index has no wheel of it with a SHA-256; name another version in constraints.txt")
    return Row(normalized(name), version, digest)


def glibc_needed(wheel: str) -> tuple[int, int]:
    """The oldest glibc that a wheel's tags name; (0, 0) for a pure one. It may have several tags: the lowest of them counts."""
    platforms = wheel.removesuffix(".whl").rpartition("-")[2]
    modern = [(int(major), int(minor)) for major, minor in re.findall(r"manylinux_(\d+)_(\d+)_", platforms)]
    old = [glibc for word, glibc in OLDEST_GLIBC.items() if f"{word}_" in platforms]
    return min([*modern, *old], default=(0, 0))


def write_lock(name: str, entries: list[dict[str, Any]], here: Platform) -> str:
    rows = sorted((build_row(entry) for entry in entries), key=lambda row: row.name)
    glibc = max((glibc_needed(file_name(entry)) for entry in entries), default=(0, 0))
    holds_for = Platform(here.python, here.system, here.machine, glibc if glibc > (0, 0) else None)
    local = [(row, row.version.partition("+")[2]) for row in rows if "+" in row.version]
    notes = "".join(LOCAL_NOTE.format(name=row.name, version=row.version, local=build) for row, build in local)
    header = HEADER.format(what=WHAT[name], name=name, holds_for=HOLDS_FOR, platform=holds_for, notes=notes)
    return header + "".join(f"{row}\n" for row in rows)


def main() -> int:
    for name, extras in EXTRAS.items():
        try:
            text = write_lock(name, ask_pip(wanted(extras)), this_platform())
        except LockError as error:
            print(f"{lock_path(name).name}: {error}", file=sys.stderr)
            return 1
        lock_path(name).write_text(text, encoding="utf-8")
        print(f"{lock_path(name).relative_to(ROOT)}: {len(read_lock(lock_path(name)).rows)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
