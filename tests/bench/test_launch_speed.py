"""From the command line to the trainer's start, and a whole short run: what `sentinel run` adds to a command.

    make bench-launch          REPEATS=10 by default

Timed from outside, by the machine's own clock, in turn with the same command alone. Prints; asserts nothing about time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bench.spread import in_words

REPEATS = int(os.environ.get("REPEATS", "10"))


@pytest.mark.bench
def test_the_start_of_a_trainer_from_the_command_line(tmp_path: Path) -> None:
    took: dict[str, list[tuple[float, float]]] = {"alone": [], "under sentinel run": []}
    for repeat in range(REPEATS):
        for way, seen in took.items():
            seen.append(seconds(tmp_path / f"{way.replace(' ', '-')}-{repeat}", is_supervised=way != "alone"))
    for way, seen in took.items():
        started, whole = zip(*seen, strict=True)
        print(f"launch    {way:20s} command line to start {in_words(started)}; the whole run {in_words(whole)}")


def seconds(place: Path, *, is_supervised: bool) -> tuple[float, float]:
    """To the first command of the program, and to the end of the whole."""
    place.mkdir()
    program = ["sh", "-c", f"date +%s.%N > {place}/began"]
    words = [sys.executable, "-m", "sentinel", "run", "--listen", "off", "--run-dir", str(place / "run"), "--", *program]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    asked_s = time.time()
    subprocess.run(words if is_supervised else program, env=environ, capture_output=True, check=False)
    whole_s = time.time() - asked_s
    return float((place / "began").read_text()) - asked_s, whole_s
