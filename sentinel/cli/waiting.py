"""A command that waits for a filesystem says so. It cannot be helped (a read that does not return cannot be interrupted), but
whoever typed it at three in the morning must not take it for slow.

The main thread is looked at from beside: where it waits in the kernel, and whether it is still in the same line of ours as
before. Waiting on purpose (for an event, a child, a terminal, the network) has other names in the kernel.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sentinel.launcher.process_waits import read_kernel_place

FIRST_LOOK_S, LOOK_EVERY_S = 5.0, 5.0  # so a line comes after ten seconds
# Functions of Linux in which a read, an open or a look-up waits: of FUSE, NFS, Lustre, Ceph, 9p, CIFS, autofs, a disk.
WAITS = ("request_wait_answer", "rpc_", "nfs", "ptlrpc", "ceph", "p9_", "cifs", "smb2", "autofs", "io_schedule", "folio_")
PACKAGE = Path(__file__).resolve().parent.parent


@contextmanager
def warned_while_waiting() -> Iterator[None]:
    """Around a command: a line to standard error for each place in which it is held up by a filesystem."""
    over = threading.Event()
    main = threading.current_thread()

    def watch() -> None:
        warned: tuple[str, int] | None = None
        before: tuple[str, int] | None = None
        wait_s = FIRST_LOOK_S
        while not over.wait(wait_s):
            wait_s = LOOK_EVERY_S
            kernel = read_kernel_place(os.getpid(), main.native_id)
            here = _place(main) if any(word in kernel for word in WAITS) else None
            if here is not None and here == before and here != warned:
                warned = here
                place = f"{here[0]}:{here[1]}, kernel: {kernel}"
                print(f"still waiting for a filesystem that does not answer ({place})", file=sys.stderr, flush=True)
            before = here

    thread = threading.Thread(target=watch, name="sentinel-waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _place(thread: threading.Thread) -> tuple[str, int] | None:
    """The innermost line of ours."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and PACKAGE not in Path(frame.f_code.co_filename).parents:
        frame = frame.f_back
    if frame is None:
        return None
    return frame.f_code.co_filename, frame.f_lineno
