"""Ranks on other machines. What proves that one has ended, when all of its attempt that this machine can see has:

- its own exit record;
- the word of who reaped it: torchrun's failure table, or a client that waits for what it started (`waiting_clients`), ended by
  itself and did not say that it left something behind; and no heartbeat changed in QUIET_S after that;
- the kernel of its machine, by the agent there (`sentinel.agent`), which saw its very process end;
- the kernel of this machine, for a rank in a container of it (`containers`): no process can be the rank any more;
- the scheduler: this process is of a later start of the very job in which the attempt ran. Slurm starts a job anew when every
  node has reported the end of the start before, or was given up, and then gets no new rank;
- a person: an empty file `gone` in the attempt's folder.

A heartbeat that does not change proves nothing: it is written by the rank's main thread, so that a rank that hangs, compiles or
saves is as silent as one that is gone. A heartbeat that changes proves the opposite. The fence (`lease.json` names a later
launch) keeps an old rank from committing a checkpoint, and does not end it: its ports and its GPUs stay taken.

Where a proof is missing the keeper writes `ended-here.json`, and not `exit.json`: what it saw, for whoever finds the proof later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular, regular
from sentinel.client.strict_json import dumps, loads
from sentinel.launcher.exit_decoding import decode_report
from sentinel.launcher.exit_report import (
    encode_report,
    read_object,
    read_pid,
    read_records,
    read_table,
    with_records,
)
from sentinel.launcher.kernel_word import not_seen_to_end
from sentinel.model.attempts import ExitReport, RankElsewhere
from sentinel.run_files.attempt_files import AttemptFiles, is_same_host, rank_files
from sentinel.run_files.cluster_job import ClusterJob, has_started_anew, job_of_json, job_to_json

QUIET_S = 5.0  # a rank that trains beats up to five times a second; what is seen later is a beat of before on a slow filesystem
LOOK_EVERY_S = 0.2
NAMED_MAX = 8
ENDED_HERE, GONE = "ended-here.json", "gone"


@dataclass(frozen=True, slots=True)
class EndedHere:
    """`ended-here.json`. `host`: the keeper's. `report`: as far as it was seen. `named`: ranks whose end the launcher has told.
    `why`: what is missing to the proof for the others. `is_unheard`: it may have started ranks of which nothing was ever heard.
    `job`: of a scheduler, in which it ran. `unproven`: who was not known to have ended then."""

    host: str
    report: ExitReport
    named: frozenset[int]
    why: str
    is_unheard: bool = False
    job: ClusterJob | None = None
    unproven: tuple[RankElsewhere, ...] = ()


def find_elsewhere(files: AttemptFiles, host: str) -> dict[int, RankElsewhere]:
    """The ranks whose newest heartbeat names another machine than `host`. Raises OSError."""
    found = {}
    for rank, entry in rank_files(files.heartbeats).items():
        beat = read_object(entry.path)
        name = None if beat is None else beat.get("host")
        if beat is not None and isinstance(name, str) and name and not is_same_host(name, host):
            found[rank] = RankElsewhere(rank, name, read_pid(beat))
    return found


def find_unproven(files: AttemptFiles, host: str, named: frozenset[int]) -> tuple[RankElsewhere, ...]:
    """Those of them that have left no record, and whose end nobody has told. Raises OSError."""
    elsewhere = find_elsewhere(files, host)
    proven = named | set(read_records(files)) if elsewhere else named
    return not_seen_to_end(files, tuple(one for rank, one in sorted(elsewhere.items()) if rank not in proven))


def describe(ranks: tuple[RankElsewhere, ...], why: str, files: AttemptFiles) -> str:
    """Who may live, why that is not known, and what ends the doubt."""
    named = ", ".join(f"rank {one.rank} on {one.host}{f' (pid {one.pid})' if one.pid else ''}" for one in ranks[:NAMED_MAX])
    more = f" and {len(ranks) - NAMED_MAX} more" if len(ranks) > NAMED_MAX else ""
    who = f"{named}{more}" if ranks else "what it started on other machines, of which nothing was heard"
    remedy = f"when nothing of it runs there any more: touch {files.folder / GONE}"
    return f"nothing proves the end of {who}: {why}; {remedy}"


class BeatsSince:
    """Whether heartbeats of these ranks change, from the first look on."""

    def __init__(self, files: AttemptFiles, ranks: tuple[RankElsewhere, ...], now_s: float) -> None:
        self._files, self.began_s = files, now_s
        self._ranks = {one.rank for one in ranks}
        self._contents = self._read()
        self.beating: set[int] = set()

    def look(self) -> None:
        now = self._read()
        self.beating |= {rank for rank, content in now.items() if content != self._contents.get(rank, content)}
        self._contents |= now

    def _read(self) -> dict[int, bytes]:
        with suppress(OSError):
            return read_beats(self._files, self._ranks)
        return {}


def read_beats(files: AttemptFiles, ranks: Container[int] | None = None) -> dict[int, bytes]:
    """The heartbeats as they stand, of these ranks or of all; one that cannot be read now is left out. Raises OSError."""
    contents = {}
    for rank, entry in rank_files(files.heartbeats).items():
        if ranks is None or rank in ranks:
            with suppress(OSError):
                contents[rank] = read_regular(entry.path)
    return contents


def wait_for_proof(files: AttemptFiles, host: str, named: frozenset[int], why: str) -> str:
    """For QUIET_S, while ranks write their records. Empty where every rank is known to have ended then; else why one is not.
    `why`: as `why_not_vouched`. Raises OSError."""
    silence = BeatsSince(files, find_unproven(files, host, named), time.monotonic())
    while (unproven := find_unproven(files, host, named)) and time.monotonic() - silence.began_s < QUIET_S:
        time.sleep(LOOK_EVERY_S)
        silence.look()
    beating = sorted(silence.beating & {one.rank for one in unproven})
    if beating:
        return f"the heartbeat of rank {beating[0]} has changed since"
    return why if unproven else ""


def write_ended_here(files: AttemptFiles, ended: EndedHere) -> None:
    """Raises OSError."""
    value = loads(encode_report(files, ended.report))
    value |= {"host": ended.host, "named": sorted(ended.named), "why": ended.why, "is_unheard": ended.is_unheard}
    value |= {"unproven": [asdict(one) for one in ended.unproven]} | job_to_json(ended.job)
    write_atomically(ended_here_path(files), dumps(value).encode() + b"\n")


def read_ended_here(files: AttemptFiles) -> EndedHere | None:
    """None where there is none. Raises OSError, or ValueError naming the file when it makes no sense."""
    path = ended_here_path(files)
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    report, value = decode_report(data, path), loads(data)
    return EndedHere(
        host=str(value.get("host", "")),
        report=report,
        named=_ranks(value),
        why=str(value.get("why", "")),
        is_unheard=value.get("is_unheard") is True,
        job=job_of_json(value),
        unproven=_unproven(value),
    )


def settled_report(files: AttemptFiles, ended: EndedHere) -> tuple[ExitReport | None, tuple[RankElsewhere, ...]]:
    """The whole report where everything is proven by now, else None and the ranks that may live. Raises OSError, ValueError.

    It is asked twice a second, for as long as it takes: only when those that are waited for have left records is every heartbeat
    read, for ranks that began to beat later.
    """
    recorded = rank_files(files.exits)
    unproven = not_seen_to_end(files, tuple(one for one in ended.unproven if one.rank not in recorded))
    unproven = unproven or find_unproven(files, ended.host, ended.named)
    is_over = (files.folder / GONE).exists() or has_started_anew(ended.job, os.environ)
    if not is_over and (unproven or ended.is_unheard):
        return None, unproven
    return with_records(ended.report, find_elsewhere(files, ended.host), read_records(files)), ()


def judge_end(
    files: AttemptFiles,
    host: str,
    report: ExitReport,
    why: str,
    *,
    here: Mapping[int, int] = MappingProxyType({}),
    is_unheard: bool = False,
    job: ClusterJob | None = None,
) -> ExitReport | EndedHere:
    """What is to be written of an attempt of which nothing lives on `host`: the whole report, or what was seen and what is
    missing. Waits for records that are being written. `here`: pids of ranks that were seen to be processes of `host`, whatever
    their heartbeats call it. `why`, `is_unheard`, `job`: as in `why_not_vouched` and `EndedHere`. Raises OSError."""
    named = frozenset(rank.rank for rank in report.ranks if rank.source == "reaped") | frozenset(read_table(files).exits)
    named |= {rank for rank, one in find_elsewhere(files, host).items() if one.pid is not None and here.get(rank) == one.pid}
    missing = wait_for_proof(files, host, named, why)
    if missing or is_unheard:
        return EndedHere(host, report, named, missing or why, is_unheard, job, find_unproven(files, host, named))
    elsewhere = find_elsewhere(files, host)
    return with_records(report, elsewhere, read_records(files)) if elsewhere else report


def ended_here_path(files: AttemptFiles) -> Path:
    return files.folder / ENDED_HERE


def read_argv(files: AttemptFiles) -> list[str]:
    """The command, as it was launched; empty where spec.json cannot be read."""
    with suppress(OSError):
        words = (read_object(files.spec) or {}).get("argv")
        return [str(word) for word in words] if isinstance(words, list) else []
    return []


def read_printed(files: AttemptFiles, bytes_max: int = 1 << 16) -> str:
    """The end of what the command printed as errors; empty where it cannot be read."""
    with suppress(OSError), open(files.launcher_err, "rb", opener=regular) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - bytes_max))
        return file.read(bytes_max).decode("utf-8", "replace")
    return ""


def _ranks(value: Mapping[str, Any]) -> frozenset[int]:
    named = value.get("named")
    return frozenset(rank for rank in (named if isinstance(named, list) else ()) if type(rank) is int)


def _unproven(value: Mapping[str, Any]) -> tuple[RankElsewhere, ...]:
    """Those that make sense: whoever is left out is found again by its heartbeat."""
    found, listed = [], value.get("unproven")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and type(one.get("rank")) is int and isinstance(one.get("host"), str):
            found.append(RankElsewhere(one["rank"], one["host"], read_pid(one)))
    return tuple(found)
