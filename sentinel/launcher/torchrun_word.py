"""What a torchrun says of its ranks by the way it ends.

It looks at them ten times a second, and may have waited for a rank before the keeper could read how that rank ended. It ends
with 0 only where all of its ranks did (torch 2.13, torch.distributed.launcher.api raises ChildFailedError otherwise). So its 0
is its word over those. Any other launcher's 0 is no such word: a script may end with 0 whatever it has started.
"""

from __future__ import annotations

from sentinel.launcher.process_tree import read_environment, read_processes
from sentinel.run_files.attempt_files import is_rank

_SET_BY_TORCHRUN, _RANK = b"TORCHELASTIC_RUN_ID=", b"RANK="


def find_workers(torchrun: int) -> dict[int, int]:
    """The processes that this torchrun has started as ranks: rank → pid. One that has ended is not among them."""
    found: dict[int, int] = {}
    for process in read_processes().values():
        if process.parent != torchrun:
            continue
        entries = read_environment(process.pid)
        named = [entry[len(_RANK) :] for entry in entries if entry.startswith(_RANK)]
        is_worker = any(entry.startswith(_SET_BY_TORCHRUN) for entry in entries)
        if is_worker and len(named) == 1 and named[0].isdigit() and is_rank(rank := int(named[0])):
            found[rank] = process.pid
    return found


class TorchrunWord:
    def __init__(self) -> None:
        self._starters: dict[int, int] = {}  # rank → pid of the torchrun that started it, and waits for it
        self._ended: dict[int, int] = {}  # such a pid → its exit value

    def note_rank(self, rank: int, pid: int, parent: int) -> bool:
        """A living rank was found. `parent`: the process that started it. Returns whether that is a torchrun not known yet."""
        if not any(entry.startswith(_SET_BY_TORCHRUN) for entry in read_environment(pid)):
            return False
        is_new = parent not in self._starters.values()
        self._starters[rank] = parent
        return is_new

    def note_ended(self, pid: int, value: int) -> None:
        """A process, of whatever kind, has ended with this exit value."""
        if pid in self._starters.values():
            self._ended[pid] = value

    def vouches_for(self, rank: int) -> bool:
        """Whether the torchrun that started this rank has ended with 0."""
        return self._ended.get(self._starters.get(rank, 0)) == 0

    def is_due(self, ranks: set[int]) -> bool:
        """Whether the torchrun of one of these ranks has not ended yet."""
        return any(self._starters[rank] not in self._ended for rank in ranks if rank in self._starters)
