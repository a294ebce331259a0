"""`sentinel probe`, from what was asked to the report and the exit code."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.clock import Clock
from sentinel.errors import UsageError
from sentinel.trainers.found import list_names
from sentinel.trainers.probe.document import probe_document
from sentinel.trainers.probe.judging import find_missing
from sentinel.trainers.probe.running import ProbeLimits, run_probe
from sentinel.trainers.probe.text import probe_text, what_it_will_write, who_it_is
from sentinel.trainers.probe.trial import plan_trial


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """`run_dir`: a folder of its own, kept; None: a temporary one. `keep`: leave that, too."""

    command: tuple[str, ...]
    cwd: str
    trainer: str | None
    run_dir: Path | None
    keep: bool
    as_it_is: bool
    limits: ProbeLimits


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """`is_fine`: it can be watched and, as far as its profile says so, restored."""

    text: str
    document: dict[str, Any]
    is_fine: bool


def probe(asked: ProbeRequest, clock: Clock, say: Callable[[str], None]) -> ProbeReport:
    """`say`: a line for a person while it goes on. Raises UsageError, PolicyError: nothing was started."""
    folder = _own_folder(asked.run_dir)
    is_kept = asked.keep or asked.run_dir is not None
    try:
        trial = plan_trial(asked.command, asked.cwd, asked.trainer, folder, asked.as_it_is)
        say(who_it_is(trial))
        for line in what_it_will_write(trial, folder, is_kept):
            say(line)
        seen = run_probe(trial, folder, asked.limits, clock, say)
        is_fine = not any(one.severe for one in find_missing(trial, seen))
        document = probe_document(trial, seen, folder, is_kept)
        return ProbeReport(probe_text(trial, seen, folder, is_kept), document, is_fine)
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _own_folder(named: Path | None) -> Path:
    """Empty, and the probe's own. Raises UsageError."""
    if named is None:
        return Path(tempfile.mkdtemp(prefix="sentinel-probe-")).resolve()
    try:
        named.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--run-dir {named}: cannot be a folder: {error.strerror}; name another") from None
    if any(named.iterdir()):
        names = ", ".join(list_names(named)) or "hidden files"
        raise UsageError(
            f"--run-dir {named}: is not empty ({names}); a probe writes only into a folder of its own: name a new one"
        )
    return named.resolve()
