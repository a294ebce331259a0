"""Who stands by to take a run over: a file for each in RUN_DIR/standbys. The standby alone writes it, and takes it away.

A standby that was killed leaves its file behind. On its own machine the process is asked; from another one a file that has not
changed for a minute says that nothing was heard since, and no more than that.

    with StandbyFile(run_dir) as file:
        file.write("")              # every ten seconds
    read_standbys(run_dir, wall_s)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from sentinel.client.atomic_file import write_atomically
from sentinel.client.closed_files import make_folder
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import STANDBYS
from sentinel.client.strict_json import as_float, dumps, loads
from sentinel.journal.identity import ProcessIdentity, is_alive, is_of_this_boot, read_own_identity
from sentinel.model.amounts import time_words

WRITE_EVERY_S = 10.0
SILENT_S = 60.0
READ_MAX = 16  # more than anybody starts
LACKS_CHARS = 400


@dataclass(frozen=True, slots=True)
class StandbySeen:
    """One that waits, as far as is known. `lacks`: what it could not do; empty: nothing. `silent_s`: None where it waits; else
    for how long nothing was heard of it."""

    host: str
    pid: int
    lacks: str = ""
    silent_s: float | None = None

    @property
    def words(self) -> str:
        silence = "" if self.silent_s is None else f", not heard of for {time_words(self.silent_s)}"
        return f"pid {self.pid} on {self.host}{silence}{f': {self.lacks}' if self.lacks else ''}"


class StandbyFile:
    """Of this process."""

    def __init__(self, run_dir: Path) -> None:
        self._who = read_own_identity()
        self._folder = run_dir / STANDBYS
        name = re.sub(r"[^A-Za-z0-9.-]", "_", self._who.host)[:64]
        self._path = self._folder / f"{name}-{self._who.boot_id[:8]}-{self._who.pid}.json"
        self._turn = 0

    def write(self, lacks: str) -> None:
        """Raises OSError."""
        self._turn += 1
        make_folder(self._folder)
        value = {"v": 1, **asdict(self._who), "turn": self._turn, "lacks": lacks[:LACKS_CHARS]}
        write_atomically(self._path, dumps(value).encode() + b"\n", durable=False)

    def remove(self) -> None:
        """It waits no more. And those of this machine that were killed."""
        with suppress(OSError):
            self._path.unlink()
        with suppress(OSError):
            for path, _, who, _ in _read_all(self._folder.parent):
                if is_of_this_boot(who) and is_alive(who) is False:
                    path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def read_standbys(run_dir: Path, wall_s: float) -> tuple[StandbySeen, ...]:
    """Those that wait, and those on other machines that have fallen silent. `wall_s`: Unix seconds. Nothing where the folder
    cannot be read."""
    found = []
    with suppress(OSError):
        for _, changed_s, who, lacks in _read_all(run_dir):
            lives, age_s = is_alive(who), abs(wall_s - changed_s)
            if lives is not False:
                found.append(StandbySeen(who.host, who.pid, lacks, None if lives or age_s < SILENT_S else age_s))
    return tuple(sorted(found, key=lambda one: (one.silent_s is not None, one.host, one.pid)))


def standbys_words(found: tuple[StandbySeen, ...]) -> str:
    """Empty where there are none."""
    return "; ".join(one.words for one in found)


def _read_all(run_dir: Path) -> Iterator[tuple[Path, float, ProcessIdentity, str]]:
    """What makes sense: the file, when it changed (Unix seconds of its filesystem), who, and what it lacks. Raises OSError."""
    try:
        names = sorted(os.listdir(run_dir / STANDBYS))
    except FileNotFoundError:
        return
    for name in [name for name in names if name.endswith(".json")][:READ_MAX]:
        path = run_dir / STANDBYS / name
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            changed_s, plain = path.stat().st_mtime, loads(read_regular(path, 1 << 16))
            since_boot_s, lacks = plain.get("since_boot_s"), plain.get("lacks")
            who = ProcessIdentity(
                str(plain["host"]), int(plain["pid"]), as_float(plain["create_time"]), str(plain["boot_id"]),
                None if since_boot_s is None else as_float(since_boot_s), str(plain.get("pid_namespace", "")),
            )  # fmt: skip
            yield path, changed_s, who, lacks[:LACKS_CHARS] if isinstance(lacks, str) else ""
