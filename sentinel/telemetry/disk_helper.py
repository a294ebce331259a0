"""A program of its own that looks at the disks of a run: `python -m sentinel.telemetry.disk_helper RUN_DIR EVERY_S [ROOT...]`.

statvfs on a dead network filesystem may never return, so no other process of Sentinel calls it. It prints one JSON object a line
on standard output at each look: `disks`, or `failed` with a reason. Silence means that a call does not return. It leaves when its
standard input is closed, and an alarm ends it when a call does not return and nobody is left to kill it.
"""

from __future__ import annotations

import json
import select
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from sentinel.telemetry.disk_look import DiskLook
from sentinel.telemetry.source import describe_os_error

ALARM_S = 300  # longer than the supervisor's patience, so that it is the one who says what happened


def main(run_dir: str, every_s: str, *roots: str) -> int:
    look = DiskLook(Path(run_dir), [Path(root) for root in roots])
    while True:
        signal.alarm(ALARM_S + int(float(every_s)))
        try:
            message = {"kind": "disks", "disks": [asdict(reading) for reading in look.read()]}
        except OSError as error:
            message = {"kind": "failed", "reason": describe_os_error(error)}
        print(json.dumps(message), flush=True)
        if select.select([sys.stdin], [], [], float(every_s))[0]:  # it is closed: nobody wants to know any more
            return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except BrokenPipeError:
        sys.exit(0)
