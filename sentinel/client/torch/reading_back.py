"""What was saved is read back for its digests, by all ranks: each takes a part, and leaves what it found in a file for rank 0.

One rank would take as long as all of them together. No collective is needed, so it happens behind training, in a thread of each.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.checkpoint_files import describe_files
from sentinel.client.file_digest import SHA256
from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import dumps, loads

PART = ".read-back-"  # beginning of a file in which a rank hands over what it has read back
PART_TIMEOUT_S = 1800.0  # a terabyte over eight ranks, each at 100 MB/s
PART_LOOK_S = 0.05


def _part_of(here: Path, rank: int) -> Path:
    return here / f"{PART}{rank:05d}.json"


def read_all_back(here: Path, shares: list[list[str]], algorithm: str = SHA256) -> dict[str, Any]:
    """On rank 0: its own share, and what the other ranks leave of theirs. Raises OSError, also where one leaves nothing."""
    files: dict[str, Any] = describe_files(here, shares[0], algorithm)
    pause = threading.Event()
    for rank in (rank for rank, share in enumerate(shares) if rank and share):
        path, give_up_s = _part_of(here, rank), time.monotonic() + PART_TIMEOUT_S
        while not path.exists():
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"rank {rank} has not read its files back within {PART_TIMEOUT_S:.0f} s")
            pause.wait(PART_LOOK_S)
        part = loads(read_regular(path))
        if not isinstance(part, dict):
            raise OSError(f"rank {rank} could not read its files back: {part}")
        files |= part
        path.unlink()
    return dict(sorted(files.items()))


def read_part_back(here: Path, rank: int, share: list[str], algorithm: str = SHA256) -> None:
    """On another rank: what it found, or the reason why it could not."""
    try:
        found: Any = describe_files(here, share, algorithm)
    except OSError as error:
        found = str(error)
    with contextlib.suppress(OSError):  # rank 0 hears nothing, and gives it up
        write_atomically(_part_of(here, rank), dumps(found).encode())


def share_out(seen: list[list[str]]) -> list[list[str]]:
    """Who reads back which file, by rank: each is one rank's that sees it (another's listing of a shared filesystem may be older
    than the file), and those that several see are dealt out in turn."""
    shares: list[list[str]] = [[] for _ in seen]
    for place, name in enumerate(sorted({name for names in seen for name in names})):
        seers = [rank for rank, names in enumerate(seen) if name in names]
        shares[seers[place % len(seers)]].append(name)
    return shares
