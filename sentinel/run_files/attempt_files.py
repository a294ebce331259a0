"""Where the files of one attempt lie (PROTOCOL.md 'The files'), and the variables its processes carry.

The run directory is resolved once (`realpath`), so that every spelling of it gives the same mark in the environment.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import ensure_directories
from sentinel.client.run_layout import attempt_folder, spec_path
from sentinel.model.host_names import short_name

RUN_DIR_VARIABLE = "SENTINEL_RUN_DIR"
ATTEMPT_VARIABLE = "SENTINEL_ATTEMPT"
LAUNCH_VARIABLE = "SENTINEL_LAUNCH"  # which launch of that number it is; no process is found by it
FOLLOWER_VARIABLE = "SENTINEL_FOLLOWER"  # of the process that writes down what the trainer shows
EXCLUDE_VARIABLE = "SENTINEL_EXCLUDE_NODES"  # only where there are any; no process is found by it
RANKS_MAX = 1 << 16  # of a run; a larger number is no rank, in a file's name or anywhere else
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:%-]{0,240}")
"""A machine's name: it is put into lists and variables, into names of files, and into commands for a person to copy."""
_RANK_FILE = re.compile(r"rank-([0-9]{1,9})\.json")


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """The paths of attempt `attempt` in `run_dir`, which must be absolute and free of links."""

    run_dir: Path
    attempt: int

    @staticmethod
    def of(run_dir: str | os.PathLike[str], attempt: int) -> AttemptFiles:
        assert attempt >= 0, f"an attempt is numbered from 0, not {attempt}"
        return AttemptFiles(Path(os.path.realpath(run_dir)), attempt)

    @property
    def folder(self) -> Path:
        return attempt_folder(self.run_dir, self.attempt)

    @property
    def spec(self) -> Path:
        return spec_path(self.run_dir, self.attempt)

    @property
    def lock(self) -> Path:
        return self.folder / "keeper.lock"

    @property
    def start_lock(self) -> Path:
        """Held by whoever starts the attempt, and by a scheduler's client for as long as a start may still come of it."""
        return self.folder / "start.lock"

    @property
    def keeper(self) -> Path:
        return self.folder / "keeper.json"

    @property
    def exit(self) -> Path:
        return self.folder / "exit.json"

    @property
    def remarks(self) -> Path:
        """Of the follower of a trainer under a profile, before there is a stream."""
        return self.folder / "remarks.jsonl"

    @property
    def heartbeats(self) -> Path:
        return self.folder / "heartbeats"

    @property
    def exits(self) -> Path:
        return self.folder / "exits"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def launcher_err(self) -> Path:
        return self.logs / "launcher.err"

    @property
    def environment(self) -> dict[str, str]:
        """What is added to the environment of every process of the attempt, and what such a process is found by."""
        return {RUN_DIR_VARIABLE: str(self.run_dir), ATTEMPT_VARIABLE: str(self.attempt)}

    def make_folders(self) -> None:
        ensure_directories((self.heartbeats, self.exits, self.logs))


def is_this_host(name: object) -> bool:
    """Whether a heartbeat's `host` is this machine, with or without its domain; one that names no host is taken for it."""
    return not isinstance(name, str) or not name or is_same_host(name, socket.gethostname())


def is_own_name(name: object) -> bool:
    """Whether it is what every machine calls itself."""
    return isinstance(name, str) and name.startswith(("localhost", "127.", "::1"))


def is_same_host(one: str, other: str) -> bool:
    """With or without the domain, in any case. Of a machine that is called by its address the whole address counts."""
    return short_name(one) == short_name(other)


def rank_files(folder: Path) -> dict[int, os.DirEntry[str]]:
    """The `rank-NNNNN.json` files of a folder by rank; empty when the folder is not there yet. OSError for anything else."""
    try:
        with os.scandir(folder) as entries:
            ranks = {rank_of_name(entry.name): entry for entry in entries}
    except FileNotFoundError:
        return {}
    return {rank: entry for rank, entry in ranks.items() if rank is not None}


def rank_of_name(name: str) -> int | None:
    """The rank whose file that is; None for another name, and for a number that no rank has."""
    match = _RANK_FILE.fullmatch(name)
    return int(match[1]) if match is not None and is_rank(int(match[1])) else None


def is_rank(number: int) -> bool:
    """Whether a rank can have it. Keeper and supervisor ask alike: what one of them records the other must be able to read."""
    return 0 <= number < RANKS_MAX
