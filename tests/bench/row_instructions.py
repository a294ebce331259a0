"""Processor instructions that a row of a recorded log takes through the whole engine, as Valgrind counts them.

    make bench-instructions                     (BESIDE=DIR: another checkout with its .venv, log by log in turn with this one)

Processor time of one and the same code may double on a shared machine from one second to the next; the number of instructions
does not. Two logs of different length are replayed, so that start-up cancels out. It takes three minutes a format and checkout,
and says nothing about caches: seconds are measured by `make bench-replay`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench import test_replay_speed as logs

ROWS = 4000, 12000
FORMS = "csv", "metrics", "megatron", "tensorboard"
REPLAY = (
    "import sys; from pathlib import Path; from sentinel.replay import replay_file; "
    "from sentinel.policy_files.loading import load_policy, shipped_policy_path; "
    "assert replay_file(Path(sys.argv[1]), load_policy(shipped_policy_path('default'))).rows == int(sys.argv[2])"
)


def main() -> int:
    if shutil.which("valgrind") is None:
        print("valgrind is not installed; with Debian: apt-get install valgrind", file=sys.stderr)
        return 2
    beside = os.environ.get("BESIDE")
    checkouts = [Path.cwd(), *([Path(beside).absolute()] if beside else [])]
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            found = [per_row(checkout, Path(folder), form) for checkout in checkouts]
            ratio = f"; {checkouts[1]}: {found[1]:,} (1 : {found[1] / found[0]:.3f})" if beside else ""
            print(f"{form}: {found[0]:,} instructions a row{ratio}", flush=True)
    return 0


def per_row(checkout: Path, folder: Path, form: str) -> int:
    short, long = (count(checkout, log_of(folder, form, rows), rows) for rows in ROWS)
    return round((long - short) / (ROWS[1] - ROWS[0]))


def log_of(folder: Path, form: str, rows: int) -> Path:
    place = folder / str(rows)
    place.mkdir(exist_ok=True)
    logs.ROWS = rows
    return logs.write_log(place, form)


def count(checkout: Path, log: Path, rows: int) -> int:
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    words = [*callgrind, str(checkout / ".venv/bin/python"), "-c", REPLAY, str(log), str(rows)]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{checkout} could not replay {log.name}: {done.stderr[-500:]}")
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
