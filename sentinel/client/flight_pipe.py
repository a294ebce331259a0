"""Asks PyTorch's flight recorder for a dump of what a rank has in line, by the pipe that torch listens to.

Standard library only.
"""

from __future__ import annotations

import os
import stat

# The variables by which a trainer says by which pipe it can be asked (torch 2.4 to 2.13).
PIPE_VARIABLES = ("TORCH_FR_DEBUG_INFO_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE")


def ask_for_dump(pipe_prefix: str, rank: int) -> bool:
    """Ask a rank for a dump by its pipe; False where nobody listens. It comes a moment later, or never; training goes on."""
    try:
        handle = os.open(f"{pipe_prefix}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not stat.S_ISFIFO(os.fstat(handle).st_mode):
            return False
        return os.write(handle, b"1\n") > 0
    except OSError:
        return False
    finally:
        os.close(handle)
