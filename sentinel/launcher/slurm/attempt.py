"""What a Slurm attempt leaves in its folder, beside what every attempt does.

slurm.json  what was started where: written before the client is, and again when the step was first listed
start.lock  held by the client for as long as it lives: while it is held, a step may still come of it
began       the client's first act. Where it is missing, nothing can have been started
tasks/      of each task, the status with which the training command ended, by the shell in front of it
seen.json   the launcher's last view, for those who only look
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import ensure_directory, write_atomically
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import stream_path
from sentinel.client.strict_json import dumps
from sentinel.launcher.elsewhere import GONE
from sentinel.launcher.exit_report import ORDERLY_EXITS, Evidence, build_report, read_code, read_object, read_records
from sentinel.launcher.job_names import job_name_of
from sentinel.model.attempts import ExitReport
from sentinel.run_files.attempt_files import AttemptFiles, is_same_host, rank_files
from sentinel.run_files.cluster_job import ClusterJob, has_started_anew, job_of_json, job_to_json

WORDS_BYTES = 1 << 16
_SHELL_SIGNAL_BASE = 128


@dataclass(frozen=True, slots=True)
class LaunchedStep:
    """slurm.json. `job`: SLURM_JOB_ID; `start`: which start of that job it was. `tasks`: how many there are. `is_listed`: squeue
    has listed it. `port`: at which its ranks meet. `log_bytes`: how long launcher.err was before its client began."""

    job: str
    name: str
    nodes: tuple[str, ...] = ()
    tasks: int = 0
    port: int = 0
    is_listed: bool = False
    start: ClusterJob | None = None
    log_bytes: int = 0


def run_prefix(run_dir: Path) -> str:
    """How the names of the run's steps begin. No other run in whatever allocation has it."""
    name = "".join(c if c.isascii() else "-" for c in job_name_of(run_dir))  # squeue's answer is read by columns
    return f"s-{name}-"


def write_launched(files: AttemptFiles, launched: LaunchedStep) -> None:
    """Raises OSError."""
    value = {"v": 1} | asdict(launched) | {"nodes": list(launched.nodes), "start": job_to_json(launched.start).get("job")}
    write_atomically(_record(files), dumps(value).encode() + b"\n")


def read_launched(files: AttemptFiles) -> LaunchedStep | None:
    """None where none was written. Raises OSError, and ValueError naming the file where it makes no sense."""
    value = read_object(_record(files))
    if value is None:
        if _record(files).exists():
            raise ValueError(f"{_record(files)}: is not a JSON object")
        return None
    job, name = value.get("job"), value.get("name")
    if not isinstance(job, str) or not isinstance(name, str):
        raise ValueError(f"{_record(files)}: names no job and no step")
    nodes = value.get("nodes")
    return LaunchedStep(
        job=job,
        name=name,
        nodes=tuple(map(str, nodes)) if isinstance(nodes, list) else (),
        tasks=_number(value, "tasks"),
        port=_number(value, "port"),
        is_listed=value.get("is_listed") is True,
        start=job_of_json({"job": value.get("start")}),
        log_bytes=_number(value, "log_bytes"),
    )


def mark_listed(files: AttemptFiles, launched: LaunchedStep) -> LaunchedStep:
    """Raises OSError."""
    if not launched.is_listed:
        launched = replace(launched, is_listed=True)
        write_launched(files, launched)
    return launched


def why_over(files: AttemptFiles, launched: LaunchedStep, environ: Mapping[str, str]) -> str:
    """What proves the end without a question to Slurm; empty where nothing does."""
    if (files.folder / GONE).exists():
        return "a person says that nothing of it is left"
    if has_started_anew(launched.start, environ):
        return "the scheduler has started its job anew since"
    return ""


def launched_s(files: AttemptFiles) -> float:
    """When slurm.json was written, in Unix seconds. Raises OSError."""
    return _record(files).stat().st_mtime


def make_places(files: AttemptFiles) -> None:
    """Raises OSError."""
    files.make_folders()
    ensure_directory(tasks_folder(files))


def began_path(files: AttemptFiles) -> Path:
    return files.folder / "began"


def tasks_folder(files: AttemptFiles) -> Path:
    return files.folder / "tasks"


def has_traces(files: AttemptFiles) -> bool:
    """Whether anything was ever heard of a rank, or of a task's end. Raises OSError."""
    folders = (files.heartbeats, files.exits, tasks_folder(files))
    return any(rank_files(folder) for folder in folders) or stream_path(files.run_dir, files.attempt).exists()


def has_failed_task(files: AttemptFiles, orderly: set[int]) -> bool:
    """Whether a task has ended in another way than it should: those that are left wait for it in vain. `orderly`: tasks that are
    known to have ended as they should; it grows, so that none is read twice. Raises OSError."""
    for task, entry in rank_files(tasks_folder(files)).items():
        value = None if task in orderly else _value(read_object(entry.path) or {})
        if value in ORDERLY_EXITS:
            orderly.add(task)
        elif value is not None:
            return True
    return False


def read_client_words(files: AttemptFiles, launched: LaunchedStep) -> list[str]:
    """The last lines of what its client printed; a client of before counts no more. None where it cannot be read."""
    with suppress(OSError), open(files.launcher_err, "rb", opener=regular) as file:
        file.seek(max(launched.log_bytes, os.fstat(file.fileno()).st_size - WORDS_BYTES))
        return file.read(WORDS_BYTES).decode("utf-8", "replace").splitlines()
    return []


def log_size(files: AttemptFiles) -> int:
    """Of launcher.err. Raises OSError."""
    return files.launcher_err.stat().st_size if files.launcher_err.exists() else 0


def build_end(
    files: AttemptFiles, launched: LaunchedStep, reason: str, *, lost: tuple[str, ...] = (), was_killed: bool = False
) -> ExitReport:
    """From the ranks' own records and the shells in front of them. `lost`: nodes that the scheduler has given up. The exit
    status of srun tells nothing: one rank that exits with 37 makes it 143. Raises OSError."""
    tasks, records, beats = rank_files(tasks_folder(files)), read_records(files), rank_files(files.heartbeats)
    ended = {task: _value(read_object(entry.path) or {}) for task, entry in tasks.items()}
    statuses = {task: value for task, value in ended.items() if value is not None}
    ranks = set(beats) | set(records)
    are_ranks = all(rank < launched.tasks for rank in ranks)  # else a task is a torchrun, with ranks of its own below it
    times = {task: entry.stat().st_mtime for task, entry in tasks.items() if statuses.get(task) not in (*ORDERLY_EXITS, None)}
    for rank, entry in rank_files(files.exits).items():
        if rank in records and read_code(records[rank]) not in ORDERLY_EXITS:
            times[rank] = min(entry.stat().st_mtime, times.get(rank, float("inf")))
    is_known = len(statuses) == launched.tasks > 0
    is_whole = is_known and set(statuses.values()) == {0}
    evidence = Evidence(
        command_status=(statuses[0] if launched.tasks == 1 else int(not is_whole)) if is_known else None,
        ranks=ranks | (set(statuses) if are_ranks else set()),
        records=records,
        reaped=statuses if are_ranks else {},
        failed_order=sorted((rank for rank in times if are_ranks or rank in ranks), key=lambda rank: (times[rank], rank)),
        was_killed=was_killed,
        vouched=ranks if is_whole and not are_ranks else set(),
    )
    report = build_report(evidence, reason)
    if lost and not _has_own_failure(report):
        first = next((rank for rank in sorted(beats) if _is_on(beats[rank].path, lost)), None)
        report = report if first is None else replace(report, first_failed_rank=first, lost_nodes=lost)
    return report


def _has_own_failure(report: ExitReport) -> bool:
    """Whether a rank tells of a failure of its own. What its shell saw may be the end that a peer's end made."""
    failed = [rank for rank in report.ranks if rank.source == "record" and rank.code not in ORDERLY_EXITS]
    return any(not rank.lost_peers for rank in failed)


def _is_on(path: str, nodes: tuple[str, ...]) -> bool:
    host = (read_object(path) or {}).get("host")
    return isinstance(host, str) and any(is_same_host(host, node) for node in nodes)


def _value(record: Mapping[str, Any]) -> int | None:
    """An exit value as `Evidence` has it, from a shell's word."""
    code = read_code(record)
    return _SHELL_SIGNAL_BASE - code if code is not None and _SHELL_SIGNAL_BASE < code <= _SHELL_SIGNAL_BASE + 64 else code


def _number(value: Mapping[str, Any], key: str) -> int:
    number = value.get(key)
    return number if type(number) is int else 0


def _record(files: AttemptFiles) -> Path:
    return files.folder / "slurm.json"
