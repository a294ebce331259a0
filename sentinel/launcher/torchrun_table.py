"""What torchrun says about its workers: the failure table it prints to stderr as it gives up.

torchrun's own status is 1 whatever happened; the codes stand only here (seen with torch 2.11 and 2.13):

    [0]:
      time      : 2026-11-20_15:54:00
      rank      : 1 (local_rank: 1)
      exitcode  : -9 (pid: 4339)  (SIGKILL)
      traceback : Signal 9 (SIGKILL) received by PID 4339

The entry under "Root Cause" is the worker torchrun saw fail first. Anything else on stderr, the workers' own output
included, is passed over; of several tables the last counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sentinel.run_files.attempt_files import is_rank

_TITLE = re.compile(r"^=+\n.*FAILED\n-+$", re.MULTILINE)
_ENTRY = re.compile(
    r"^\s*rank\s*:\s*(?P<rank>[0-9]{1,9})\s*\(local_rank:\s*\d+\)\s*\n"
    r"\s*exitcode\s*:\s*(?P<code>-?[0-9]{1,9})\s*\(pid:\s*(?P<pid>-?[0-9]{1,9})\)",
    re.MULTILINE,
)
_ROOT_CAUSE = "Root Cause (first observed failure):"
TAIL_BYTES = 256 * 1024  # tables of thousands of ranks stay below this


@dataclass(frozen=True, slots=True)
class FailureTable:
    """`exits` maps rank to exit value (negative: signal); `pids` maps rank to pid; `root` is the rank that failed first."""

    exits: dict[int, int]
    pids: dict[int, int]
    root: int | None


NO_TABLE = FailureTable({}, {}, None)


def parse_failure_table(stderr: str) -> FailureTable:
    """Read the last failure table in a launcher's stderr; `NO_TABLE` when there is none."""
    titles = list(_TITLE.finditer(stderr))
    if not titles:
        return NO_TABLE
    table = stderr[titles[-1].start() :]
    split = table.find(_ROOT_CAUSE)
    exits: dict[int, int] = {}
    pids: dict[int, int] = {}
    root: int | None = None
    for entry in _ENTRY.finditer(table):
        rank = int(entry["rank"])
        if not is_rank(rank):
            continue  # anybody may write to stderr: these are not torchrun's words
        exits[rank] = int(entry["code"])
        pids[rank] = int(entry["pid"])
        if split >= 0 and entry.start() > split and root is None:
            root = rank
    return FailureTable(exits, pids, root)
