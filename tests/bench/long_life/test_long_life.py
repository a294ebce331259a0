"""A small long life: what the generator of `make bench-long-life` leaves is a run as Sentinel would have left it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sentinel.client.run_layout import stream_path
from sentinel.client.stream import Stream
from sentinel.journal.salvage import verify_journal
from sentinel.journal.store import Journal
from sentinel.report.reading import read_incidents, read_status
from sentinel.telemetry.checkpoints import read_all

from .folder import step_line, write_run
from .life import Life
from .shape import Shape, Told

SMALL = Shape(attempts=6, steps=100_000, whole=1, stride=200, save_every=10_000, incidents=13)
ENDS_S = 1_800_000_000.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Life]:
    run_dir = tmp_path_factory.mktemp("long") / "run"
    return run_dir, write_run(run_dir, SMALL, ENDS_S, lambda _: None)


def test_its_journal_is_whole_and_holds_what_the_engine_believes(made: tuple[Path, Life]) -> None:
    run_dir, life = made
    found = verify_journal(run_dir)
    assert (found.wrong, found.whole) == ((), len(life.rows))
    with Journal.open(run_dir / "sentinel.db", read_only=True) as journal:
        entries = list(journal.read_entries())
    assert [(entry.seq, entry.at_s, entry.epoch) for entry in entries] == [row[:3] for row in life.rows]
    assert life.now_s <= ENDS_S


def test_it_has_the_attempts_and_incidents_that_were_asked_for(made: tuple[Path, Life]) -> None:
    run_dir, life = made
    assert [one.attempt for one in life.told] == list(range(1, SMALL.attempts + 1))
    incidents = read_incidents(run_dir)
    assert len(incidents) == SMALL.incidents
    assert {one["kind"] for one in incidents} == {"spike", "crash", "non_finite"}
    assert read_status(run_dir)["attempt"] == SMALL.attempts


def test_its_checkpoints_are_those_of_the_journal(made: tuple[Path, Life]) -> None:
    run_dir, life = made
    assert {(one.step, one.digest) for one in read_all(run_dir)} == {(one.step, one.digest) for one in life.state.checkpoints}


def test_a_line_is_what_the_clients_writer_writes(tmp_path: Path) -> None:
    told = Told(SMALL, 2, 0, 1000.0)
    for step in (7, told.last_step):
        stream = Stream(tmp_path / f"{step}.jsonl", 2)
        first, end = told.samples(step)
        stream.step(step, samples=[(first, end)], **told.metrics(step))
        ours, theirs = step_line(told, step, False), (tmp_path / f"{step}.jsonl").read_text()
        assert list(json.loads(ours).items())[3:] == list(json.loads(theirs).items())[3:]
        assert ours.index('"samples"') > ours.index('"time_s"')
        assert theirs.count(" ") == ours.count(" ") == 0
    assert math.isnan(told.metrics(told.last_step)["loss"])


def test_the_newest_attempts_have_a_line_for_every_step(made: tuple[Path, Life]) -> None:
    run_dir, life = made
    counts = {}
    for told in life.told:
        with stream_path(run_dir, told.attempt).open() as file:
            counts[told.attempt] = sum('"kind":"step"' in line for line in file)
    assert counts == dict.fromkeys(range(1, 6), SMALL.steps // SMALL.stride) | {6: SMALL.steps}
