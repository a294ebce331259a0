"""From a killed rank to the first step of the next attempt, part by part: what of it is Sentinel's own.

    make bench-relaunch        REPEATS=10 by default

The trainer is the tests' double, which comes up in a moment, cold and with a rank in reserve, in turn: what is measured is the
supervisor. `make compare` measures the whole with the bundled trainer. The double notes the moment before it kills itself;
everything else is read from the journal and the stream. Prints; asserts nothing about time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.journal.store import Journal
from sentinel.model import facts as f
from tests.bench.spread import in_words
from tests.integration.supervised import Supervised, double

REPEATS = int(os.environ.get("REPEATS", "10"))
STEPS, KILL = 200, 120
PARTS = ("noticed", "decided", "evidence", "verified", "moved aside", "started", "Sentinel's own", "first step", "all of it")


@pytest.mark.bench
def test_what_of_a_relaunch_is_sentinels_own(tmp_path: Path) -> None:
    took: dict[str, list[dict[str, float]]] = {"cold": [], "--warm": []}
    for repeat in range(REPEATS):
        for way, seen in took.items():
            seen.append(relaunch(tmp_path / f"{way.strip('-')}-{repeat}", is_warm=way == "--warm"))
    for way, seen in took.items():
        for part in PARTS:
            print(f"relaunch  {way:7s} {part:15s} {in_words([1000 * one[part] for one in seen], 'ms')}")


def relaunch(run_dir: Path, *, is_warm: bool) -> dict[str, float]:
    """Seconds of each part."""
    command = double(STEPS, 0.01, kill=KILL, **({"warmed": True} if is_warm else {}))
    words = ["run", "--run-dir", str(run_dir), "--policy", "demo", "--listen", "off", *(["--warm"] if is_warm else []), "--"]
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "WARM")}
    done = subprocess.run([sys.executable, "-m", "sentinel", *words, *command], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
        entries = list(journal.read_entries())
    ended_s = next(one.at_s for one in entries if isinstance(one.fact, f.AttemptEnded))
    planned_s = next(one.at_s for one in entries if isinstance(one.fact, f.PlanAdopted) and one.fact.incident is not None)
    done_s = {one.fact.key.partition("/")[0]: one.at_s for one in entries if isinstance(one.fact, f.ActionConfirmed)}
    moments = [
        (run_dir / f"struck-kill-{KILL}").stat().st_mtime, ended_s, planned_s,
        *(done_s[name] for name in ("capture", "verify", "quarantine", "start")),
    ]  # fmt: skip
    parts = dict(zip(PARTS, (later - sooner for sooner, later in pairwise(moments)), strict=False))
    began_s = next(line["time_s"] for line in Supervised(run_dir, []).lines(2) if line["kind"] == "step")
    own_s, whole_s = moments[-1] - moments[0], began_s - moments[0]
    return parts | {"Sentinel's own": own_s, "first step": whole_s - own_s, "all of it": whole_s}
