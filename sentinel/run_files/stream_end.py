"""Where the newest steps of a stream begin, found from its end: what shows only them reads nothing before.

    offset = find_newest(stream_path(run_dir, 3), 240)
"""

from __future__ import annotations

import os
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import parse_line

FIRST_BYTES = 64 << 10
BYTES_MAX = 4 << 20  # looked at: 240 steps of a trainer that reports every layer of a large model


def find_newest(path: Path, count: int, bytes_max: int = BYTES_MAX) -> int:
    """The offset in bytes at which the line of the `count`th newest step begins: 0 where the stream has no more steps, or is not
    there; in `bytes_max` bytes without so many steps, the first whole line of these. Raises OSError."""
    assert count > 0, f"of {count} steps none is the newest"
    try:
        with open(path, "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            looked_at = FIRST_BYTES
            while True:
                start = max(0, size - min(looked_at, bytes_max))
                file.seek(start)
                data = file.read(size - start)
                skipped = data.find(b"\n") + 1 if start > 0 else 0  # its beginning was not read
                offsets = _steps_in(data, skipped)
                if len(offsets) >= count:
                    return start + offsets[-count]
                if start == 0:
                    return 0
                if looked_at >= bytes_max:
                    return start + skipped
                looked_at *= 4
    except FileNotFoundError:
        return 0


def _steps_in(data: bytes, at: int) -> list[int]:
    """Where each line of a step begins."""
    found = []
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        try:
            if isinstance(parse_line(data[at:end], 0), StepReading):
                found.append(at)
        except ValueError:
            pass  # torn or damaged: it shows nothing
        at = end + 1
    return found
