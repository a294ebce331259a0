"""What a run died of, from logs alone: a launcher's log, or a folder with the logs of its ranks. For `sentinel autopsy`.

The reading is the one of a supervised run (`detectors/crash_class.py`); exit records are replaced by what launchers print. It
says who died first, where that stands and why. What no log shows is unknown: a run without a sign of a failure is not called
healthy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sentinel.detectors.collectives import WaitedFor, judge_collectives
from sentinel.detectors.crash import signal_name
from sentinel.detectors.crash_class import WAITED, Death, LinePlace, Owner, classify, signal_of
from sentinel.detectors.crash_labels import read_labels
from sentinel.detectors.crash_patterns import CrashClass, Tier
from sentinel.detectors.crash_progress import is_finish, is_progress, step_of
from sentinel.detectors.crash_reading import says_it_went_on
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.model.collectives import Dumps
from sentinel.policy.schema_logs import LogRule
from sentinel.report.autopsy_logs import Logs, read_logs
from sentinel.report.autopsy_patterns import PolicyWord, judge_by_policy
from sentinel.report.masked import quoted_line
from sentinel.telemetry.flight_recorder import dumps_in, rank_of, read_dumps
from sentinel.telemetry.printed_exits import PrintedExits, read_printed_exits

LINE_CHARS = 500
LINES_AFTER_MAX = 8

NOTHING = "unknown: no line of it says that the run failed"
EMPTY = "unknown: it is empty"
NOBODY = "unknown: no log in it, and the flight recorder's dumps of {} rank{} name nobody who is waited for"


@dataclass(frozen=True, slots=True)
class Autopsy:
    """One argument's answer. `crash` None: nothing failed, or it could not be read (`error` says why). `line` counts from 1 in
    `log`, the file that the evidence stands in. `last_step`: the newest step line before the death."""

    path: Path
    crash: CrashClass | None = None
    rank: int | None = None
    seen_by: int | None = None
    blamed: tuple[int, ...] = ()
    log: Path | None = None
    line: int | None = None
    evidence: str | None = None
    retryable: bool | None = None
    exit_words: str = ""
    last_step: int | None = None
    step: int | None = None
    is_cut: bool = False
    error: str | None = None
    unread: tuple[str, ...] = ()
    is_empty: bool = False
    dumps: int = 0  # of the flight recorder, where they are all there is
    by_policy: PolicyWord | None = None


def examine(path: Path, rules: Sequence[LogRule] = ()) -> Autopsy:
    """Read one log or one folder. Never raises for what is in it: what cannot be read is said in `error`. `rules`: a policy's
    patterns over logs."""
    try:
        logs = read_logs(path)
    except OSError as error:
        return Autopsy(path, error=f"{path}: {error.strerror or error}; name a log, or a folder of logs, that can be read")
    dumps, logs = _read_dumps_of(path, logs) if path.is_dir() else ({}, logs)
    waited_for = judge_collectives(dumps)
    if not logs.tails:
        if waited_for is not None:
            return _by_flight_recorder(Autopsy(path, crash=CrashClass.COLLECTIVE_TIMEOUT, retryable=True), waited_for)
        if dumps:
            return Autopsy(path, dumps=len(dumps), unread=logs.unread)
        if path.is_dir():
            why = "; ".join(logs.unread[:3]) or "no log in it"
            return Autopsy(path, error=f"{path}: {why}; name the folder that holds the logs of the ranks", unread=logs.unread)
        return Autopsy(path, is_empty=True, unread=logs.unread)
    found = _judge(path, logs)
    if rules:
        files = dict.fromkeys((file, owner) for owner, places in logs.places.items() for file, _ in places)
        found = replace(found, by_policy=judge_by_policy(tuple(files), rules, found.rank))
    if waited_for is None or found.crash not in (None, CrashClass.COLLECTIVE_TIMEOUT):
        return found
    return _by_flight_recorder(replace(found, crash=CrashClass.COLLECTIVE_TIMEOUT, retryable=True), waited_for)


def _read_dumps_of(folder: Path, logs: Logs) -> tuple[Dumps, Logs]:
    """The flight recorder's dumps in a folder, and its logs with the dumps that could not be read among what was not."""
    paths = dumps_in(folder)
    dumps = read_dumps(paths)
    lost = [path for path in paths if (rank := rank_of(path)) is not None and rank not in dumps]
    unread = [f"{path}: no whole dump of the flight recorder" for path in lost]
    return dumps, replace(logs, unread=(*logs.unread, *unread))


def _judge(path: Path, logs: Logs) -> Autopsy:
    printed = {owner: read_printed_exits(lines) for owner, lines in logs.tails.items() if not isinstance(owner, int)}
    owner, exits = next(((who, one) for who, one in printed.items() if one.exits), (None, PrintedExits()))
    report = ExitReport(None, exits.exits, exits.first)
    first = next((one for one in exits.exits if one.rank == exits.first), None)
    death = classify(report, logs.tails, first, is_complete=False)
    found = Autopsy(path, last_step=_last_step(logs), is_cut=logs.is_cut, unread=logs.unread)
    if death is not None and not exits.exits and not death.is_followed and death.tier is Tier.REPORTED and _went_on(death, logs):
        death = None
    if death is not None and not exits.exits and death.tier is Tier.SYMPTOM and _had_finished(death, logs):
        death = None  # who has come to its end closes its connections, and the others print that
    if death is not None and death.tier is Tier.TERMINATED and first is not None and first.code and death.rank != first.rank:
        death = None  # what ended the others follows from the rank that left by itself
    if death is None:
        return _by_exit(found, first or next(iter(exits.exits), None), exits, owner, logs)
    place = death.place
    if place is None and (at := exits.place_of(death.rank)) is not None:
        place = LinePlace(owner, at)
    died = next((one for one in exits.exits if one.rank == death.rank), None)
    found = replace(
        found,
        crash=death.crash,
        rank=death.rank,
        seen_by=death.seen_by if death.seen_by != death.rank else None,
        blamed=death.blamed or (() if death.rank is None else (death.rank,)),
        retryable=death.retryable or found.last_step is not None,
        exit_words="" if died is None or death.crash in WAITED else _exit_words(died),  # of those, it is what the launcher did
        step=death.step,
    )
    return _placed(found, place, logs)


def _by_flight_recorder(found: Autopsy, waited_for: WaitedFor) -> Autopsy:
    """Whom the dumps show the others to wait for: surer than what logs say of a timeout, which its victims print."""
    rank = waited_for.ranks[0] if len(waited_for.ranks) == 1 else None
    return replace(found, blamed=waited_for.ranks, rank=rank, evidence=found.evidence or waited_for.reason)


def _by_exit(found: Autopsy, died: RankExit | None, exits: PrintedExits, owner: Owner, logs: Logs) -> Autopsy:
    """A rank that failed without a word: only the launcher tells of it."""
    if died is None:
        return found
    at = exits.place_of(died.rank)
    blamed = () if exits.first is None else (died.rank,)
    rank = died.rank if blamed else None
    crash = CrashClass.ERROR if signal_of(died) is None else CrashClass.KILLED
    found = replace(found, crash=crash, rank=rank, blamed=blamed, retryable=True, exit_words=_exit_words(died))
    return _placed(found, None if at is None else LinePlace(owner, at), logs)


def _placed(found: Autopsy, place: LinePlace | None, logs: Logs) -> Autopsy:
    if place is None or not 0 <= place.index < len(logs.places.get(place.owner, ())):
        return found
    path, number = logs.places[place.owner][place.index]
    text = quoted_line(read_labels(logs.tails[place.owner][place.index]).text)[:LINE_CHARS]
    return replace(found, log=path, line=number or None, evidence=text)


def _went_on(death: Death, logs: Logs) -> bool:
    """Whether the log goes on behind an error that was only reported: then that says nothing of the end."""
    if death.place is None:
        return True
    lines = logs.tails.get(death.place.owner, ())[death.place.index :]
    return len(lines) > LINES_AFTER_MAX or any(says_it_went_on(read_labels(line).text) for line in lines)


def _had_finished(death: Death, logs: Logs) -> bool:
    """Whether the last step line before the evidence is the last word of a trainer that came to its end."""
    if death.place is None:
        return False
    before = (read_labels(line).text for line in reversed(logs.tails[death.place.owner][: max(death.place.index, 0)]))
    newest = next((text for text in before if is_progress(text)), None)
    return newest is not None and is_finish(newest)


def _exit_words(died: RankExit) -> str:
    number = signal_of(died)
    return f"was killed by {signal_name(number)}" if number is not None else f"exited {died.code}"


def _last_step(logs: Logs) -> int | None:
    steps: list[int] = []
    for lines in logs.tails.values():
        for line in reversed(lines):
            text = read_labels(line).text
            if is_progress(text) and (step := step_of(text)) is not None:
                steps.append(step)
                break
    return max(steps, default=None)
