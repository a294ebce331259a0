"""What leaves Sentinel for people is masked here: documents, pages and logs. Facts were masked before they were written; this is
for what older journals hold, and for what is read from elsewhere (run.json, the logs of trainers).

run.json and spec.json themselves are whole, because a relaunch needs the command: their modes protect them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sentinel.client.masking import Masking
from sentinel.client.strict_json import dumps
from sentinel.errors import UsageError
from sentinel.journal.run_file import find_run_file


def run_masking(run_dir: Path) -> Masking:
    """By what this process's environment and the run's own command hold."""
    with suppress(UsageError):  # who reads the run says what is wrong with it
        run = find_run_file(run_dir)
        return Masking.of(os.environ, run.command if run is not None else ())
    return Masking.of(os.environ)


def masked_json(document: object, masking: Masking | None = None) -> str:
    """One line of strict JSON, as `dumps`. `masking`: of this process's environment, made once by whoever prints thousands of
    lines; making it costs more than most documents."""
    return dumps((masking or environment_masking()).document(document))


def environment_masking() -> Masking:
    return Masking.of(os.environ)


def quoted_line(text: str) -> str:
    """A line of a log as people are shown it. Masked first: with a blank for each escape within it, no secret looks like one."""
    return "".join(char if char.isprintable() else " " for char in Masking().text(text.strip()))
