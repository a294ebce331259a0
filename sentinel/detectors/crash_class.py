"""Which death an attempt died, from its exit records and the ends of its logs: a class, the line that shows it, and who.

Every rank's log is read for itself, lines of the launcher's log by the rank they name. Of all that is found the tier decides
first (`crash_patterns.Tier`), then whether it was the rank that failed first, then the order in the launcher's log. What it does
not see: a cause printed further up than the tail reaches, and a cause nobody printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sentinel.detectors.crash_patterns import (
    ENQUEUED,
    EXCEPTION,
    LINE_CHARS,
    OUTSIDE,
    RETRYABLE,
    SAYS_NOTHING,
    SELF_NAMED,
    WRITER,
    CrashClass,
    Tier,
    match_line,
)
from sentinel.model.attempts import EXIT_FINISHED, EXIT_STOPPED, ExitReport, RankExit

EVIDENCE_CHARS = 240
SIGKILL, SIGTERM = 9, 15
_PLAIN_SIGNALS = (4, 7, 8, 9, 11)  # ILL BUS FPE KILL SEGV: a rank dies of these by itself or by the kernel
OWN_SIGNALS = (4, 6, 7, 8, 11)  # ILL ABRT BUS FPE SEGV
_CONFIGURATION_CODES = frozenset({1, 2, 126, 127})  # Python, argparse, the shell
_NOT_FOUND = 127  # the shell's
_SHELL_SIGNAL_BASE, _SIGNALS = 128, 64

Tails = Mapping[int | None, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Death:
    """`rank` is who is blamed, None when nobody can be; `seen_by` who wrote the evidence, where that is another."""

    crash: CrashClass
    evidence: str
    rank: int | None
    retryable: bool
    seen_by: int | None = None

    def is_outside(self, report: ExitReport) -> bool:
        """Whether what the run resumed from cannot be to blame. A rank may die of a damaged state by a signal of its own
        (SIGSEGV, SIGABRT, …), never by SIGKILL."""
        if self.crash is not CrashClass.KILLED:
            return self.crash in OUTSIDE
        died = next((rank for rank in report.ranks if rank.rank == self.rank), None)
        return (-(report.command_status or 0) if died is None else signal_of(died)) not in OWN_SIGNALS


@dataclass(frozen=True, slots=True)
class _Clue:
    """`crash` None: the rank failed and nothing more is known of it."""

    crash: CrashClass | None
    tier: Tier
    line: str
    rank: int | None
    order: int = 0


@dataclass(slots=True)
class _Log:
    """The lines of one writer, in order, each with its place in the launcher's log (0 elsewhere)."""

    lines: list[tuple[int, str]]


def classify(report: ExitReport, tails: Tails, first: RankExit | None) -> Death | None:
    """What the attempt died of; None when neither the records nor the logs say more than a bare status."""
    exits = {rank.rank: rank for rank in report.ranks}
    only = report.ranks[0].rank if len(report.ranks) == 1 else None
    logs = _by_writer(report, tails, only)
    clues: list[_Clue] = []
    for rank, log in logs.items():
        how = None if rank is None else exits.get(rank)
        if _may_have_died(how):
            clues += _read(rank, log, how, report)
    clues += _of_signals(report, first, {clue.rank for clue in clues})
    if not clues:
        return None

    def weight(clue: _Clue) -> tuple[int, bool, int, int]:
        is_first = first is not None and clue.rank == first.rank
        return clue.tier, not is_first, clue.order, -1 if clue.rank is None else clue.rank

    best = min(clues, key=weight)
    if best.crash is None:
        return None
    death = Death(best.crash, best.line, best.rank, RETRYABLE[best.crash])
    if best.crash is CrashClass.COLLECTIVE_TIMEOUT:
        return replace(death, rank=_behind(logs), seen_by=best.rank)
    return death if best.rank is not None or first is None else replace(death, rank=first.rank)


def _may_have_died(how: RankExit | None) -> bool:
    """A rank that left in order tells of no cause; one without a record may."""
    return how is None or how.code not in (EXIT_FINISHED, EXIT_STOPPED)


def _by_writer(report: ExitReport, tails: Tails, only: int | None) -> dict[int | None, _Log]:
    """Lines sorted by who wrote them; the launcher's, where nobody is named, under None (or the only rank)."""
    logs: dict[int | None, _Log] = {}
    known = {rank.rank for rank in report.ranks}
    for owner, lines in sorted(tails.items(), key=lambda tail: (tail[0] is None, tail[0] or 0)):  # whatever order they came in
        for place, raw in enumerate(lines):
            line = raw[:LINE_CHARS].rstrip()
            label = WRITER.match(line)
            text = line[label.end() :] if label else line
            rank = owner
            if rank is None:
                named = label if label is not None else SELF_NAMED.search(line)
                rank = int(next(group for group in named.groups() if group)) if named is not None else only
                rank = rank if rank in known or not known else only
            logs.setdefault(rank, _Log([])).lines.append((place if owner is None else 0, text))
    for exit_ in report.ranks:
        if exit_.error and exit_.source == "record":
            text = exit_.error.strip().splitlines()[0] if exit_.error.strip() else ""
            logs.setdefault(exit_.rank, _Log([])).lines.append((0, text[:LINE_CHARS]))
    return logs


def _read(rank: int | None, log: _Log, how: RankExit | None, report: ExitReport) -> list[_Clue]:
    """The clues of one log: what its last exception says where that is a cause, else the first line of each tier."""
    found: dict[Tier, _Clue] = {}
    last: _Clue | None = None
    for place, line in log.lines:
        pattern = match_line(line)
        is_exception = EXCEPTION.match(line) is not None
        if pattern is not None and not _agrees(pattern.crash, line, how, report):
            continue
        if pattern is None:
            if is_exception and not SAYS_NOTHING.match(line):
                last = _Clue(CrashClass.ERROR, Tier.DEATH, _shown(line, strip=False), rank, place)
            continue
        strip = pattern.crash not in (CrashClass.CONFIGURATION, CrashClass.PEER_LOST)
        clue = _Clue(pattern.crash, pattern.tier, _shown(line, strip=strip), rank, place)
        if is_exception and pattern.tier <= Tier.CAUSE:
            last = clue
        if not pattern.last:
            found.setdefault(pattern.tier, clue)
    if last is not None:
        found[last.tier] = last
    return list(found.values())


def _agrees(crash: CrashClass, line: str, how: RankExit | None, report: ExitReport) -> bool:
    """Whether a line can be the story of this ending."""
    if crash is CrashClass.CONFIGURATION:
        codes = {how.code} if how is not None else {report.command_status, *(rank.code for rank in report.ranks)}
        wanted = {_NOT_FOUND} if line.endswith("command not found") else _CONFIGURATION_CODES  # a wrapper may live without it
        return (how is None or how.signal is None) and (codes == {None} or not wanted.isdisjoint(codes))
    if line.startswith("cgroup memory.events"):
        return any(signal_of(rank) == SIGKILL for rank in report.ranks) or report.command_status in (-SIGKILL, 128 + SIGKILL)
    return True


def _shown(line: str, *, strip: bool) -> str:
    """A line as evidence: bounded, one line of printable text, without the exception's name where the class says it."""
    text = line.strip()
    if strip and (name := EXCEPTION.match(text)) is not None:
        text = text[name.end() :].lstrip(": ") or text
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= EVIDENCE_CHARS else text[: EVIDENCE_CHARS - 1] + "…"


def signal_of(rank: RankExit) -> int | None:
    """The signal a rank died of, also where a shell reported it as 128 + n."""
    if rank.signal is not None:
        return rank.signal
    code = rank.code
    return code - _SHELL_SIGNAL_BASE if code is not None and _SHELL_SIGNAL_BASE < code <= _SHELL_SIGNAL_BASE + _SIGNALS else None


def _of_signals(report: ExitReport, first: RankExit | None, explained: set[int | None]) -> list[_Clue]:
    """What the exits say by themselves. A rank that failed first without a word is a death of its own."""
    clues: list[_Clue] = []
    failed = {signal_of(rank) for rank in report.ranks if _may_have_died(rank)}
    for rank in report.ranks:
        number = signal_of(rank)
        if number in _PLAIN_SIGNALS:
            clues.append(_Clue(CrashClass.KILLED, Tier.DEATH, "", rank.rank))
        elif number == SIGTERM and (rank.rank == report.first_failed_rank or failed == {SIGTERM}):
            clues.append(_Clue(CrashClass.PREEMPTION, Tier.TERMINATED, "SIGTERM from outside", rank.rank))
        elif number is not None:
            clues.append(_Clue(CrashClass.KILLED, Tier.TERMINATED, "", rank.rank))
        elif first is rank and not explained & {rank.rank, None}:
            clues.append(_Clue(None, Tier.DEATH, "", rank.rank))
    status = report.command_status
    if not report.ranks and status is not None and status < 0:
        is_term = status == -SIGTERM
        crash = CrashClass.PREEMPTION if is_term else CrashClass.KILLED
        tier = Tier.DEATH if -status in _PLAIN_SIGNALS else Tier.TERMINATED
        clues.append(_Clue(crash, tier, "SIGTERM from outside" if is_term else "", None))
    return clues


def _behind(logs: Mapping[int | None, _Log]) -> int | None:
    """The rank that had put fewer collectives in line than every other: it is the one the others waited for."""
    enqueued: dict[int, int] = {}
    for rank, log in logs.items():
        if rank is None:
            continue
        for _, line in log.lines:
            if (found := ENQUEUED.search(line)) is not None:
                enqueued[rank] = max(enqueued.get(rank, 0), int(found[1]))
    if len(enqueued) < 2:
        return None
    least = min(enqueued.values())
    behind = [rank for rank, work in enqueued.items() if work == least]
    return behind[0] if len(behind) == 1 else None
