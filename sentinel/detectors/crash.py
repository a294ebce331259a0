"""crash: why an attempt ended, from the ranks' own exit records and the ends of its logs. Finished, stopped or failed.

The rank that failed first gives the reason; those that followed were taken down by it. The launcher command's own status is
used only when no rank is known: torchrun returns 1 when every rank left with 6 (measured).
Exit 3 (configuration) and 4 (data) are never retried as they are; 5 is non_finite; 6 is a stop after a checkpoint.
A stop that sentinel did not ask for (eviction, SIGTERM from whomever) is *preempted*, whether the ranks saved or not.
The trainer's own codes are believed before any log; otherwise `crash_class` says of what class a crash is, and who caused it.
A trainer that ended itself because a value was no number died of `non_finite`, whatever code it left with: the newest checkpoint
may be damaged, and the incident is led as one of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sentinel.detectors.crash_class import Death, Owner, Tails, classify, last_words, says_finished
from sentinel.detectors.crash_patterns import CrashClass
from sentinel.detectors.settings import setting
from sentinel.model.attempts import (
    EXIT_BAD_CONFIG,
    EXIT_BAD_DATA,
    EXIT_FINISHED,
    EXIT_NON_FINITE,
    EXIT_STOPPED,
    ExitReport,
    RankExit,
)
from sentinel.model.findings import Finding, Kind, Severity

# Linux signal numbers (signal(7)); the pure core imports no `signal`.
SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1",
    11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
SIGTERM = 15
ZEROS = "every rank exited 0, without an end line"
ERROR_CHARS = 300


@dataclass(frozen=True, slots=True)
class CrashSettings:
    """An attempt that ended without being asked to by sentinel. Three deaths before the first step are a broken job."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")


@dataclass(frozen=True, slots=True)
class Finished:
    """The run trained to its end. `is_shown`: its stream or its own last word shows that, and not the exit status alone."""

    reason: str
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Stopped:
    """Ended because sentinel stopped it. `saved`: every rank says it stopped after a checkpoint."""

    saved: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Ended by a fault, or stopped by somebody else."""

    finding: Finding


Ended = Finished | Stopped | Failed


@dataclass(frozen=True, slots=True)
class Ending:
    """Where the attempt stood when it ended. `has_trained`: the run, in this attempt or an earlier one, has made a step: then
    its imports and its configuration once worked, and an error about them may pass (a stale file handle, a full disk).
    `is_cut`: the logs were searched in part only. `end_reason`: what the stream's end line says; empty without one.
    `missing_steps`: of the steps that the run was to have, by its receipt, so many were not made, for certain; 0: not known.
    `has_every_step`: it has made them all, for certain. `errors_from`: by log, where standard error begins in it.
    `may_end_early`: it may leave with 0 before the last step by itself, and nobody can tell that from a stop."""

    attempt: int
    newest_step: int
    now_s: float
    finished: bool
    stop_requested: bool
    non_finite_onset: int | None = None
    has_trained: bool = False
    is_cut: bool = False
    end_reason: str = ""
    missing_steps: int = 0
    has_every_step: bool = False
    errors_from: Mapping[Owner, int] = field(default_factory=dict)
    may_end_early: bool = False

    @property
    def search(self) -> str:
        """What a reason that rests on the logs says of their search."""
        return "; only the end of the logs was searched, and what stands further up is unknown" if self.is_cut else ""


def judge_exit(
    report: ExitReport,
    ending: Ending,
    severity: Callable[[Kind], Severity],
    tails: Tails | None = None,
) -> Ended:
    """Classify an exit. The end line of the stream outranks a bad code after it; a requested stop outranks how it ended."""
    first = choose_first(report)
    how = describe(first, report)
    codes = [rank.code for rank in report.ranks] or [report.command_status]
    if ending.finished:
        return Finished("the stream's end line says finished" + ("" if first is None else f"; afterwards {how}"))
    if ending.stop_requested:
        return Stopped(all(code == EXIT_STOPPED for code in codes), f"stop was requested; {how}")
    if all(code == EXIT_FINISHED for code in codes):
        return _judge_zeros(report, ending, severity, tails or {})
    if first is None and all(code in (EXIT_FINISHED, EXIT_STOPPED) for code in codes):
        return Failed(_preempted(ending, severity, f"the ranks stopped after a checkpoint ({how})", EXIT_STOPPED))
    if report.keeper_signal is not None:
        how = f"their keeper got {signal_name(report.keeper_signal)} and ended them without a checkpoint"
        return Failed(_preempted(ending, severity, how))
    if (first.code if first is not None else report.command_status) == EXIT_NON_FINITE:
        return Failed(_non_finite(report, ending, first, severity(Kind.NON_FINITE)))
    death = None if _own_words(report, first) else classify(report, tails or {}, first)
    if death is not None and death.crash is CrashClass.NON_FINITE:
        return Failed(_died_of_values(death, report, ending, first, severity(Kind.NON_FINITE)))
    return Failed(_crash(report, ending, first, severity, death))


def _judge_zeros(report: ExitReport, ending: Ending, severity: Callable[[Kind], Severity], tails: Tails) -> Ended:
    """Every rank left with 0, and no end line says that the run has finished. What names a step that rows lie behind was
    survived; one step may be a matter of counting."""
    death = None if ending.has_every_step else last_words(report, tails, ending.errors_from)
    if death is not None and death.step is not None and death.step + 1 < ending.newest_step:
        death = None
    if death is not None and death.crash is CrashClass.NON_FINITE:
        return Failed(_died_of_values(death, report, ending, None, severity(Kind.NON_FINITE)))
    why = _why_not_finished(report, ending)
    if not why and death is not None:
        why = describe_death(death, report, None)
    if why:
        return Failed(_preempted(ending, severity, why))
    is_shown = ending.has_every_step or says_finished(report, tails)
    how = _early_words(ending) if ending.missing_steps else ZEROS
    return Finished(f"{how}{_left_behind_words(report)}", is_shown=is_shown)


def _left_behind_words(report: ExitReport) -> str:
    """Empty where nothing was. It may have been a helper, or the training itself: nobody knows, and a person should."""
    if not report.left_behind:
        return ""
    what = "a process" if report.left_behind == 1 else f"{report.left_behind} processes"
    return (
        f"; the command had left {what} running, which sentinel ended: where that was the training, it did not finish, "
        "and the command has to wait for it (no &, no nohup, no daemon)"
    )


def _why_not_finished(report: ExitReport, ending: Ending) -> str:
    """What shows that ranks that left with 0, and no end line that says finished, did not train to their end: a trainer that
    saves and leaves on SIGTERM often does. Empty where nothing shows it."""
    if ending.end_reason == "stopped_on_request":
        return "the stream's end line says stopped_on_request, and every rank exited 0"
    if report.keeper_signal is not None:
        return f"their keeper got {signal_name(report.keeper_signal)} and told them; every rank exited 0, without an end line"
    return _early_words(ending) if ending.missing_steps and not ending.may_end_early else ""


def _early_words(ending: Ending) -> str:
    early = f"at least {ending.missing_steps} {'step' if ending.missing_steps == 1 else 'steps'} early"
    return f"every rank exited 0 at step {ending.newest_step}, without an end line and {early}"


def _preempted(ending: Ending, severity: Callable[[Kind], Severity], how: str, code: int | None = None) -> Finding:
    """Nobody of the run is to blame: which rank was stopped first says nothing of it."""
    return Finding(
        Kind.PREEMPTED, severity(Kind.PREEMPTED), ending.attempt, None, ending.newest_step, ending.now_s,
        f"stopped from outside, and not by sentinel: {how}",
        value=None if code is None else float(code), outside=True,
    )  # fmt: skip


def _keepers_words(report: ExitReport, first: RankExit | None) -> str:
    return f": {report.reason}" if report.reason and first is None else ""  # with a culprit, the keeper only repeats it


def _non_finite(report: ExitReport, ending: Ending, first: RankExit | None, severity: Severity) -> Finding:
    onset = ending.non_finite_onset if ending.non_finite_onset is not None else ending.newest_step + 1
    how = describe(first, report)
    return Finding(
        Kind.NON_FINITE, severity, ending.attempt, onset, ending.newest_step, ending.now_s,
        f"{how}: values were not finite and training could not continue{_keepers_words(report, first)}",
        metric="exit", value=float(EXIT_NON_FINITE), blamed_rank=None if first is None else first.rank,
    )  # fmt: skip


def _died_of_values(death: Death, report: ExitReport, ending: Ending, first: RankExit | None, severity: Severity) -> Finding:
    """The trainer ended itself because a loss or a gradient was no number. Dated by the stream, else by the step that the line
    names, where the stream has not come so far: trainers that check do so at every step, before the update."""
    onset = ending.non_finite_onset
    if onset is None:
        named = death.step
        onset = named if named is not None and named > ending.newest_step else ending.newest_step + 1
    return Finding(
        Kind.NON_FINITE, severity, ending.attempt, onset, ending.newest_step, ending.now_s,
        describe_death(death, report, first, ending.has_trained) + _keepers_words(report, first) + ending.search,
        metric="exit", blamed_rank=death.rank,
    )  # fmt: skip


def _own_words(report: ExitReport, first: RankExit | None) -> str:
    """What the trainer's own exit codes say; empty where they leave it to records and logs."""
    code = first.code if first is not None else report.command_status
    return {
        EXIT_BAD_CONFIG: ": configuration error, a relaunch cannot help",
        EXIT_BAD_DATA: ": data error, a relaunch without a change cannot help",
    }.get(code if code is not None else 1, "")


def _crash(
    report: ExitReport, ending: Ending, first: RankExit | None, severity: Callable[[Kind], Severity], death: Death | None
) -> Finding:
    """By the trainer's own code where it says configuration or data, else by what its records and logs show."""
    code = first.code if first is not None else report.command_status
    hint = _own_words(report, first)
    blamed = first.rank if first is not None else None
    reason = describe(first, report) + hint
    if death is not None:
        blamed, reason = death.rank, describe_death(death, report, first, ending.has_trained)
        if death.crash is CrashClass.PREEMPTION:
            return _preempted(ending, severity, reason + _keepers_words(report, first) + ending.search, code)
    return Finding(
        Kind.CRASH, severity(Kind.CRASH), ending.attempt, None, ending.newest_step, ending.now_s,
        reason + _keepers_words(report, first) + ("" if hint else ending.search),
        value=None if code is None else float(code), blamed_rank=blamed,
        retryable=not hint and (death is None or death.retryable or ending.has_trained),
        outside=death is not None and death.is_outside(report),
    )  # fmt: skip


def describe_death(death: Death, report: ExitReport, first: RankExit | None, has_trained: bool = False) -> str:
    """The class first, then who and what shows it: 'out of memory on rank 3: CUDA out of memory. … (rank 3 exited 1)'."""
    where = "" if death.rank is None or not death.evidence else f" on rank {death.rank}"
    seen = "" if death.seen_by in (None, death.rank) else f", seen by rank {death.seen_by}"
    died = next((rank for rank in report.ranks if rank.rank == death.rank), first)
    how = describe(died if died is None or not death.evidence else replace(died, error=None), report)
    follows = ", and a relaunch cannot help" if not (death.retryable or has_trained) else ""
    if not death.evidence:
        return f"{death.crash}: {how}"
    return f"{death.crash}{where}{seen}: {death.evidence} ({how}{follows})"


def is_failure(rank: RankExit) -> bool:
    return rank.signal is not None or rank.code not in (EXIT_FINISHED, EXIT_STOPPED)


def choose_first(report: ExitReport) -> RankExit | None:
    """The rank that failed first: as the keeper saw it, else by what its own record says, else the lowest. None: none failed, or
    those that did only lost their peers, and which of the others went first is not known."""
    failed = [rank for rank in report.ranks if is_failure(rank)]
    for rank in failed:
        if rank.rank == report.first_failed_rank:
            return rank
    if not failed or (any(rank.lost_peers for rank in failed) and all(map(_is_no_cause, failed))):
        return None

    def weight(rank: RankExit) -> tuple[bool, bool, bool, bool, int]:
        is_own_code = rank.code in (EXIT_BAD_CONFIG, EXIT_BAD_DATA, EXIT_NON_FINITE)
        return not is_own_code, rank.lost_peers, rank.source == "unknown", rank.signal == SIGTERM, rank.rank

    return min(failed, key=weight)


def _is_no_cause(rank: RankExit) -> bool:
    """Where some lost their peers: it is one of them, or was terminated for it, or nothing is known of it."""
    return rank.lost_peers or rank.signal == SIGTERM or rank.source == "unknown"


def signal_name(number: int) -> str:
    return SIGNAL_NAMES.get(number, f"signal {number}")


def describe(first: RankExit | None, report: ExitReport) -> str:
    """One clause: who ended how."""
    if first is None:
        status = report.command_status
        lost = next((rank for rank in report.ranks if rank.lost_peers), None)
        if lost is not None:
            return f"which rank went first is unknown; {describe(lost, report)} because it lost its peers"
        if report.ranks:
            return "ranks exited " + ", ".join(str(code) for code in sorted({rank.code or 0 for rank in report.ranks}))
        if status is None:
            return "no exit record and no status: how it ended is unknown"
        return f"the command was killed by {signal_name(-status)}" if status < 0 else f"the command exited {status}"
    if first.signal is not None:
        how = f"rank {first.rank} was killed by {signal_name(first.signal)}"
    elif first.code is not None:
        how = f"rank {first.rank} exited {first.code}"
    elif report.lost_nodes and first.rank == report.first_failed_rank:
        how = f"rank {first.rank} went with its node: the scheduler has given up {', '.join(report.lost_nodes)}"
    else:
        how = f"rank {first.rank} ended, how is unknown"
    return f"{how} ({first.error.strip()[:ERROR_CHARS]})" if first.error and first.source == "record" else how
