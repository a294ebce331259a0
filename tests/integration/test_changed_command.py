"""A run outlives its command: it goes on under another one, with its lineage, where a person says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sentinel.model.facts import CommandChanged
from tests.integration.forked_ranks import supervised_ranks
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for

STEPS = 2_000  # at a hundredth of a second each: it must not have finished before it is stopped


def test_another_number_of_ranks_goes_on_where_it_is_said_and_is_refused_where_it_is_not(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(STEPS, 0.01, ranks=2, kill=30, hurried=True)).start()
    wait_for("step 60 of the second attempt", lambda: run.last_step(2) >= 60)
    run.kill()
    run.command = double(STEPS, 0.01, ranks=1, kill=30, hurried=True)
    assert run.start().wait() == 2
    assert "add --changed-command" in run.log
    run.options = ["--changed-command"]
    assert run.start().wait() == 2
    assert "attempt 2, launched under the command before, still trains. Stop it first" in run.log
    assert run_sentinel("stop", str(run.run_dir), deadline_s=90).returncode == 0
    last = run.last_step(2)
    assert last < STEPS, "it was stopped, and had not finished"
    (run.run_dir / "hurry").touch()
    assert run.start().wait() == 0, run.log
    (changed,) = [entry.fact for entry in run.facts() if isinstance(entry.fact, CommandChanged)]
    assert changed.command == tuple(run.command)
    assert run.lines(3)[0]["resume_step"] == last
    assert run.lines(3)[0]["world_size"] == 1
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    crash, told = run.incidents()
    assert (crash["kind"], told["kind"]) == ("crash", "environment_changed")
    assert "the command: --ranks 2 → 1" in told["reason"]
    assert "the command: --ranks 2 → 1" in run_sentinel("lineage", str(run.run_dir)).stdout
    assert str(sys.executable) in changed.before


@pytest.mark.slow
def test_the_bundled_trainer_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    sizes = ("--preset", "micro", "--set", "schedule.steps=60", "--set", "checkpoint.every=10")
    run = Supervised(tmp_path / "run", supervised_ranks(2, *sizes)).start()
    wait_for("step 25", lambda: run.last_step(1) >= 25)
    assert run_sentinel("stop", str(run.run_dir), deadline_s=90).returncode == 0
    last = run.last_step(1)
    run.command, run.options = supervised_ranks(1, *sizes), ["--changed-command"]
    assert run.start().wait() == 0, run.log
    assert (run.lines(2)[0]["resume_step"], run.lines(2)[0]["world_size"]) == (last, 1)
    assert sorted(run.surviving()) == list(range(1, 61))
