"""`kill -9` of sentinel, anywhere: training goes on, the same command adopts it, and nothing is lost or done twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel.model.facts import ActionConfirmed, ActionDecided, AttemptLaunched, Entry, Noted, PlanAdopted, SupervisorTookOver
from tests.integration.supervised import Supervised, double, wait_for
from tests.unit.tensorboard.board_kit import series


def launches(run: Supervised) -> int:
    return sum(isinstance(entry.fact, AttemptLaunched) for entry in run.facts())


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


@pytest.mark.slow
def test_a_run_directory_put_back_to_an_earlier_day_is_not_trained_in_twice(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(600, 0.01, kill=150)).start()
    wait_for("step 60", lambda: run.last_step(1) >= 60)
    run.kill()
    shutil.copytree(run.run_dir, tmp_path / "of_before")
    run.start()
    wait_for("attempt 2", lambda: 2 in run.attempts() and run.last_step(2) > 0)
    run.kill()
    forgotten = run.living()
    for pid in forgotten:
        os.kill(pid, signal.SIGSTOP)  # it is there for as long as this test needs it
    run.run_dir.rename(tmp_path / "away")
    (tmp_path / "of_before").rename(run.run_dir)
    try:
        run.start()
        refusal = wait_for("the refusal", lambda: [reason for reason in noted(run) if f"kill {forgotten[0]}" in reason])
        assert "no checkpoint is moved: " in refusal[0]
        assert f"kill {forgotten[0]}. Nothing is launched while they live" in run.log
        assert launches(run) == 1
    finally:
        for pid in forgotten:
            os.kill(pid, signal.SIGKILL)
    assert run.wait() == 0, run.log
    assert sorted(run.surviving()) == list(range(1, 601))


def noted(run: Supervised) -> list[str]:
    return [entry.fact.reason for entry in run.facts() if isinstance(entry.fact, Noted)]


# The places of one recovery, in their order. Five actions, each with the two moments that matter: the decision is on disk and
# nothing was done yet; it was done and nobody has written so. (A confirmation and the next decision are one batch.)
ACTIONS = ("capture/", "kill/1", "verify/2/", "quarantine/2", "start/2")
PLACES = tuple(f"{when}:{key}" for key in ACTIONS for when in ("decided", "done"))
STEPS, POISON = 240, (1600, 2000)


def poisoned() -> list[str]:
    return double(STEPS, 0.01, bad=f"{POISON[0]}-{POISON[1]}")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Supervised:
    """The same poisoned run under a supervisor that nobody kills."""
    run = Supervised(tmp_path_factory.mktemp("undisturbed") / "run", poisoned()).start()
    assert run.wait() == 0, run.log
    return run


def draw_places(seed: int) -> tuple[list[str], list[str]]:
    """Every place once, over two runs."""
    shuffled = random.Random(seed).sample(PLACES, len(PLACES))
    first, second = shuffled[: len(PLACES) // 2], shuffled[len(PLACES) // 2 :]
    return sorted(first, key=PLACES.index), sorted(second, key=PLACES.index)


def assert_died_at(run: Supervised, place: str, epoch: int) -> None:
    """The journal of the supervisor that was killed ends exactly there."""
    when, _, key = place.partition(":")
    entries = run.facts()
    assert max(entry.epoch for entry in entries) == epoch, f"{place}: the journal knows of another supervisor"
    plans = [e.fact.incident for e in entries if isinstance(e.fact, PlanAdopted)]
    assert plans[-1] == 1, f"{place}: no recovery was under way"
    decided = [e.fact.action.key for e in entries if isinstance(e.fact, ActionDecided)]
    confirmed = [e.fact.key for e in entries if isinstance(e.fact, ActionConfirmed)]
    (wanted,) = [known for known in decided if known.startswith(key)]
    assert wanted not in confirmed, f"{place}: it got further than that"
    if when == "decided":
        last = entries[-1].fact
        assert isinstance(last, ActionDecided), f"{place}: the last fact is {last}"
        assert last.action.key == wanted
    elif key in DONE_SHOWS:
        assert DONE_SHOWS[key](run), f"{place}: the action was not carried out"


# What a finished action leaves in the world before anybody has written that it is finished.
DONE_SHOWS: dict[str, Callable[[Supervised], bool]] = {
    "capture/": lambda run: any((run.run_dir / "incidents").glob("*/attempt-0001/processes.txt")),
    "kill/1": lambda run: (run.run_dir / "attempts/0001/exit.json").exists(),
    "quarantine/2": lambda run: any((run.run_dir / "quarantine").glob("attempt-*/step-*")),
    "start/2": lambda run: (run.run_dir / "attempts/0002/keeper.json").exists(),
}


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [4200])
def test_killed_again_and_again_during_a_recovery_it_neither_loses_nor_doubles(
    tmp_path: Path, undisturbed: Supervised, seed: int, half: int
) -> None:
    places = draw_places(seed)[half]
    print(f"seed {seed}, run {half}: killed at {', '.join(places)}")
    run = Supervised(tmp_path / "run", poisoned())
    for epoch, place in enumerate(places, start=1):
        assert run.start(dies_at=place).wait() == -signal.SIGKILL, f"{place} was not reached: {run.log}"
        assert_died_at(run, place, epoch)
    assert run.start().wait() == 0, run.log
    entries = run.facts()
    took_over = [entry.epoch for entry in entries if isinstance(entry.fact, SupervisorTookOver)]
    assert took_over == list(range(1, len(places) + 2))
    assert_nothing_doubled(run, entries)
    surviving, expected = run.surviving(), undisturbed.surviving()
    assert sorted(surviving) == list(range(1, STEPS + 1))
    for key in ("loss", "grad_norm", "samples"):
        assert [surviving[s][key] for s in sorted(surviving)] == [expected[s][key] for s in sorted(expected)], key
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("spike", "recovered"), run.log
    losses = [(step, pytest.approx(surviving[step]["loss"])) for step in sorted(surviving)]
    (gone_back,) = (run.run_dir / "quarantine").glob("attempt-*/latest")
    assert int(gone_back.read_text().removeprefix("step-")) > incident["remedies"][-1]["rollback_to_step"]
    assert series(run.run_dir / "tensorboard" / "effective") == losses, "no supervisor's charts undid another's"
    assert not run.living()


def assert_nothing_doubled(run: Supervised, entries: list[Entry]) -> None:
    """Every decision and confirmation once, one plan, and one process start for each attempt."""
    decided = [entry.fact.action.key for entry in entries if isinstance(entry.fact, ActionDecided)]
    confirmed = [entry.fact.key for entry in entries if isinstance(entry.fact, ActionConfirmed)]
    assert len(decided) == len(set(decided))
    assert sorted(confirmed) == sorted(decided), "everything that was decided was done once"
    assert sum(isinstance(entry.fact, PlanAdopted) for entry in entries) == 2, "the first launch and one recovery"
    assert run.attempts() == [1, 2]
    for attempt in run.attempts():
        assert [line["kind"] for line in run.lines(attempt)].count("start") == 1, f"attempt {attempt} was started twice"
    assert launches(run) == 2
