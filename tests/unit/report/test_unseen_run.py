"""A run whose ranks on other machines nobody sees, and one that its scheduler does not start, on every surface: what and why."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from sentinel.cli.stop import stop_run
from sentinel.errors import UsageError
from sentinel.metrics.exposition import exposition
from sentinel.model import facts as f
from sentinel.model.attempts import Unseen
from sentinel.report.documents import status_document
from sentinel.report.needs import standing_documents
from sentinel.report.snapshot import RunSnapshot
from sentinel.report.standing import UNKNOWN, exit_code
from sentinel.sim.run import SimulationResult
from sentinel.sim.shape import Shape
from sentinel.terminal.incident_rows import incident_rows
from sentinel.terminal.picture import Picture
from sentinel.terminal.words import describe
from sentinel.web.fleet import overview_document
from tests.sim.kit import simulate
from tests.unit.told_run import write_run

WHO = "2 on node1, 3 on node1"
TWO_NODES = Shape(steps=160, step_s=0.4, startup_s=2.0, checkpoint_every=20, ranks=4, nodes=2)


@cache
def unseen(until_s: float = 200.0) -> SimulationResult:
    return simulate("unseen@step=50:how=client,for=0", shape=TWO_NODES, until_s=until_s)


@cache
def refused() -> SimulationResult:
    return simulate("refused@time=0:times=0,how=start", shape=TWO_NODES, until_s=100.0)


def snapshot(result: SimulationResult) -> RunSnapshot:
    return RunSnapshot(Path("/runs/demo"), result.state, result.entries[-1].at_s + 1.0, supervisor="alive")


def document(result: SimulationResult) -> dict[str, object]:
    return status_document(snapshot(result), None, "")


def test_status_says_the_word_and_who_may_live_where() -> None:
    shown = document(unseen())
    assert shown["state"] == "unseen"
    assert str(shown["reason"]).startswith("attempt 1 is not known to have ended, and nothing is started beside it: ")
    assert WHO in str(shown["reason"])
    assert exit_code(shown) == UNKNOWN


def test_the_list_of_runs_and_the_metrics_say_it() -> None:
    row = overview_document("demo", snapshot(unseen()), ())
    assert (row["state"], WHO in row["reason"]) == ("unseen", True)
    text = exposition([snapshot(unseen())]).decode()
    assert 'sentinel_run_state{run="sim",state="unseen"} 1.0' in text
    assert "sentinel_attempt_alive{" not in text, "neither alive nor dead"


def test_the_terminal_says_what_is_waited_for() -> None:
    result = unseen()
    picture = Picture(result.state, result.entries[-1].at_s, None, (), (), None, blocks=False)
    assert any("waiting: attempt 1 is not known to have ended" in row.plain for row in incident_rows(picture))
    (fact,) = [entry.fact for entry in result.entries if isinstance(entry.fact, f.AttemptUnseen)]
    line = describe(fact, 0.0, result.state)
    assert line is not None
    assert line.text.startswith("attempt 1 is unseen: nothing proves that these ranks have ended")


def test_a_person_who_is_called_reads_who_may_live_and_what_follows() -> None:
    result = unseen(until_s=900.0)
    (incident,) = result.state.incidents
    assert incident.page is not None
    assert WHO in incident.page.text
    assert "nothing is started before it is proven that nothing of the attempt lives" in incident.page.text
    (standing,) = standing_documents(snapshot(result), None)
    assert standing["incident"] == incident.id


def test_a_stop_that_cannot_reach_them_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path / "run", until=61)
    view = Unseen(1, "nothing proves the end of rank 1 on n2", has_ended_here=True)
    monkeypatch.setattr("sentinel.report.reading.view_attempt", lambda *_: view)
    monkeypatch.setattr("sentinel.cli.stop.view_attempt", lambda *_: view)
    with pytest.raises(UsageError, match=r"it is not known to have ended, and cannot be stopped from here: .*rank 1 on n2"):
        stop_run(run_dir, 1.0)


# A scheduler that starts nothing.


def test_a_run_that_its_scheduler_does_not_start_says_how_often_and_in_whose_words() -> None:
    shown = document(refused())
    assert shown["state"] == "starting"
    assert str(shown["reason"]).startswith("the scheduler has not started an attempt, ")
    assert "times in a row: srun: error: Unable to confirm allocation" in str(shown["reason"])
    facts = [entry.fact for entry in refused().entries if isinstance(entry.fact, f.EngineTrouble)]
    line = describe(facts[1], 0.0, refused().state)
    assert line is not None
    assert line.text.startswith("attempt 1 was not started, 2 times in a row: srun: error: ")
