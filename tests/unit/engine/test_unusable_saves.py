"""Checkpoints come as they should and each that is read is damaged: a person is called, until one holds again."""

from __future__ import annotations

from sentinel.detectors.stale_checkpoint import DAMAGED
from sentinel.engine.unusable_saves import DAMAGED_IN_A_ROW
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from tests.builders import Bench, build_policy

ZEROS = "state.json: sha256 is 2c2bc349, the manifest says 6bfc33db"


def saves(bench: Bench, first: int, count: int, damage: str = "") -> Bench:
    for step in range(first, first + 20 * count, 20):
        bench.steps(step - 19, step).checkpoint(step).read(step, damage)
    return bench


def calls(bench: Bench) -> list[f.PageRaised]:
    return bench.of(f.PageRaised)


def test_two_damaged_in_a_row_call_a_person_once() -> None:
    bench = saves(Bench(build_policy()).launched(), 20, 2)
    saves(bench, 60, DAMAGED_IN_A_ROW - 1, ZEROS)
    assert not calls(bench), "one may be a bit that rotted"
    saves(bench, 80, 6, ZEROS)
    (page,) = calls(bench)
    assert page.severity == "critical"
    (incident,) = bench.state.open_pages
    assert (incident.kind, incident.metric) == (Kind.STALE_CHECKPOINT, DAMAGED)
    assert incident.reason.startswith("the newest 2 checkpoints that were read whole, of steps 60 and 80, are damaged: state")
    assert incident.reason.endswith("the newest that is known to hold: that of step 40")


def test_it_is_taken_back_when_a_younger_one_holds_and_called_again_when_it_comes_back() -> None:
    bench = saves(saves(Bench(build_policy()).launched(), 20, 2), 60, 3, ZEROS)
    assert bench.state.open_pages
    saves(bench, 120, 1)
    assert not bench.state.open_pages
    assert "the checkpoint of step 120 was read whole and holds" in bench.of(f.PageResolved)[-1].reason
    saves(bench, 140, 3, ZEROS)
    assert len(calls(bench)) == 2


def test_an_older_one_that_is_read_later_takes_nothing_back() -> None:
    bench = Bench(build_policy()).launched()
    bench.steps(1, 20).checkpoint(20)
    saves(bench, 40, 2, ZEROS)
    bench.read(20)
    assert bench.state.open_pages


def test_where_good_and_damaged_take_turns_nobody_is_called() -> None:
    bench = Bench(build_policy()).launched()
    for step in range(20, 201, 40):
        saves(bench, step, 1)
        saves(bench, step + 20, 1, ZEROS)
    assert not calls(bench)


def test_where_none_ever_held_it_says_so() -> None:
    bench = saves(Bench(build_policy()).launched(), 20, 2, ZEROS)
    assert bench.state.open_pages[0].reason.endswith("the newest that is known to hold: none")


def test_the_end_of_the_run_takes_nothing_back() -> None:
    bench = saves(saves(Bench(build_policy()).launched(), 20, 2), 60, 3, ZEROS).ends(100)
    assert bench.state.ended == "finished"
    assert [incident.metric for incident in bench.state.open_pages] == [DAMAGED]
