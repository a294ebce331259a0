"""The ends of an attempt's logs, read once when it has exited: what the ranks and the launcher last printed.

Bounded in every direction: the last lines of a file, of what comes before them only what may tell of a death (`crash_log`), a
limited number of ranks. Logs are free text of other people's programs; whatever cannot be read is left out and nothing is ever
raised.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sentinel.model.attempts import ExitReport
from sentinel.model.readings import LogTail
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.crash_log import TAIL_BYTES, LogEnd, read_log_end

RANKS_READ = 16
SEARCH_BYTES = 32 << 20  # of all logs together: the loop waits for it


def read_log_tails(run_dir: Path, attempt: int, report: ExitReport, oom_kills_before: int | None = None) -> list[LogTail]:
    """A LogTail for each rank worth reading and one, with rank None, for the launcher; those without lines left out."""
    files = AttemptFiles(run_dir, attempt)
    budget = [SEARCH_BYTES]
    launcher = _read(files, None, budget)  # first: where many ranks write, the cause lies far up
    tails = [_read(files, rank, budget) for rank in _ranks(files, report)]
    kills = read_oom_kills()
    if kills is not None and oom_kills_before is not None and kills > oom_kills_before:
        line = f"cgroup memory.events: oom_kill rose from {oom_kills_before} to {kills}"
        launcher = replace(launcher, lines=(*launcher.lines, line))
    return [tail for tail in (*tails, launcher) if tail.lines]


def _ranks(files: AttemptFiles, report: ExitReport) -> list[int]:
    """The first to fail, the others that failed, then whoever has a log: the first RANKS_READ of them."""
    failed = [rank.rank for rank in report.ranks if rank.code not in (0, 6)]
    first = [] if report.first_failed_rank is None else [report.first_failed_rank]
    return list(dict.fromkeys([*first, *failed, *_logged(files.logs)]))[:RANKS_READ]


def _logged(folder: Path) -> Iterable[int]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name.removeprefix("rank-").partition(".")[0] for entry in entries if entry.name.startswith("rank-")]
    except OSError:
        return ()
    return sorted({int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 8})


def _read(files: AttemptFiles, rank: int | None, budget: list[int]) -> LogTail:
    """Standard output first, so that the last word is that of standard error. `budget`: bytes that may still be searched."""
    name = "launcher" if rank is None else f"rank-{rank:05d}"
    output, errors = _newest(files.logs / f"{name}.out", budget), _newest(files.logs / f"{name}.err", budget)
    lines, is_cut = (*output.lines, *errors.lines), output.is_cut or errors.is_cut
    return LogTail(files.attempt, rank, lines, is_cut, errors_from=len(output.lines))


def _newest(path: Path, budget: list[int]) -> LogEnd:
    """The end of a log; of one that was just cut (launcher/log_cap.py), what was last before that, too."""
    end = _end(path, budget)
    with suppress(OSError):
        if path.stat().st_size < TAIL_BYTES:
            before = _end(path.with_name(f"{path.name}.tail"), budget)
            return LogEnd((*before.lines, *end.lines), (), is_cut=before.is_cut or end.is_cut)
    return end


def _end(path: Path, budget: list[int]) -> LogEnd:
    try:
        end = read_log_end(path, max(budget[0], TAIL_BYTES))
    except (OSError, ValueError):
        return LogEnd((), ())
    budget[0] -= min(end.searched_bytes, budget[0])
    return end


def read_oom_kills(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> int | None:
    """How often the kernel killed for memory in our cgroup (v2), which the trainer shares on one machine; None if unknown."""
    try:
        own = next((line[3:] for line in membership.read_text().splitlines() if line.startswith("0::")), None)
        if own is None:
            return None
        text = (root / own.strip("/") / "memory.events").read_text()
        counts = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
        return int(counts["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None
