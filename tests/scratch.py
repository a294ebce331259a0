"""Where the files of a run of the suite lie: in memory where there is room for them, or else where temporary files lie here.

Hundreds of runs are supervised at once, and each syncs its journal. On ext4 a sync waits for all that the others have written:
tests that need 3 s of the processor took 74 s of a worker (2026-11-26). `python -m tests.scratch` prints the directory, for
`make unit`; `make accept`, `drills` and `chaos` stay on the disk.
"""

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 8 << 30  # a run of the suite writes 2 to 3 GiB, and the tests themselves need the rest


def scratch_directory(memory: Path = MEMORY) -> str:
    """`memory`, if it is a filesystem with room on which programs may run; the temporary directory otherwise."""
    try:
        room = os.statvfs(memory)
        roomy = room.f_bavail * room.f_frsize >= NEEDED_BYTES and _memory_available() >= NEEDED_BYTES
        return str(memory) if roomy and not room.f_flag & os.ST_NOEXEC and os.access(memory, os.W_OK) else tempfile.gettempdir()
    except OSError:
        return tempfile.gettempdir()


def _memory_available() -> int:
    """Bytes that programs may still take, by the kernel; 0 where it does not say."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    print(scratch_directory())
