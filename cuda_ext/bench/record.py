"""The record of a measurement: bench/results/DATE-DEVICE.json. New measurements replace those they repeat; the rest stays."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ..compilers import find_compiler
from ..sources import PACKAGE, BuildError, Kind, recipe

RESULTS = PACKAGE / "bench" / "results"


def describe_machine(device: torch.device) -> dict[str, Any]:
    """The machine, its software and the digest of the sources."""
    kind: Kind = "cuda" if device.type == "cuda" else "cpu"
    if kind == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{processor()}, {torch.get_num_threads()} threads"
    machine = {
        "device": name,
        "kind": kind,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }
    try:
        machine["compiler"] = find_compiler(kind).version()
        machine["sources"] = recipe(kind).digest[:12]
    except BuildError as error:
        machine["compiler"] = error.sentence
    return machine


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def place_of(machine: dict[str, Any], folder: Path = RESULTS, date: str | None = None) -> Path:
    """`date` is today's where it is not given."""
    name = machine["device"] if machine["kind"] == "cuda" else "cpu"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return folder / f"{date or datetime.now(UTC).date().isoformat()}-{slug}.json"


def read(path: Path) -> dict[str, Any]:
    """Raises ValueError for a file that is no record, naming it."""
    try:
        contents: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path} is no record of measurements ({error}); mend it or remove it") from error
    return contents


def write(path: Path, machine: dict[str, Any], part: dict[str, Any]) -> None:
    """Merges `part` into the record, dictionaries within it key by key. Renamed into place, so the file is always complete; one
    process after the other, since a stage and its command both write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone_in(path.parent):
        whole = read(path) | machine | {"date": path.name[:10]}
        for key, value in part.items():
            whole[key] = whole.get(key, {}) | value if isinstance(value, dict) else value
        aside = path.with_suffix(".part")
        aside.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(aside, path)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """A lock on the folder itself, which a killed process lets go of; none where the filesystem has no locks."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def newest(kind: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Of each device of a kind, cuda or cpu, the newest record in which kernels were measured; the newest of all first."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json"), reverse=True):
        contents = read(path)
        if contents.get("kind") == kind and any(one["cases"] for one in contents.get("kernels", {}).values()):
            found.setdefault(contents["device"], contents)
    return list(found.values())
