"""Who answers a page of a run that nobody supervises holds the run for some seconds. RUN_DIR/answering.lock says so meanwhile:
whoever comes to supervise then waits for the end of it, and does not take it for a supervisor.

    with answering(run_dir), take_run(run_dir) as session: ...
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sentinel.client.closed_files import open_closed
from sentinel.client.run_layout import ANSWERING_NAME


@contextmanager
def answering(run_dir: Path) -> Iterator[None]:
    """Shared by all who answer: which of them has the run, the run's own lock decides. A sign that cannot be given keeps nobody
    from answering."""
    handle = None
    with suppress(OSError):
        handle = open_closed(run_dir / ANSWERING_NAME, os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def is_being_answered(run_dir: Path) -> bool:
    """Whether somebody in `answering` lives: the sign dies with its giver."""
    try:
        handle = os.open(run_dir / ANSWERING_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False
