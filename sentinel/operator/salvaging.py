"""`sentinel journal salvage`: a run whose journal is damaged goes on from what is whole of it, once a person has said so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME, RUN_FILE_NAME
from sentinel.errors import UsageError
from sentinel.journal.lease import read_lease
from sentinel.journal.run_file import find_run_file
from sentinel.journal.run_lock import RunLock
from sentinel.journal.salvage import WholeEntries, copies_of, count_lost, read_whole, rebuild, verify_journal
from sentinel.launcher.living import living_attempts
from sentinel.launcher.registry import DEFAULT, LaunchPlace, open_launcher


@dataclass(frozen=True, slots=True)
class Salvaged:
    """`entries`: taken over. `lost`: as JournalSalvaged has it. `kept_in`: the folder with the damaged files."""

    entries: int
    lost: int | None
    kept_in: Path
    source: Path


def salvage(run_dir: Path, copy: Path | None, accept_loss: bool) -> Salvaged:
    """`copy`: another file of the same journal, or a directory that holds one; the longer of the two is taken.

    Raises:
        AlreadySupervised: a supervisor lives.
        UsageError: nothing is to be salvaged, an attempt lives, the copy is no copy, or entries are lost and nobody accepted it.
        JournalError, OSError: the new journal could not be written; the damaged one is kept.
    """
    if not any((run_dir / name).exists() for name in (RUN_FILE_NAME, JOURNAL_NAME)):
        raise UsageError(f"{run_dir}: is not the directory of a run")
    with RunLock.acquire(run_dir):
        if not verify_journal(run_dir).wrong:
            raise UsageError(f"{run_dir}: its journal is whole; there is nothing to salvage")
        _refuse_living(run_dir)
        known = [read_whole(path) for path in copies_of(run_dir)]
        best = max(known, key=lambda one: one.chain.seq)
        if copy is not None:
            best = _longer(best, read_whole(copy / JOURNAL_NAME if copy.is_dir() else copy))
        lost = count_lost(run_dir, best)
        if lost != 0 and not accept_loss:
            how_many = "it is unknown how many entries are lost" if lost is None else f"{lost} entries are lost"
            raise UsageError(
                f"{run_dir}: {best.chain.seq} entries are whole, and {how_many}. A run that goes on without them forgets what "
                "they held: attempts, condemned checkpoints, left-out samples, budgets, open pages. Name a better copy with "
                "--from, or go on without them with --accept-loss"
            )
        lease = read_lease(run_dir)
        epoch = max([one.epoch for one in known] + [best.epoch, lease.epoch if lease is not None else 0])
        return Salvaged(best.chain.seq, lost, rebuild(run_dir, best, lost, epoch), best.source)


def _refuse_living(run_dir: Path) -> None:
    run = find_run_file(run_dir)
    kind, options = (run.launcher, run.launcher_options) if run is not None else (DEFAULT, {})
    for number, pids in living_attempts(run_dir, open_launcher(kind, options, LaunchPlace(run_dir))).items():
        raise UsageError(
            f"{run_dir}: attempt {number} is alive, and who does not know of it may move its checkpoints. End it first, on its "
            f"machine: kill {' '.join(map(str, pids[:8]))}"
        )


def _longer(own: WholeEntries, other: WholeEntries) -> WholeEntries:
    if not other.rows:
        raise UsageError(f"--from {other.source}: holds no whole entry of a journal")
    shorter = min(own.chain.seq, other.chain.seq)
    if own.rows[:shorter] != other.rows[:shorter]:
        raise UsageError(f"--from {other.source}: its entries differ; it is the journal of another run, or of another past of it")
    return max(own, other, key=lambda one: one.chain.seq)
