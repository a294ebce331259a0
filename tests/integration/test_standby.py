"""A run whose supervisor stands still or dies is taken over by a standby, and by one of two; nothing is done twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.journal.lease import read_lease
from sentinel.model.facts import AttemptLaunched, SupervisorTookOver
from tests.integration.forked_sentinel import ForkedSentinel, run_sentinel
from tests.integration.supervised import Supervised, double, wait_for

LEASE = ["--lease", "8s"]  # as short as a busy machine bears: its holder fences itself after six
STEPS = 900


class StandingBy:
    def __init__(self, run: Supervised, name: str) -> None:
        self.place = run.run_dir.parent / f"{name}.log"
        self.place.touch()
        words = ["run", "--standby", *LEASE, "--run-dir", str(run.run_dir), "--listen", "off"]
        self.child = ForkedSentinel(words, self.place, self.place)
        wait_for(f"{name} to wait", lambda: "stands by for" in self.log)

    @property
    def log(self) -> str:
        return self.place.read_text()


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Supervised]:
    run = Supervised(tmp_path / "run", double(STEPS, 0.05), options=[*LEASE, "--no-warm"]).start()
    wait_for("step 20", lambda: run.last_step(1) >= 20)
    yield run
    if run.child is not None and run.child.poll() is None:
        run.child.send_signal(signal.SIGCONT)
        run.kill()


def holder(run: Supervised) -> int:
    lease = read_lease(run.run_dir)
    return 0 if lease is None or lease.released else lease.holder.pid


def took_over(run: Supervised) -> list[int]:
    return [entry.fact.pid for entry in run.facts() if isinstance(entry.fact, SupervisorTookOver)]


def end_well(run: Supervised, *standbys: StandingBy) -> None:
    """The run was trained once, to its end, by one attempt; whoever stood by leaves with it."""
    for one in standbys:
        assert one.child.wait(90.0) == 0, one.log
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    facts = run.facts()
    assert [entry.epoch for entry in facts] == sorted(entry.epoch for entry in facts)
    assert sum(isinstance(entry.fact, AttemptLaunched) for entry in facts) == 1, "what trained was adopted"


def test_one_that_stands_still_is_taken_over_and_fences_itself_before_any_act(first: Supervised) -> None:
    assert first.child is not None
    standbys = [StandingBy(first, name) for name in ("a", "b")]
    assert {one["pid"] for one in first.status()["standbys"]} == {one.child.pid for one in standbys}
    assert f"pid {standbys[0].child.pid} on " in run_sentinel("status", str(first.run_dir)).stdout
    before = holder(first)
    first.child.send_signal(signal.SIGSTOP)
    pids = [one.child.pid for one in standbys]
    wait_for("a standby to take over", lambda: holder(first) in pids)
    (taker,) = [one for one in standbys if one.child.pid == holder(first)]
    wait_for("its first fact", lambda: took_over(first)[-1] == taker.child.pid != before)
    first.child.send_signal(signal.SIGCONT)
    assert first.wait() == 1, first.log
    assert "this one leaves it alone" in first.log or "took this run over" in first.log
    others = [pid for pid in pids if pid != taker.child.pid]
    wait_for("the other to wait on", lambda: [one["pid"] for one in first.status()["standbys"]] == others)
    end_well(first, *standbys)
    assert first.status()["standbys"] == []


def test_one_that_dies_is_followed_and_a_stop_leaves_both_in_peace(first: Supervised) -> None:
    standby, other = StandingBy(first, "a"), StandingBy(first, "b")
    other.child.send_signal(signal.SIGINT)
    assert other.child.wait(30.0) == 130, other.log
    assert holder(first) != other.child.pid
    first.kill()
    wait_for("the standby to take over", lambda: holder(first) == standby.child.pid)
    done = run_sentinel("stop", str(first.run_dir), deadline_s=90)
    assert done.returncode == 0, done.stderr
    assert standby.child.wait(60.0) == 130, standby.log
    late = ForkedSentinel(
        ["run", "--standby", "--run-dir", str(first.run_dir), "--listen", "off"], standby.place, standby.place
    )
    assert late.wait(90.0) == 130, "a run that was stopped is not begun again by a standby"
    assert json.loads((first.run_dir / "lease.json").read_text())["attempt"] == 1
