"""From a killed rank to the first step of the next attempt, part by part: what of it is Sentinel's own.

    make bench-relaunch        REPEATS=10 by default; BESIDE=DIR: another checkout with its .venv, in turn with this one

The trainer is the tests' double, which comes up in a moment, cold and with a rank in reserve, in turn: what is measured is the
supervisor. `make compare` measures the whole with the bundled trainer. The double notes the moment before it kills itself;
everything else is read from the journal and the stream. Prints; asserts nothing about time.
"""

from __future__ import annotations

import os
import statistics
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
BESIDE = os.environ.get("BESIDE", "")
STEPS, KILL = 200, 120
PARTS = ("noticed", "decided", "evidence", "verified", "moved aside", "started", "Sentinel's own", "first step", "all of it")
COMMAND = "to the command"  # from the kill until the keeper has started it: what a trainer waits for
Parts = dict[str, float]


@pytest.mark.bench
def test_what_of_a_relaunch_is_sentinels_own(tmp_path: Path) -> None:
    pythons = {"": sys.executable} | ({"beside": str(Path(BESIDE, ".venv/bin/python").absolute())} if BESIDE else {})
    took: dict[str, dict[str, list[Parts]]] = {way: {name: [] for name in pythons} for way in ("cold", "--warm")}
    for repeat in range(REPEATS):
        for way, by_name in took.items():
            for name, seen in by_name.items():
                place = tmp_path / f"{way.strip('-')}-{repeat}-{name}"
                seen.append(relaunch(place, is_warm=way == "--warm", python=pythons[name]))
    for way, by_name in took.items():
        for part in (*PARTS, COMMAND):
            words = [f"{name} {in_words([1000 * one[part] for one in seen], 'ms')}".strip() for name, seen in by_name.items()]
            print(f"relaunch  {way:7s} {part:15s} {'; '.join(words)}{ratio_of(by_name, part)}")


def ratio_of(by_name: dict[str, list[Parts]], part: str) -> str:
    """Of the medians, this version's to the other's."""
    ours, *others = (statistics.median(one[part] for one in seen) for seen in by_name.values())
    return f"; ratio {ours / others[0]:.2f}" if others and others[0] > 0.001 else ""


def relaunch(run_dir: Path, *, is_warm: bool, python: str = sys.executable) -> Parts:
    """Seconds of each part. `python`: of the version that is measured."""
    command = [python, *double(STEPS, 0.01, kill=KILL, **({"warmed": True} if is_warm else {}))[1:]]
    words = ["run", "--run-dir", str(run_dir), "--policy", "demo", "--listen", "off", *(["--warm"] if is_warm else []), "--"]
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "WARM")}
    where = run_dir.parent  # -m would import from here what is in the working directory
    done = subprocess.run([python, "-m", "sentinel", *words, *command], env=environ, cwd=where, capture_output=True, text=True)
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
    commanded_s = (run_dir / "attempts" / "0002" / "keeper.json").stat().st_mtime  # written again once the command is started
    own_s, whole_s = moments[-1] - moments[0], began_s - moments[0]
    named = {"Sentinel's own": own_s, "first step": whole_s - own_s, "all of it": whole_s, COMMAND: commanded_s - moments[0]}
    return parts | named
