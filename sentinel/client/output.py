"""What a rank prints, into files of its attempt."""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.closed_files import open_closed
from sentinel.client.disk_trouble import is_of_disk


def redirect_output(folder: Path, rank: int) -> None:
    """stdout and stderr to rank-NNNNN.out and .err of the folder. Where a disk refuses these files, both stay where they are.
    Raises OSError for another reason."""
    try:
        _redirect(folder, rank)
    except OSError as error:
        if not is_of_disk(error):
            raise
    faulthandler.enable(file=2)


def _redirect(folder: Path, rank: int) -> None:
    ensure_directory(folder)
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        stream.flush()
        handle = open_closed(folder / f"rank-{rank:05d}.{name}", os.O_WRONLY | os.O_APPEND)
        os.dup2(handle, 1 if name == "out" else 2)
        os.close(handle)
