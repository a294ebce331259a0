"""`kill -9` of sentinel, anywhere: training goes on, the same command adopts it, and nothing is lost or done twice."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from tests.integration.supervised import Supervised, double, wait_for


def facts_of(run: Supervised, kind: str) -> list[str]:
    with sqlite3.connect(f"file:{run.run_dir / 'sentinel.db'}?mode=ro", uri=True) as connection:
        return [row[0] for row in connection.execute("select body from facts where kind = ? order by seq", (kind,))]


def launches(run: Supervised) -> int:
    return len(facts_of(run, "AttemptLaunched"))


def test_a_living_attempt_is_adopted_and_not_launched_again(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(300, 0.01)).start()
    wait_for("step 60", lambda: run.last_step(1) >= 60)
    run.kill()
    assert run.living(), "training outlives its supervisor"
    before = run.last_step(1)
    wait_for("more steps without a supervisor", lambda: run.last_step(1) >= before + 20)
    assert run.start().wait() == 0, run.log
    assert run.attempts() == [1]
    assert launches(run) == 1
    assert sorted(run.surviving()) == list(range(1, 301))
    assert run.incidents() == []


def test_what_broke_while_nobody_watched_is_repaired_after_adoption(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(300, 0.01, kill=150)).start()
    wait_for("step 60", lambda: run.last_step(1) >= 60)
    run.kill()
    wait_for("the end of the attempt", lambda: (run.run_dir / "attempts/0001/exit.json").exists())
    assert run.start().wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("crash", "recovered")
    assert incident["time_to_detect_s"] > 0.05, "dead since its last step, not since somebody looked"
    assert run.attempts() == [1, 2]
    assert sorted(run.surviving()) == list(range(1, 301))


@pytest.mark.parametrize("round_number", range(6))
def test_killed_again_and_again_during_a_recovery_it_neither_loses_nor_doubles(tmp_path: Path, round_number: int) -> None:
    """Kill the supervisor at random moments around the poisoned window's detection and rollback, and start it again."""
    seed = 4200 + round_number
    print(f"seed {seed}")
    dice = random.Random(seed)
    run = Supervised(tmp_path / "run", double(240, 0.004, bad="1600-2000")).start()
    wait_for("the poisoned window", lambda: run.last_step(1) >= 98)
    for _ in range(4):
        try:
            run.wait(dice.uniform(0.0, 0.5))
            break
        except TimeoutExpired:  # still running, so it can be killed
            run.kill()
            run.start()
    assert run.wait() == 0, run.log
    assert sorted(run.surviving()) == list(range(1, 241))
    assert launches(run) == len(run.attempts()) == len(set(run.attempts()))
    trained = [r for line in run.surviving().values() for r in line["samples"]]
    assert not any(a < 2000 and b > 1600 for a, b in trained), "the poisoned samples were left out"
    incidents = run.incidents()
    assert [i["kind"] for i in incidents] == ["spike"], run.log
    assert incidents[0]["state"] == "recovered"
    confirmed = facts_of(run, "ActionConfirmed")
    assert len(confirmed) == len(set(confirmed)), "an action was confirmed twice"
    assert not run.living()
