"""What a launcher ended by itself: when one rank has died it sends SIGTERM to the others, and that SIGTERM is no preemption.

The launcher's own words decide. torchrun and torch.multiprocessing name each process that they send it to: more ranks ended by
SIGTERM than they name, or a word that the launcher got it itself, mean that it came from outside. srun terminates the step after
it told of a task that failed; tasks that were told to end before that were told from outside. DeepSpeed, Open MPI and MPICH say
at last of what the first rank died.

Seen: torch 2.13 (one rank killed, one that exits 3, one that gets SIGTERM, the agent that gets it, all of them). In public logs
only: torch.multiprocessing, srun (2016 to 2025), Open MPI, MPICH. DeepSpeed's words were not seen here. Where a launcher was
killed before it said anything, the SIGTERM counts as one from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sentinel.client.late_regex import late_regex
from sentinel.detectors.crash_patterns import CrashClass, Tier
from sentinel.detectors.crash_reading import Clue, OwnedLine, shown

_SENT = late_regex(r"Sending process (\d+) closing signal SIGTERM|Terminating process (\d+) via signal SIGTERM")
_FAILED_OF_IT = late_regex(r"failed \(exitcode: ?-15\) local_rank: \d+ \(pid: (\d+)\)|process \d+ terminated with signal SIGTERM")
_TASK_FAILED = late_regex(r"\bsrun: error: \S+: tasks? [\d,-]+: (?!Terminated\b)")
_TASK_TERMINATED = late_regex(r"\bsrun: error: \S+: tasks? [\d,-]+: Terminated\b")
_SRUN_ENDS = late_regex(r"\bsrun: (?:\S+: )?Terminating (?:StepId=|job step )")
_CAUSE_AT_LAST = late_regex(
    r"exits with return code = (?!-15\b|0\b)-?\d+|detected that one or more processes exited with non-zero status"
    r"|noticed that process rank \d+ .* exited on signal (?!15\b)\d+|^=\s+EXIT CODE: (?!15\b|0\b)\d+"
)
# The launcher got it, or a person or a scheduler took the job back
_OUTSIDE_WORDS = (
    r"Received (?:Signals\.)?(?:SIGTERM|15) death signal|SignalException: Process \d+ got signal: 15|Main process received SIG"
    r"|\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT"
    r"|(?i:\b(?:received|caught|got|receiving) (?:signal:? )?(?:1[02] ?\(?)?(?:Signals\.)?SIGUSR[12]\b)"
)
_GOT_WORDS = r"(?i:\b(?:received|caught|got|after receiving) (?:signal:? )?(?:15 ?\(?)?(?:Signals\.)?(?:SIGTERM|15)\b)"
_FROM_OUTSIDE, _GOT = late_regex(_OUTSIDE_WORDS), late_regex(_GOT_WORDS)
_TERMINATED = late_regex(f"{_OUTSIDE_WORDS}|{_GOT_WORDS}")


@dataclass(frozen=True, slots=True)
class EndedByLauncher:
    """`line`: what the launcher said, at the place where it stands. `ended`: the ranks that died of it."""

    line: OwnedLine
    ended: frozenset[int]

    @property
    def consequence(self) -> Clue:
        """What its words amount to: a peer was lost, and no more."""
        line = self.line
        text = shown(line.text, strip=False)
        return Clue(CrashClass.PEER_LOST, Tier.SYMPTOM, text, None, line.index, line.index, line.owner)


def ended_by_launcher(terminated: Iterable[int], lines: Sequence[OwnedLine]) -> EndedByLauncher | None:
    """What the launcher ended, where its words leave no other reading; None otherwise. `terminated`: the ranks that SIGTERM
    ended."""
    ended = frozenset(terminated)
    line = _named(ended, lines) or _of_srun(lines) or _cause_at_last(lines)
    return None if line is None else EndedByLauncher(line, ended)


def without_its_ends(clues: Iterable[Clue], own: EndedByLauncher | None) -> list[Clue]:
    """Without those that show nothing but the launcher's own SIGTERM."""
    return [clue for clue in clues if own is None or not _is_terminated(clue, own.ended)]


def _is_terminated(clue: Clue, ended: frozenset[int]) -> bool:
    if clue.tier is not Tier.TERMINATED:
        return False
    if clue.place < 0:
        return clue.rank in ended
    return clue.crash is CrashClass.PREEMPTION and _TERMINATED.search(clue.line) is not None


def _named(ended: frozenset[int], lines: Sequence[OwnedLine]) -> OwnedLine | None:
    """The processes are named, and nobody else was told to end."""
    sent: dict[str, OwnedLine] = {}
    failed: set[str] = set()
    ranks, unknown = set(ended), 0
    for line in lines:
        if _FROM_OUTSIDE.search(line.text) is not None:
            return None
        if (found := _SENT.search(line.text)) is not None:
            sent.setdefault(found[1] or found[2], line)
        elif (found := _FAILED_OF_IT.search(line.text)) is not None:
            failed.add(found[1] or "")
        elif _GOT.search(line.text) is not None:
            ranks |= set() if line.rank is None else {line.rank}
            unknown += line.rank is None
    if not sent or failed - sent.keys() or max(len(ranks), unknown) > len(sent):
        return None
    return next(iter(sent.values()))


def _of_srun(lines: Sequence[OwnedLine]) -> OwnedLine | None:
    """A task failed, srun terminates the step, and nothing was told to end before that."""
    cause: OwnedLine | None = None
    for line in lines:
        if cause is not None and line.owner == cause.owner and _SRUN_ENDS.search(line.text) is not None:
            elsewhere = (other for other in lines if other.owner != line.owner)
            return None if any(_is_from_outside(other) for other in elsewhere) else cause
        if _is_from_outside(line) or _TASK_TERMINATED.search(line.text) is not None:
            return None
        if cause is None and _TASK_FAILED.search(line.text) is not None:
            cause = line
    return None


def _cause_at_last(lines: Sequence[OwnedLine]) -> OwnedLine | None:
    found = next((line for line in lines if _CAUSE_AT_LAST.search(line.text) is not None), None)
    return None if any(map(_is_from_outside, lines)) else found


def _is_from_outside(line: OwnedLine) -> bool:
    return _FROM_OUTSIDE.search(line.text) is not None or _GOT.search(line.text) is not None
