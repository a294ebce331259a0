"""How much memory this machine, or the cgroup that confines us, has left. Unknown is None, never plenty."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def free_ratio(meminfo: Path = MEMINFO, cgroup: Path = CGROUP, own: Path = OWN_GROUP) -> float | None:
    """The smaller of two shares: of the machine's memory that is available, and of the group's that is not used (cgroup v2; what
    the kernel would drop first, its file cache, counts as free). None where neither can be read."""
    found = [share for share in (_of_machine(meminfo), *_of_groups(cgroup, own)) if share is not None]
    return min(found, default=None)


def _of_machine(meminfo: Path) -> float | None:
    with suppress(OSError):
        text = meminfo.read_text(encoding="ascii")
        sizes = {name: int(kib) for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
        if sizes.get("MemTotal") and "MemAvailable" in sizes:
            return sizes["MemAvailable"] / sizes["MemTotal"]
    return None


def _of_groups(cgroup: Path, own: Path) -> list[float]:
    """Of our group and of each above it that has a limit."""
    with suppress(OSError):
        line = next((line for line in own.read_text(encoding="utf-8").splitlines() if line.startswith("0::")), "0::/")
        place = cgroup / line.removeprefix("0::").lstrip("/")
        folders = [place, *place.parents]
        return [share for folder in folders if folder.is_relative_to(cgroup) and (share := _of_group(folder)) is not None]
    return []


def _of_group(folder: Path) -> float | None:
    with suppress(OSError, ValueError):
        limit = int((folder / "memory.max").read_text(encoding="ascii"))  # "max": no limit, and no number
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        stat = (folder / "memory.stat").read_text(encoding="ascii")
        cache = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)
        return (limit - used + (int(cache[1]) if cache is not None else 0)) / limit if limit else None
    return None
