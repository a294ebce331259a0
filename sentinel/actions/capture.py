"""Evidence, before it is lost: the end of the stream, the heartbeats, the exit records, the Python stacks, the ends of the logs,
what the processes were doing (their state and kernel wait), and what the agents of the nodes saw, into
incidents/NNNN/attempt-NNNN/.

Reads bounded tails only. Nothing here stops or signals a process. A recovery waits for this, and so for no sync: what was
written is synced behind it. Where the machine itself stops within that moment, the copies may be lost: what was copied still lies
in attempts/NNNN/, and of what the processes were doing (processes.txt) there is no other record.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sentinel.client.atomic_file import fsync_directory, make_directories, write_atomically
from sentinel.client.masking import Masking
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import AGENTS, STREAM_NAME, attempt_folder, incident_folder
from sentinel.client.strict_json import dumps, loads
from sentinel.launcher.elsewhere import ENDED_HERE
from sentinel.run_files.agent_files import list_reports

TAIL_BYTES = 256 * 1024
FILES_MAX = 256
SYNC_AFTER_S = 3.0  # the acts of a relaunch take a tenth of that
FOLDERS = ("heartbeats", "exits", "stacks", "logs")


def start_behind(work: Callable[[], None]) -> None:
    """In a thread that nothing waits for, once no relaunch waits for the same disk. Without a thread it is not done."""
    timer = threading.Timer(SYNC_AFTER_S, work)
    timer.name, timer.daemon = "sentinel-syncs-evidence", True
    with suppress(RuntimeError):
        timer.start()


def capture(
    run_dir: Path,
    incident: int,
    attempt: int,
    pids: Sequence[int],
    masking: Masking,
    behind: Callable[[Callable[[], None]], None] = start_behind,
) -> str:
    """Copy the evidence, its secrets masked: it is what people send each other. `behind`: does what nobody waits for.

    Returns what was saved. Done twice, the second copy replaces the first. Raises OSError.
    """
    source = attempt_folder(run_dir, attempt)
    target = incident_folder(run_dir, incident) / f"attempt-{attempt:04d}"
    reports = sorted(list_reports(run_dir).items())[:FILES_MAX]
    above = _make_folders(source, target, with_agents=bool(reports))
    saved = [target / "processes.txt"]
    write_atomically(saved[0], masking.text(describe_processes(pids)).encode(), durable=False)
    names = [STREAM_NAME, "spec.json", "keeper.json", ENDED_HERE]
    for folder in FOLDERS:
        if (source / folder).is_dir():
            names += [f"{folder}/{name}" for name in sorted(os.listdir(source / folder))[:FILES_MAX]]
    for name in names:
        if (source / name).is_file():
            _copy_tail(source / name, target / name, masking)
            saved.append(target / name)
    for _, path in reports:
        with suppress(OSError):
            _copy_tail(path, target / AGENTS / path.name, masking)
            saved.append(target / AGENTS / path.name)
    behind(lambda: _sync((*saved, *dict.fromkeys(path.parent for path in saved), *above)))
    return f"{len(saved)} files saved in {target.relative_to(run_dir)}"


def _make_folders(source: Path, target: Path, *, with_agents: bool) -> tuple[Path, ...]:
    """The folders in which one was made."""
    folders = [folder for folder in FOLDERS if (source / folder).is_dir()]
    folders += [AGENTS] if with_agents else []
    return make_directories((target, *(target / folder for folder in folders)))


def _sync(paths: Sequence[Path]) -> None:
    """Each of these files and folders that is still there."""
    for path in paths:
        with suppress(OSError):
            if path.is_dir():
                fsync_directory(path)
            else:
                with open(path, "rb", opener=regular) as file:
                    os.fsync(file.fileno())


def describe_processes(pids: Sequence[int]) -> str:
    """One line per process: pid, state (T is stopped, D waits for a device), kernel wait channel, command line."""
    lines = [_describe(pid) for pid in sorted(pids)[:FILES_MAX]]
    return "\n".join(lines or ["no process of the attempt lives"]) + "\n"


def _describe(pid: int) -> str:
    process = Path("/proc") / str(pid)
    try:
        state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (OSError, IndexError):
        return f"{pid} gone"
    try:
        wait = (process / "wchan").read_text().strip() or "-"
    except OSError:
        wait = "?"
    return f"{pid} {state} {wait} {words[:300]}"


def _copy_tail(source: Path, target: Path, masking: Masking) -> None:
    with open(source, "rb", opener=regular) as reader:
        size = os.fstat(reader.fileno()).st_size
        if size > TAIL_BYTES:
            reader.seek(size - TAIL_BYTES)
            reader.readline()
        data = reader.read(TAIL_BYTES)
    write_atomically(target, _masked(data, source.suffix == ".json", masking), durable=False)


def _masked(data: bytes, is_json: bool, masking: Masking) -> bytes:
    """JSON by its values, so that the value of an option in a list of words is seen; anything else as text."""
    if is_json:
        with suppress(ValueError):
            return dumps(masking.document(loads(data))).encode() + b"\n"
    text = data.decode("utf-8", "surrogateescape")
    return masking.text(text).encode("utf-8", "surrogateescape")
