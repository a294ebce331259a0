"""Which death an attempt died, from its exit records and its logs: a class, the line that shows it, and who.

A log is read from the last line that shows training at work: what stands before it was survived. Of what is found behind it the
tier decides first (`crash_patterns.Tier`), then whether it was the rank that failed first, then the order in the launcher's log,
or the times of the lines where they stand in several logs.
Where only consequences stand there (a lost connection, a timeout), a cause a few step lines earlier counts, for ranks go on for
a step or two, and their output comes late. Of a log with several launches the last one counts, if a cause stands in it; if it
holds only consequences, it may be another node's, and all counts. What it does not see: a cause that nobody printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sentinel.client.late_regex import late_regex
from sentinel.detectors.crash_labels import Labelled, Writers, read_labels, stamp_of
from sentinel.detectors.crash_launcher_ends import EndedByLauncher, ended_by_launcher, without_its_ends
from sentinel.detectors.crash_patterns import (
    ABSENT,
    ENQUEUED,
    FORCED_KILL,
    LINE_CHARS,
    OUTSIDE,
    RETRYABLE,
    TIMED_OUT,
    CrashClass,
    Tier,
)
from sentinel.detectors.crash_progress import is_finish, is_launch, is_progress, step_of
from sentinel.detectors.crash_reading import Clue, LineAt, OwnedLine, WriterLines
from sentinel.model.attempts import EXIT_FINISHED, EXIT_STOPPED, ExitReport, RankExit

STEPS_SURVIVED_MAX = 2  # step lines behind a cause that a mere consequence at the end does not outweigh
BLAMED_MAX = 64
RANKS_OF_NODE = 8  # ranks come in multiples of it; where fewer speak, more than one may be silent
SIGKILL, SIGTERM = 9, 15
# Nobody dies of these by itself: a scheduler's warning that the program does not handle (Slurm's --signal=USR1@300), a terminal
# that closed, an eviction
FROM_OUTSIDE = {1: "SIGHUP", 10: "SIGUSR1", 12: "SIGUSR2", 15: "SIGTERM"}
_PLAIN_SIGNALS = (4, 7, 8, 9, 11)  # ILL BUS FPE KILL SEGV: a rank dies of these by itself or by the kernel
OWN_SIGNALS = (4, 6, 7, 8, 11)  # ILL ABRT BUS FPE SEGV
_CONFIGURATION_CODES = frozenset({1, 2, 126, 127})  # Python, argparse, the shell
_NOT_FOUND = 127  # the shell's
_SHELL_SIGNAL_BASE, _SIGNALS = 128, 64
_OF_A_PEER = late_regex(r"(?i)\bpeer\b|nvlink")
# The run, and not a part of one step: "stopping accumulation" and "aborting this batch" go on with the next
_STOPS = late_regex(
    r"(?i)\b(?:stop|abort|exit|terminat|quit|halt)(?:s|p?ing|p?ed|ting|e|ed)?\b"
    r"(?!\s+(?:(?:the|this|that|its|current|gradient|loss|any|further|all|of)\s+)*(?:accumulat|micro|mini|batch|step|iteration|update"
    r"|backward|forward|eval|validat|log|profil|trac|record|warm|sampl|scal|search|check|prefetch|epoch))"
)
OF_A_GPU = (CrashClass.LOST_GPU, CrashClass.CUDA_ERROR)
WAITED = (CrashClass.COLLECTIVE_TIMEOUT, CrashClass.PEER_LOST)

_STREAM = late_regex(r"(?:std)?(?:out|err)(?:or|put)?|\.(?:log|txt)|[-_.]")  # what the names of a node's two logs differ in

Owner = int | str | None
Tails = Mapping[Owner, Sequence[str]]
"""Lines of each log: under its rank, None for the launcher's, a name for another log of no single rank."""


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line stands: whose log, and which of its lines, from 0."""

    owner: Owner
    index: int


@dataclass(frozen=True, slots=True)
class Death:
    """`rank` is who is blamed, None when nobody can be; `seen_by` who wrote the evidence, where that is another. `blamed`: all
    who are, where the evidence names several. `step`: what the evidence names, of a death by values that are no numbers, and
    of a stop that the trainer itself tells of."""

    crash: CrashClass
    evidence: str
    rank: int | None
    retryable: bool
    seen_by: int | None = None
    blamed: tuple[int, ...] = field(default=(), compare=False)
    place: LinePlace | None = field(default=None, compare=False)
    step: int | None = field(default=None, compare=False)
    tier: Tier = field(default=Tier.DEATH, compare=False)
    is_followed: bool = field(default=False, compare=False)  # others lost this rank or waited for it

    def is_outside(self, report: ExitReport) -> bool:
        """Whether what the run resumed from cannot be to blame. A rank may die of a damaged state by a signal of its own
        (SIGSEGV, SIGABRT, …), never by SIGKILL."""
        if self.crash is not CrashClass.KILLED:
            return self.crash in OUTSIDE
        died = next((rank for rank in report.ranks if rank.rank == self.rank), None)
        return (-(report.command_status or 0) if died is None else signal_of(died)) not in OWN_SIGNALS


def classify(report: ExitReport, tails: Tails, first: RankExit | None, *, is_complete: bool = True) -> Death | None:
    """What the attempt died of; None when neither the records nor the logs say more than a bare status. `is_complete`: the report
    has every rank, so that a label which is none of them names no rank."""
    lines = _by_owner(report, tails, is_complete)
    late, early = _since_progress(lines)
    newest = _since_launch(lines)
    if any(clue.tier <= Tier.DEATH for clue in _clues(report, newest)):
        late, early = newest, []
    own = _own_ends(report, late)
    if own is not None and own.ended and is_complete and len(own.ended) == len(report.ranks):
        return classify(report, tails, first, is_complete=False)  # it ended all who are known for another, who is not
    clues = _clues(report, late)
    clues += _of_signals(report, first, {clue.rank for clue in clues}, late)
    left = without_its_ends(clues, own)
    own = own if len(left) < len(clues) else None
    clues = left if own is None else [*left, own.consequence]
    if clues and min(clue.tier for clue in clues) >= Tier.TIMEOUT:
        causes = [clue for clue in _clues(report, early) if clue.tier <= Tier.DEATH and not clue.is_last_only]
        clues = causes or clues
    if not clues:
        return None

    stamps = _stamps(clues, tails)

    def weight(clue: Clue) -> tuple[int, bool, float, bool, int]:
        is_first = first is not None and clue.rank == first.rank
        blames = clue.tier is not Tier.TIMEOUT  # who waited first is not who failed first
        order = stamps.get(clue.line_at, clue.order)
        return clue.tier, blames and not is_first, order, not is_first, -1 if clue.rank is None else clue.rank

    best = min(clues, key=weight)
    if best.rank is None:
        best = min(_of_the_same_death(best, clues), key=weight, default=best)
    if best.tier is Tier.TERMINATED and report.first_failed_rank is None:
        best = _of_nobody_alone(best, clues)
        first = first if best.rank is not None else None
    if not best.line:  # an exit by itself: what the same rank said of it stands for it
        same = [clue for clue in clues if clue.line and (clue.crash, clue.rank, clue.tier) == (best.crash, best.rank, best.tier)]
        best = min(same, key=weight, default=best)
    if best.crash is None:
        return None
    is_followed = any(clue.crash in WAITED and clue.rank != best.rank for clue in clues)
    return replace(_death(best, best.crash, report, first, late, own), is_followed=is_followed)


def last_words(report: ExitReport, tails: Tails, errors_from: Mapping[Owner, int]) -> Death | None:
    """What the logs of ranks that all left with 0 end in, if that is no end of training: a trainer that stopped itself because
    a value was no number, or a stop from outside. None where nothing behind the last step line says so, or the trainer's own last
    word is that it has finished. A zero shows neither: many trainers leave with it whatever happened. `errors_from`: by log,
    where standard error begins in it."""
    ranks = tuple(replace(rank, code=None) for rank in report.ranks)
    silent = replace(report, command_status=None, ranks=ranks)
    lines = _by_owner(silent, tails, is_complete=True)
    if _is_finished(lines):
        return None
    late, _ = _since_progress(lines)
    placed = _placed_until(lines, errors_from)
    clues = [clue for clue in _clues(silent, late) if _ends_quietly(clue, clue.place < placed.get(clue.owner, 0))]
    if not clues:
        return None
    best = min(clues, key=lambda clue: (clue.tier is not Tier.TAKEN_AWAY, clue.crash is not CrashClass.NON_FINITE, clue.order))
    assert best.crash is not None
    death = _death(best, best.crash, silent, None, late, None)
    if best.crash is CrashClass.PREEMPTION and best.tier is not Tier.TAKEN_AWAY:  # a scheduler's "STEP 1.0" is none of training
        return replace(death, step=step_of(best.line))
    return death


def says_finished(report: ExitReport, tails: Tails) -> bool:
    """Whether the trainer's own last word in one of the logs is that it has finished."""
    return _is_finished(_by_owner(report, tails, is_complete=True))


def _is_finished(logs: Iterable[Sequence[OwnedLine]]) -> bool:
    return any(is_finish(next((one.text for one in reversed(log) if is_progress(one.text)), "")) for log in logs)


def _placed_until(logs: Iterable[Sequence[OwnedLine]], errors_from: Mapping[Owner, int]) -> dict[Owner, int]:
    """By log, up to which line it is known whether a line was printed before or behind the last step line: not of standard error
    where the step lines stand on standard output, and not where there is none."""
    placed: dict[Owner, int] = {}
    for lines in logs:
        last = next((line.index for line in reversed(lines) if is_progress(line.text)), None)
        if last is not None:
            begins = errors_from.get(lines[0].owner, 0)
            placed[lines[0].owner] = begins if last < begins else len(lines)
    return placed


def _ends_quietly(clue: Clue, is_placed: bool) -> bool:
    """Where it is not known when a line was printed, it must say itself that it ended the run: a NaN may have been survived, and
    SIGUSR1 is how many a trainer is asked to save."""
    if clue.crash is CrashClass.PREEMPTION:
        return is_placed or clue.tier is Tier.TAKEN_AWAY or "SIGUSR" not in clue.line.upper()
    stops = _STOPS.search(clue.line) is not None
    return clue.crash is CrashClass.NON_FINITE and (stops or (is_placed and clue.tier is Tier.CAUSE))


def _of_the_same_death(best: Clue, clues: Sequence[Clue]) -> list[Clue]:
    """The strongest line names no rank: who printed the same word for word; or, of what a kernel says of a GPU, the one rank
    whose own GPU failed. A peer's GPU that is gone fails whoever reads its memory, too."""
    ranked = [clue for clue in clues if clue.rank is not None and clue.tier <= Tier.DEATH]
    same = [clue for clue in ranked if best.line and (clue.crash, clue.tier, clue.line) == (best.crash, best.tier, best.line)]
    if same or best.crash not in OF_A_GPU:
        return same
    hurt = [clue for clue in ranked if clue.crash in OF_A_GPU and _OF_A_PEER.search(clue.line) is None]
    return [replace(best, rank=hurt[0].rank)] if len({clue.rank for clue in hurt}) == 1 else []


def _of_nobody_alone(best: Clue, clues: Sequence[Clue]) -> Clue:
    """Where several ranks were told to end, and nobody knows who was first, none of them caused it: a cancelled job."""
    ended = [clue for clue in clues if clue.tier is Tier.TERMINATED]
    if len({clue.rank for clue in ended if clue.rank is not None}) < 2:
        return best
    lines = [clue for clue in ended if clue.crash is best.crash and clue.place >= 0]
    return replace(min(lines, key=lambda clue: clue.order, default=best), rank=None)


def _stamps(clues: Sequence[Clue], tails: Tails) -> dict[LineAt, float]:
    """When each of the strongest clues was printed, where they stand in several logs and every line begins with a time; else
    nothing, for the places of lines in two logs do not compare, and neither do a time and none."""
    strongest = min(clue.tier for clue in clues)
    found = {clue.line_at: clue for clue in clues if clue.tier == strongest and clue.place >= 0}
    if len({owner for owner, _ in found}) < 2:
        return {}
    read = {at: stamp_of(tails[at[0]][at[1]]) for at in found}
    forms = {None if stamp is None else stamp[0] for stamp in read.values()}
    return {} if None in forms or len(forms) > 1 else {at: stamp[1] for at, stamp in read.items() if stamp is not None}


def _death(
    best: Clue,
    crash: CrashClass,
    report: ExitReport,
    first: RankExit | None,
    late: Sequence[OwnedLine],
    own: EndedByLauncher | None,
) -> Death:
    place = LinePlace(best.owner, best.place) if best.place >= 0 else None
    step = step_of(best.line) if crash is CrashClass.NON_FINITE else None
    death = Death(crash, best.line, best.rank, RETRYABLE[crash], place=place, step=step, tier=best.tier)
    ended = frozenset[int]() if own is None else own.ended
    if own is not None and first is not None and (first.rank in ended or _is_guessed(first, report)):
        first = None
    if crash in WAITED:
        # Where a peer was lost, whom the launcher ended lived until then. Where all waited, it may be whom they waited for.
        left = ended if crash is CrashClass.PEER_LOST else frozenset[int]()
        blamed = _absent(late) or _behind(late) or _silent(report, late, left)
        if blamed or crash is CrashClass.COLLECTIVE_TIMEOUT:
            rank = blamed[0] if len(blamed) == 1 else None
            return replace(death, rank=rank, seen_by=best.rank, blamed=blamed)
        if first is None or best.rank in ended:
            return replace(death, rank=None, seen_by=best.rank)
    if crash is CrashClass.ENGINE or (crash is CrashClass.NETWORK and best.tier is Tier.TIMEOUT):
        return replace(death, rank=None, seen_by=best.rank)
    death = death if best.rank is not None or first is None else replace(death, rank=first.rank)
    return death if death.rank is None else replace(death, blamed=(death.rank,))


def _own_ends(report: ExitReport, lines: Sequence[OwnedLine]) -> EndedByLauncher | None:
    """Whom the launcher ended for another that died. None where one left with 6: torchrun ends the others for that, too."""
    if any(rank.code == EXIT_STOPPED for rank in report.ranks):
        return None
    return ended_by_launcher((rank.rank for rank in report.ranks if signal_of(rank) == SIGTERM), lines)


def _is_guessed(first: RankExit, report: ExitReport) -> bool:
    """Whether nothing shows that this rank went first."""
    return first.source == "unknown" and first.rank != report.first_failed_rank


def _may_have_died(how: RankExit | None) -> bool:
    """A rank that left in order tells of no cause; one without a record may."""
    return how is None or how.code not in (EXIT_FINISHED, EXIT_STOPPED)


def _by_owner(report: ExitReport, tails: Tails, is_complete: bool) -> list[list[OwnedLine]]:
    """The lines of each log with who wrote them; what nobody is named for is the launcher's, or the only rank's."""
    only = report.ranks[0].rank if len(report.ranks) == 1 and is_complete else None
    known = {rank.rank for rank in report.ranks} if is_complete else set()
    logs: list[list[OwnedLine]] = []
    in_order = sorted(tails.items(), key=_owner_order)  # whatever order they came in
    read = {owner: [_labelled(raw) for raw in raws] for owner, raws in in_order}
    is_alone = _roles_are_of_one_node(read)
    for owner, labelled in read.items():
        if isinstance(owner, int):
            logs.append([OwnedLine(owner, place, owner, (owner, ""), line.text) for place, line in enumerate(labelled)])
            continue
        writers = Writers(labelled, is_alone=is_alone)
        lines: list[OwnedLine] = []
        for place, line in enumerate(labelled):
            rank = writers.rank_of(line)
            writer = writers.writer_of(line)
            if rank is None or (known and rank not in known):
                rank = only
            writer = (only, "") if rank == only and only is not None else writer
            lines.append(OwnedLine(owner, place, rank, writer, line.text))
        logs.append(lines)
    for exit_ in report.ranks:
        if exit_.error and exit_.source == "record" and exit_.error.strip():
            text = exit_.error.strip().splitlines()[0][:LINE_CHARS]
            logs.append([OwnedLine(exit_.rank, -1, exit_.rank, (exit_.rank, ""), text)])
    return logs


def _roles_are_of_one_node(logs: Mapping[Owner, Sequence[Labelled]]) -> bool:
    """Whether the places on a node that labels name are those of one node. Each node has a log of its own, and standard output
    and standard error of a node may be two."""
    nodes = {
        _STREAM.sub("", owner) if isinstance(owner, str) else ""
        for owner, lines in logs.items()
        if not isinstance(owner, int) and any(line.role is not None for line in lines)
    }
    return len(nodes) <= 1


def _owner_order(tail: tuple[Owner, Sequence[str]]) -> tuple[int, int, str]:
    owner = tail[0]
    if isinstance(owner, int):
        return 0, owner, ""
    return (1, 0, owner) if owner is not None else (2, 0, "")


def _labelled(raw: str) -> Labelled:
    return read_labels(raw[:LINE_CHARS].rstrip())


def _since_progress(logs: Iterable[Sequence[OwnedLine]]) -> tuple[list[OwnedLine], list[OwnedLine]]:
    """The lines behind the last step line of each log, and those between it and the step lines just before it."""
    late: list[OwnedLine] = []
    early: list[OwnedLine] = []
    for lines in logs:
        shows = [at for at, line in enumerate(lines) if is_progress(line.text)]
        last = shows[-1] + 1 if shows else 0
        late += lines[last:]
        if len(shows) > 1:
            early += lines[shows[-min(len(shows), STEPS_SURVIVED_MAX + 1)] + 1 : last]
    return late, early


def _since_launch(logs: Iterable[Sequence[OwnedLine]]) -> list[OwnedLine]:
    """Of logs that hold several launches, the lines of the last one that no step line followed; empty where none does."""
    newest: list[OwnedLine] = []
    for lines in logs:
        at = next((at for at in reversed(range(len(lines))) if is_launch(lines[at].text) or is_progress(lines[at].text)), None)
        if at is not None and is_launch(lines[at].text):
            newest += lines[at + 1 :]
    return newest


def _clues(report: ExitReport, lines: Sequence[OwnedLine]) -> list[Clue]:
    exits = {rank.rank: rank for rank in report.ranks}
    readings: dict[tuple[Owner, tuple[int | None, str]], WriterLines] = {}
    for line in lines:
        how = None if line.rank is None else exits.get(line.rank)
        if not _may_have_died(how):
            continue
        owner = None if line.writer[0] is not None else line.owner
        key = owner, line.writer
        reading = readings.get(key)
        if reading is None:
            reading = readings[key] = WriterLines(is_process=line.writer[0] is not None)
        order = 0 if isinstance(line.owner, int) else line.index
        reading.feed(line.text, Clue(None, Tier.SYMPTOM, "", line.rank, order, line.index, line.owner))
    return [
        clue
        for reading in readings.values()
        for clue in reading.clues()
        if _agrees(clue, None if clue.rank is None else exits.get(clue.rank), report)
    ]


def _agrees(clue: Clue, how: RankExit | None, report: ExitReport) -> bool:
    """Whether a line can be the story of this ending."""
    line = clue.line
    if clue.crash is CrashClass.CONFIGURATION:
        codes = {how.code} if how is not None else {report.command_status, *(rank.code for rank in report.ranks)}
        wanted = {_NOT_FOUND} if line.endswith("command not found") else _CONFIGURATION_CODES  # a wrapper may live without it
        return (how is None or how.signal is None) and (codes == {None} or not wanted.isdisjoint(codes))
    if line.startswith("cgroup memory.events"):
        return any(signal_of(rank) == SIGKILL for rank in report.ranks) or report.command_status in (-SIGKILL, 128 + SIGKILL)
    return True


def signal_of(rank: RankExit) -> int | None:
    """The signal a rank died of, also where a shell reported it as 128 + n."""
    if rank.signal is not None:
        return rank.signal
    code = rank.code
    return code - _SHELL_SIGNAL_BASE if code is not None and _SHELL_SIGNAL_BASE < code <= _SHELL_SIGNAL_BASE + _SIGNALS else None


def _of_signals(report: ExitReport, first: RankExit | None, explained: set[int | None], lines: Sequence[OwnedLine]) -> list[Clue]:
    """What the exits say by themselves. A rank that failed first without a word is a death of its own. Where the launcher says
    that it killed who was left, a SIGKILL of another than the first rank is the launcher's."""
    clues: list[Clue] = []
    failed = {signal_of(rank) for rank in report.ranks if _may_have_died(rank)}
    is_forced = any(line.rank is None and FORCED_KILL.search(line.text) is not None for line in lines)
    for rank in report.ranks:
        number = signal_of(rank)
        if number == SIGKILL and is_forced and report.first_failed_rank not in (None, rank.rank):
            clues.append(Clue(CrashClass.KILLED, Tier.SYMPTOM, "", rank.rank))
        elif number in _PLAIN_SIGNALS:
            clues.append(Clue(CrashClass.KILLED, Tier.DEATH, "", rank.rank))
        elif number in FROM_OUTSIDE and (rank.rank == report.first_failed_rank or failed <= FROM_OUTSIDE.keys()):
            clues.append(Clue(CrashClass.PREEMPTION, Tier.TERMINATED, f"{FROM_OUTSIDE[number]} from outside", rank.rank))
        elif number is not None:
            clues.append(Clue(CrashClass.KILLED, Tier.TERMINATED, "", rank.rank))
        elif first is rank and not explained & {rank.rank, None}:
            clues.append(Clue(None, Tier.DEATH, "", rank.rank))
    status = report.command_status
    if not report.ranks and status is not None and status < 0:
        name = FROM_OUTSIDE.get(-status)
        crash = CrashClass.KILLED if name is None else CrashClass.PREEMPTION
        tier = Tier.DEATH if -status in _PLAIN_SIGNALS else Tier.TERMINATED
        clues.append(Clue(crash, tier, "" if name is None else f"{name} from outside", None))
    return clues


def _absent(lines: Sequence[OwnedLine]) -> tuple[int, ...]:
    """The ranks that a monitored barrier names as those who did not come."""
    for line in lines:
        found = ABSENT.search(line.text)
        if found is not None:
            return tuple(sorted({int(number) for number in found[1].split(",") if number.strip().isdigit()}))[:BLAMED_MAX]
    return ()


def _behind(lines: Sequence[OwnedLine]) -> tuple[int, ...]:
    """The ranks that had put fewer collectives in line than most of their group: they are those the others waited for."""
    enqueued: dict[str, dict[int, int]] = {}
    timed_out: dict[str, dict[int, int]] = {}
    for line in lines:
        if line.rank is None:
            continue
        if (found := ENQUEUED.search(line.text)) is not None:
            if found["own"] is None:  # a number of the rank's own does not say which group it is
                group = enqueued.setdefault(found["group"] or "0", {})
                group[line.rank] = max(group.get(line.rank, 0), int(found["number"]))
        elif (found := TIMED_OUT.search(line.text)) is not None:
            timed_out.setdefault(found["group"] or "0", {}).setdefault(line.rank, int(found["number"]))
    return _behind_in(enqueued.values()) or _behind_in(timed_out.values())


def _behind_in(groups: Iterable[Mapping[int, int]]) -> tuple[int, ...]:
    """Who is behind in one group and waits in none. Where two groups show two, which one came first is not known: nobody."""
    behind = {few: group.keys() for group in groups if (few := _fewest(group))}
    waiting = {rank for few, ranks in behind.items() for rank in ranks if rank not in few}
    left = {few for few in behind if waiting.isdisjoint(few)}
    return next(iter(left)) if len(left) == 1 else ()


def _fewest(work: Mapping[int, int]) -> tuple[int, ...]:
    """The ranks with the least work, where they are few."""
    if len(work) < 2 or len(set(work.values())) < 2:
        return ()
    least = min(work.values())
    behind = tuple(sorted(rank for rank, count in work.items() if count == least))
    return behind if len(behind) == 1 or (len(behind) * 4 <= len(work) and len(behind) <= BLAMED_MAX) else ()


def _silent(report: ExitReport, lines: Sequence[OwnedLine], ended: frozenset[int]) -> tuple[int, ...]:
    """The one rank that reports nothing where every other known rank says that it waited or was left, or was `ended` for it."""
    known = {rank.rank for rank in report.ranks} | {line.rank for line in lines if line.rank is not None and line.text.strip()}
    waited = {clue.rank for clue in _clues(report, lines) if clue.crash in WAITED and clue.rank is not None} | ended
    count = max((rank for rank in waited if rank is not None), default=-1) + 1
    if count > 0 and count % RANKS_OF_NODE == 0:
        known |= set(range(count))  # one between them is there, though it never wrote a word
    silent = known - waited
    if ended:
        silent -= {rank.rank for rank in report.ranks if not _may_have_died(rank)}
    return tuple(silent) if len(silent) == 1 and waited else ()
