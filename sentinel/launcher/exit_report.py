"""How an attempt ended: put together from what is known of each rank, and written as `attempts/N/exit.json`.

The sources in order of trust: the rank's own record (it alone knows 6 from a crash), the status the kernel gave the
keeper, the launcher's own words (torchrun's failure table, the 0 of the torchrun that started the rank, or the status of
a launcher that had this one rank), and else 'unknown'. Another launcher's status alone never gives a rank its class.
This file judges nothing further: what an exit means for the run is the policy's business.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sentinel.client.atomic_file import write_atomically
from sentinel.client.masking import Masking
from sentinel.client.regular_file import read_regular, regular
from sentinel.client.strict_json import dumps, loads, printable
from sentinel.launcher.exit_decoding import CODE_MAX, decode_report
from sentinel.launcher.spare_records import read_spare_records, read_spare_report
from sentinel.launcher.torchrun_table import NO_TABLE, TAIL_BYTES, FailureTable, parse_failure_table
from sentinel.model.attempts import EXIT_FINISHED, EXIT_STOPPED, ExitReport, ExitSource, RankExit
from sentinel.run_files.attempt_files import AttemptFiles, rank_files

StartFailure = Literal["certain", "passing"]
ORDERLY_EXITS = (EXIT_FINISHED, EXIT_STOPPED)
_SHELL_SIGNAL_BASE = 128  # a shell reports a command ended by signal n as 128 + n


@dataclass(slots=True)
class Evidence:
    """All that is known of an attempt's end. Exit values are codes, or negative signals."""

    command_status: int | None = None
    ranks: set[int] = field(default_factory=set)  # ranks that ever showed a heartbeat
    records: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # exits/rank-NNNNN.json
    reaped: dict[int, int] = field(default_factory=dict)
    table: FailureTable = NO_TABLE
    failed_order: Sequence[int] = ()  # ranks in the order their failure was noticed, before anything was killed on purpose
    was_killed: bool = False  # ended on purpose: a rank that died of that did not fail
    keeper_signal: int | None = None  # what told the keeper to end it, where nothing had failed before
    vouched: set[int] = field(default_factory=set)  # ranks that nobody saw end, and whose torchrun ended with 0
    left_behind: int = 0  # processes that were killed after a command that ended with 0


def read_code(record: Mapping[str, Any]) -> int | None:
    """The exit code a rank's record states, None when it states none that a process can have."""
    code = record.get("code")
    return code if type(code) is int and abs(code) < CODE_MAX else None


def read_pid(beat: Mapping[str, Any]) -> int | None:
    """The process a heartbeat names, None when it names none."""
    pid = beat.get("pid")
    return pid if type(pid) is int and 0 < pid < CODE_MAX else None


def build_report(evidence: Evidence, reason: str) -> ExitReport:
    """Pure: evidence in, report out."""
    ranks = sorted(evidence.ranks | set(evidence.records) | set(evidence.table.exits))
    exits = tuple(_rank_exit(rank, len(ranks) == 1, evidence) for rank in ranks)
    if not ranks and evidence.command_status is not None:
        exits = (_from_value(0, evidence.command_status, "reaped", None),)
    first = _first_failed(exits, evidence)
    return ExitReport(evidence.command_status, exits, first, reason, evidence.keeper_signal, evidence.left_behind)


def _rank_exit(rank: int, is_only_rank: bool, evidence: Evidence) -> RankExit:
    record = evidence.records.get(rank, {})
    text = record.get("error")
    error = printable(text) if isinstance(text, str) and text else None
    code = read_code(record)
    if code is not None:
        return replace(_from_value(rank, code, "record", error), lost_peers=not is_only_rank and _has_lost_peers(record))
    if rank in evidence.reaped:
        return _from_value(rank, evidence.reaped[rank], "reaped", error)
    if rank in evidence.table.exits:
        return _from_value(rank, evidence.table.exits[rank], "launcher", error)
    if rank in evidence.vouched:
        return _from_value(rank, 0, "launcher", error)
    if is_only_rank and evidence.command_status is not None:
        status = evidence.command_status
        is_shells_word = _SHELL_SIGNAL_BASE < status <= _SHELL_SIGNAL_BASE + signal.NSIG
        return _from_value(rank, _SHELL_SIGNAL_BASE - status if is_shells_word else status, "launcher", error)
    return RankExit(rank, None, None, "unknown", error)


def _has_lost_peers(record: Mapping[str, Any]) -> bool:
    return record.get("peer_lost") is True


def _from_value(rank: int, value: int, source: ExitSource, error: str | None) -> RankExit:
    if value >= 0:
        return RankExit(rank, value, None, source, error)
    return RankExit(rank, None, -value, source, error or describe_exit(value))


def describe_exit(value: int) -> str:
    """An exit value (negative: signal) in words, to follow a subject."""
    if value >= 0:
        return f"ended with code {value}"
    known = {member.value: f" ({member.name})" for member in signal.Signals}
    return f"was ended by signal {-value}{known.get(-value, '')}"


def _first_failed(exits: Sequence[RankExit], evidence: Evidence) -> int | None:
    """torchrun's root cause wins where the keeper never saw that rank: then what it did see came after. It also wins over ranks
    that were terminated where torchrun alone knows how it ended: torchrun takes the value before it terminates the others, and on
    a busy machine the keeper sees both ends in one look. Where the keeper or the rank itself knows how it ended, their order
    holds: torchrun looks now and then, and of two ends in one look it names the lower rank. A rank that says that it lost its
    peers is no cause: then it is the one rank of which nothing is known, or nobody."""
    root, lost_peers = evidence.table.root, {rank.rank for rank in exits if rank.lost_peers}
    is_cause = root is not None and root not in lost_peers and evidence.table.exits[root] not in ORDERLY_EXITS
    if is_cause and root not in evidence.failed_order:
        return root
    terminated = {rank.rank for rank in exits if rank.signal == signal.SIGTERM}
    is_torchruns_word = any(rank.rank == root and rank.source == "launcher" for rank in exits)
    follows = is_cause and is_torchruns_word and root not in terminated
    for rank in evidence.failed_order:
        if rank not in lost_peers and not (follows and rank in terminated):
            return rank
        follows = True  # whoever is terminated behind that was terminated for it
    silent = [rank.rank for rank in exits if rank.source == "unknown"]
    if lost_peers & set(evidence.failed_order):
        return silent[0] if len(silent) == 1 else None
    if evidence.was_killed:
        return None
    failed = [rank for rank in exits if rank.signal is not None or rank.code not in (*ORDERLY_EXITS, None)]
    return next((rank.rank for rank in failed if not rank.lost_peers), None)


def with_records(report: ExitReport, elsewhere: Collection[int], records: Mapping[int, Mapping[str, Any]]) -> ExitReport:
    """The report, and of ranks of which it knows nothing what they have recorded since. Whoever was blamed because nothing was
    known of it alone is no longer, once it has said something."""
    known = {rank.rank: rank for rank in report.ranks}
    late = {rank for rank in {*known, *elsewhere} if rank not in known or known[rank].source == "unknown"}
    late |= {rank for rank in known if known[rank].source == "launcher" and rank in records}
    evidence = Evidence(ranks=late, records={rank: records[rank] for rank in late & set(records)})
    known |= {rank: _rank_exit(rank, is_only_rank=False, evidence=evidence) for rank in late}
    first = report.first_failed_rank if report.first_failed_rank not in evidence.records else None
    return replace(report, ranks=tuple(known[rank] for rank in sorted(known)), first_failed_rank=first)


def read_records(files: AttemptFiles) -> dict[int, Mapping[str, Any]]:
    """Every rank's own exit record that can be read, at home or in the second place."""
    records = read_spare_records(files)
    for rank, entry in rank_files(files.exits).items():
        record = read_object(entry.path)
        if record is not None:
            records[rank] = record
    return records


def read_table(files: AttemptFiles) -> FailureTable:
    try:
        with open(files.launcher_err, "rb", opener=regular) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return parse_failure_table(file.read(TAIL_BYTES).decode("utf-8", "replace"))
    except OSError:
        return NO_TABLE


def read_object(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """A JSON object from a file; None when it is absent or not (yet) one. Other failures to read are OSErrors."""
    try:
        with open(path, "rb", opener=regular) as file:
            value = loads(file.read())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_report(files: AttemptFiles, report: ExitReport, start_failure: StartFailure | None = None) -> None:
    """Write exit.json atomically, its words masked; `start_failure` when the command never ran. Raises OSError."""
    write_atomically(files.exit, encode_report(files, report, start_failure))


def encode_report(files: AttemptFiles, report: ExitReport, start_failure: StartFailure | None = None) -> bytes:
    """What `write_report` writes."""
    masking = Masking.of(os.environ, _argv(files))
    ranks = [
        {"rank": rank.rank, "code": rank.code, "signal": rank.signal, "source": rank.source}
        | ({} if rank.error is None else {"error": masking.text(rank.error)})
        | ({"peer_lost": True} if rank.lost_peers else {})
        for rank in report.ranks
    ]
    value: dict[str, Any] = {"v": 1, "attempt": files.attempt, "command_status": report.command_status, "ranks": ranks}
    value |= {"first_failed_rank": report.first_failed_rank, "reason": masking.text(report.reason)}
    if report.keeper_signal is not None:
        value["keeper_signal"] = report.keeper_signal
    if report.left_behind:
        value["left_behind"] = report.left_behind
    if report.lost_nodes:
        value["lost_nodes"] = list(report.lost_nodes)
    if start_failure is not None:
        value["start_failure"] = start_failure
    return dumps(value).encode() + b"\n"


def _argv(files: AttemptFiles) -> tuple[str, ...]:
    """As it was launched; nothing where spec.json cannot be read."""
    with suppress(OSError):
        words = (read_object(files.spec) or {}).get("argv")
        return tuple(map(str, words)) if isinstance(words, list) else ()
    return ()


def read_report(files: AttemptFiles) -> ExitReport | None:
    """exit.json, at home or in the second place; None when there is none. Raises OSError, or ValueError naming the file when it
    is not one of ours."""
    try:
        data = _read_exit(files)
    except FileNotFoundError:
        return None
    return decode_report(data, files.exit)


def _read_exit(files: AttemptFiles) -> bytes:
    """Raises OSError, FileNotFoundError when it is in neither place."""
    try:
        return read_regular(files.exit)
    except OSError:
        if (data := read_spare_report(files)) is not None:
            return data
        raise


def read_start_failure(files: AttemptFiles) -> StartFailure | None:
    """Why the command of an ended attempt never ran: 'certain' if it never can; None when it did run. OSError as read_report."""
    try:
        value = loads(_read_exit(files))
    except (FileNotFoundError, ValueError):
        return None
    kind = value.get("start_failure") if isinstance(value, dict) else None
    return "certain" if kind == "certain" else "passing" if kind == "passing" else None
