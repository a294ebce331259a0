"""What chaos draws, parses and shrinks. The faults themselves are done by `make chaos` and `make soak`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from tests import warm
from tests.chaos.__main__ import main
from tests.chaos.kinds import AWAKE_STEP, FIRST_STEP, KINDS, LAST_STEP, drawn_faults, find
from tests.chaos.outcome import Outcome, table
from tests.chaos.run import EVERY, ChaosRun
from tests.chaos.soak import MEAN_S, Planned, draw_plan, shrink
from trainer.faults import parse_fault


def test_there_are_thirty_kinds_of_every_group_and_each_has_one_way_to_strike() -> None:
    assert len(KINDS) >= 30
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.group for kind in KINDS} == {"process", "numbers", "data", "storage", "time", "sentinel"}
    assert [kind.name for kind in KINDS if (kind.strike is None) == (not kind.faults)] == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.faults], ids=lambda kind: kind.name)
def test_the_trainer_understands_its_drawn_faults(kind) -> None:
    for seed in range(20):
        for text in drawn_faults(kind, kind.draw_step(Random(seed))):
            parse_fault(text)


def test_a_run_is_started_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a process: `make chaos` would come upon a mistake here only when it is run."""
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **options: started.append(words))
    run = ChaosRun(tmp_path / "run", 40).start()
    (words,) = started
    asked, command = words[: words.index("--")], words[words.index("--") + 1 :]
    assert asked[-1] == "--warm" if warm.IS_ASKED else "--warm" not in asked
    assert asked[asked.index("--run-dir") + 1] == str(run.run_dir)
    assert command == run.command()


def test_a_fault_is_drawn_behind_a_checkpoint_and_not_on_one() -> None:
    for kind, first in (("hang", FIRST_STEP), ("nan-grad", AWAKE_STEP)):
        steps = {find([kind])[0].draw_step(Random(seed)) for seed in range(2000)}
        assert min(steps) > first - 2
        assert EVERY < first < max(steps) < LAST_STEP
        assert not {step for step in steps if step % EVERY == 0}


def test_a_plan_is_the_seeds_alone_has_a_fault_a_minute_and_can_be_typed_again() -> None:
    plan = draw_plan(7, 600.0)
    assert plan == draw_plan(7, 600.0) != draw_plan(8, 600.0)
    assert 600 * 60 / MEAN_S * 0.8 < len(plan) < 600 * 60 / MEAN_S * 1.2
    assert "lost-journal" not in {planned.kind for planned in plan}
    again = [Planned.parse(str(planned)) for planned in plan]
    assert [(one.kind, one.seed) for one in again] == [(one.kind, one.seed) for one in plan]


def test_every_kind_of_a_bag_comes_before_one_comes_again() -> None:
    kinds = [planned.kind for planned in draw_plan(3, 600.0)]
    first = kinds[: len(set(kinds))]
    assert len(set(first)) == len(first)


def plan_of(*names: str) -> list[Planned]:
    return [Planned(20.0, name, number) for number, name in enumerate(names)]


@pytest.mark.parametrize("guilty", [{"hang"}, {"pause", "hang"}, {"kill-rank", "hang"}], ids=sorted)
def test_what_fails_is_shrunk_to_what_it_needs(guilty: set[str]) -> None:
    plan = plan_of("segv", "kill-rank", "abort", "pause", "lost-lease", "hang")
    found = shrink(plan, lambda some: guilty <= {planned.kind for planned in some})
    assert {planned.kind for planned in found} == guilty


def test_shrinking_ends_after_so_many_tries_and_gives_back_what_is_known_to_fail() -> None:
    plan = plan_of(*[kind.name for kind in KINDS[:20]])
    tried = []
    assert shrink(plan, lambda some: bool(tried.append(some)), tries=5) == plan
    assert len(tried) <= 5


def test_a_kind_that_there_is_not_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["kill-cat"])
    assert left.value.code == 2
    assert "kill-cat: no kind of fault; there are: kill-rank, " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["soak", "--faults", "kill-rank@soon"])


def test_the_table_has_a_row_for_each_and_says_what_is_wrong() -> None:
    (kind,) = find(["hang"])
    fine = Outcome("hang", 7, 55, "hang recovered", "yes", 12, 9.25, 30.0, 0, ())
    bad = Outcome("hang", 8, 56, "no|incident", "no: nobody knows why", 0, None, 30.0, 2, ("it did not end",))
    lines = table([fine, bad], {"hang": kind}).splitlines()
    assert lines[2] == "| hang | SIGSTOP to a rank, for good | 7, 55 | hang recovered | yes | 12 | 9.2 | 30 |"
    assert "no/incident; 2 page(s); WRONG: it did not end | no: nobody knows why" in lines[3]
