"""Processes of an attempt by what they write: their standard output or error is a file of its logs.

A process is found by its mark in the environment, or by its descent. Neither holds for one whose parents are gone and that wrote
over its environment, as setproctitle does, nor for one that was started while the run directory had another path. What it prints
still goes where the keeper sent it. Files are compared by device and inode, so that a path says only where to look.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_LOG = re.compile(r"/attempts/(\d{4,9})/logs/(?!keeper\.err\Z)[^/]+(?:/[^/]+){0,8}\Z")  # a keeper is no trainer
_OUTPUTS = 1, 2


def attempt_written_by(pid: int, run_dir: Path) -> int | None:
    """The attempt of this run whose logs the process writes; None where it writes none, or cannot be looked at."""
    for number in _OUTPUTS:
        place = f"/proc/{pid}/fd/{number}"
        try:
            found = _LOG.search(os.readlink(place))
            if found is not None and os.path.samestat(os.stat(place), os.stat(f"{run_dir}{found[0]}")):
                return int(found[1])
        except OSError:
            continue
    return None

