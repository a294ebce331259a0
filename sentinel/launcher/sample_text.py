"""The text of single training samples, asked of the bundled trainer's own `trainer.show`, in a process with a deadline: it loads
torch, which the supervisor never does."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from sentinel.launcher.interpreter import answer_of, find_interpreter

SHOW_S = 30.0
CHECKED_OUT, INSTALLED = "trainer", "sentinel_trainer"  # the bundled trainer's names: in a checkout, out of a wheel
CHARS_MAX = 3000
# What a Python needs to find itself and its libraries; nothing else of ours: a secret of the pages may have any name.
INHERITED = re.compile(r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|VIRTUAL_ENV|(PYTHON|CONDA_|CUDA_|OMP_|MKL_)\w+")


def trainer_of(argv: Sequence[str]) -> str | None:
    """The name of the bundled trainer that the command runs; None where it runs another."""
    return next((name for name in (INSTALLED, CHECKED_OUT) if name in argv), None)


def show_sample(run_dir: Path, argv: Sequence[str], cwd: str, attempt: int, sample: int, deadline_s: float = SHOW_S) -> str:
    """What a person reads about a sample; empty where that trainer cannot show it, or not in time. Never raises."""
    module = trainer_of(argv)
    path = find_interpreter(argv, cwd) if module is not None else None
    if path is None:
        return ""
    inherited = {name: value for name, value in os.environ.items() if INHERITED.fullmatch(name)}
    # The installed one is on the interpreter's own path. Without -P it would import a folder `sentinel` of where it is started.
    words = [path, *(["-P"] if module == INSTALLED else []), "-m", f"{module}.show", str(run_dir.absolute())]
    words += ["--attempt", str(attempt), "--sample", str(sample)]
    try:
        asked = subprocess.Popen(
            words, cwd=cwd, env=inherited, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError):
        return ""
    answer = answer_of(asked, time.monotonic() + deadline_s)
    if answer is None or asked.returncode != 0:
        return ""
    text = answer.decode(errors="replace").rstrip()
    return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]} …"
