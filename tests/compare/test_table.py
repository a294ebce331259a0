"""What the table says of runs that got there, did not, and were not made."""

from __future__ import annotations

from tests.compare.table import Cell, Outcome, best_of, page


def test_a_cell_counts_those_that_did_not_get_there() -> None:
    cell = Cell("warm", "kill", [Outcome(3.0), Outcome(1.0), Outcome(None, "not within 60 s"), Outcome(2.0)])
    assert cell.words == "**2.00** (1.00 to 3.00), 3 of 4"
    assert Cell("warm", "kill", [Outcome(None, "it left with 1")]).words == "0 of 1: it left with 1"
    assert Cell("warm", "kill").words == "not measured"


def test_the_best_is_who_got_there_most_often_and_then_soonest() -> None:
    slow = Cell("torchrun", "kill", [Outcome(9.0), Outcome(9.0)])
    lucky = Cell("ft_launcher", "kill", [Outcome(1.0), Outcome(None, "it left with 1")])
    soon = Cell("warm", "kill", [Outcome(2.0), Outcome(2.0)])
    assert best_of([slow, lucky, soon]) == "Sentinel `--warm`"
    assert best_of([slow, lucky]) == "torchrun"
    assert best_of([Cell("cold", "kill", [Outcome(None, "never")])]) == "none"


def test_the_page_has_a_row_for_each_fault_and_a_column_for_each_system() -> None:
    text = page([Cell(system, fault) for system in ("torchrun", "warm") for fault in ("kill", "nan")])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert {row.count("|") for row in rows} == {5}
