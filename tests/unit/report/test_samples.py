"""`sentinel incidents show`: one incident, its samples the worst first, and a sentence where there are none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client import SampleLog, Session, Spec
from sentinel.client.run_layout import samples_path
from sentinel.errors import UsageError
from sentinel.journal.session import take_run
from sentinel.model import facts as f
from sentinel.model.attempts import SampleRange
from sentinel.model.records import Attribution
from sentinel.report.samples import incident_text, read_incident
from tests.unit.told_run import write_run

SUSPECT = SampleRange(5984, 6720)
FOUND = Attribution("guilty", "2 of 736 samples are guilty", 4, SUSPECT, (SampleRange(6000, 6002),), 2, 736)


def attributed(run_dir: Path, found: Attribution = FOUND) -> Path:
    write_run(run_dir)
    with take_run(run_dir) as session:
        session.journal.append(2_000_000.0, [f.Attributed(2, 1, found)], session.epoch)
    return run_dir


def write_samples(run_dir: Path) -> None:
    log = SampleLog(Session(run_dir, Spec(4)))
    log.start(resume_step=350, resume_digest="bb")
    for index in range(SUSPECT.start - 100, SUSPECT.end):
        bad = index in (6000, 6001)
        shard = "evil\x1b[31m\nname" if bad else "good.txt"
        log.sample(index, loss=9.0 if bad else 2.0 + 0.05 * (index % 9), grad_norm=1.0, shard=shard, offset=10 * index)
    log.end()


def test_the_worst_come_first_with_shard_and_offset(tmp_path: Path) -> None:
    run_dir = attributed(tmp_path / "run")
    write_samples(run_dir)
    document = read_incident(run_dir, 2, with_samples=True)
    assert (document["attribution"]["verdict"], document["attribution"]["ranges"]) == ("guilty", [[6000, 6002]])
    first = document["samples"][0]
    assert (first["rank"], first["sample"], first["guilty"], first["offset"]) == (1, 6000, True, 60000)
    assert len(document["samples"]) == 736
    assert [one["guilty"] for one in document["samples"][:3]] == [True, True, False]


def test_what_a_trainer_wrote_cannot_command_the_terminal(tmp_path: Path) -> None:
    run_dir = attributed(tmp_path / "run")
    write_samples(run_dir)
    printed = CliRunner().invoke(app, ["incidents", "show", "2", str(run_dir), "--samples"])
    assert printed.exit_code == 0
    assert printed.stdout.replace("\n", "").isprintable()
    assert "evil\\x1b[31m\\nname" in printed.stdout
    assert "2 of 736 samples guilty (score 1 convicts); the 40 worst are listed, --json has all" in printed.stdout
    assert "attribution: 2 of 736 samples are guilty" in printed.stdout


def test_the_document_is_json(tmp_path: Path) -> None:
    run_dir = attributed(tmp_path / "run")
    write_samples(run_dir)
    printed = CliRunner().invoke(app, ["incidents", "show", "2", str(run_dir), "--samples", "--json"])
    document = json.loads(printed.stdout)
    assert set(document["samples"][0]) == {
        "rank", "sample", "loss", "grad_norm", "score", "guilty", "why", "shard", "offset",
    }  # fmt: skip
    assert document["samples_missing"] == ""


@pytest.mark.parametrize(
    ("number", "found", "said"),
    [
        (1, None, "nothing was attributed: no rung of this incident asked for its guilty samples"),
        (2, replace(FOUND, verdict="failed", reason="the inspection was not done within 60 s"), "was not done within 60 s"),
        (2, FOUND, "the record of the inspection cannot be read any more"),
    ],
)
def test_where_there_are_no_samples_a_sentence_says_why(
    tmp_path: Path, number: int, found: Attribution | None, said: str
) -> None:
    run_dir = attributed(tmp_path / "run", found) if found is not None else write_run(tmp_path / "run")
    document = read_incident(run_dir, number, with_samples=True)
    assert document["samples"] == []
    assert said in document["samples_missing"]
    assert said in incident_text(document)


def test_a_damaged_record_says_its_place(tmp_path: Path) -> None:
    run_dir = attributed(tmp_path / "run")
    write_samples(run_dir)
    path = samples_path(run_dir, 4)
    path.write_bytes(path.read_bytes()[:-30])
    assert str(path) in read_incident(run_dir, 2, with_samples=True)["samples_missing"]


def test_an_incident_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    with pytest.raises(UsageError, match=r"there is no incident 9 \(there are: 1, 2\)"):
        read_incident(run_dir, 9, with_samples=False)


def test_all_incidents_and_one_of_them_are_two_commands(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    every = CliRunner().invoke(app, ["incidents", str(run_dir)])
    one = CliRunner().invoke(app, ["incidents", "show", "1", str(run_dir)])
    assert (every.exit_code, one.exit_code) == (0, 0)
    assert one.stdout.strip() in every.stdout
    assert "incidents show" in CliRunner().invoke(app, ["--help"]).stdout
