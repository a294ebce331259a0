"""`kill -9` of the supervisor at the places of a repair that has a reserve: nothing is lost, started twice, or left behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from sentinel.run_files.warm_standing import read_warm
from tests.integration.supervised import Supervised, double, wait_for

STEPS, KILL = 240, 150
PLACES = ("done:capture/", "done:verify/2/", "done:quarantine/2", "decided:start/2", "done:start/2")


def reserve_of(run_dir: Path) -> list[int]:
    """Whatever waits, or keeps what waits, for this run: its words name no run, and its open log does."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        ours = any("reserve_keeper" in one or "warm_rank.py" in one for one in words)
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE and not is_marked(process.pid):
            family = [process, *_children(process)]
            if any(_holds(one.pid, run_dir / "warm.err") for one in family):
                found.append(process.pid)
    return found


def is_marked(pid: int) -> bool:
    try:
        return b"SENTINEL_ATTEMPT=" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.Error:
        return []


def _holds(pid: int, path: Path) -> bool:
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{handle}") == str(path) for handle in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_killed_where_a_reserve_waits_it_neither_loses_nor_doubles(tmp_path: Path, place: str) -> None:
    run = Supervised(tmp_path / "run", double(STEPS, 0.01, kill=KILL, warmed=True), options=["--warm"])
    assert run.start(dies_at=place).wait() == -signal.SIGKILL, f"{place} was not reached: {run.log}"
    standing = read_warm(run.run_dir)
    assert standing is not None
    if place == "done:start/2":
        assert standing.last == "attempt 2: warm", "the reserve had been handed over"
    else:
        assert standing.state == "ready", "and this supervisor's reserve waited"
    wait_for("the end of what had only waited", lambda: not reserve_of(run.run_dir))
    assert run.start().wait() == 0, run.log
    assert run.attempts() == [1, 2]
    for attempt in run.attempts():
        assert [line["kind"] for line in run.lines(attempt)].count("start") == 1, f"attempt {attempt} was started twice"
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    assert [(one["kind"], one["state"]) for one in run.incidents()] == [("crash", "recovered")]
    assert not run.living()
    wait_for("the end of the reserve", lambda: not reserve_of(run.run_dir))


@pytest.mark.slow
def test_struck_again_and_again_each_relaunch_is_a_warm_one(tmp_path: Path) -> None:
    """The double waits at its fault until the next reserve is there."""
    faults = {"kill": 60, "crash": 120, "oom": 180}
    run = Supervised(tmp_path / "run", double(STEPS, 0.01, warmed=True, **faults), options=["--warm"])
    assert run.start().wait() == 0, run.log
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    assert run.attempts() == [1, 2, 3, 4]
    words = [(run.run_dir / "attempts" / f"{n:04d}" / "logs" / "keeper.err").read_text() for n in run.attempts()]
    assert not [one for one in words if "cold" in one]
    standing = read_warm(run.run_dir)
    assert standing is not None
    assert standing.last == "attempt 4: warm"
    assert json.loads((run.run_dir / "attempts/0004/warm.json").read_text())["modules"] == ["argparse", "sentinel.client"]
