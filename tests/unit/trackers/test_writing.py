"""A recorded run, written into a tracker that only remembers: once, piece by piece, and through deaths at any call."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.run_layout import stream_path
from sentinel.errors import UsageError
from sentinel.model.readings import StepReading
from sentinel.report.reading import read_lineage
from sentinel.run_files.stream import StreamPieces
from sentinel.run_files.stream_lines import parse_line
from sentinel.trackers import command, registry
from sentinel.trackers.contract import AttemptRun, End, TrackerError
from sentinel.trackers.registry import Target, TrackerRow, parse_target
from sentinel.trackers.writing import TrackedRun, place_path
from tests.recorded.test_recorded_run import lay_out


@dataclass
class Remembering:
    """A tracker. `dies_at`: the number of the call that raises."""

    runs: dict[str, AttemptRun] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    calls: int = 0
    dies_at: int | None = None
    open_key: str = ""

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.dies_at:
            raise TrackerError("the network is away")

    def open(self, run: AttemptRun) -> None:
        self._call()
        assert run.is_known or run.key not in self.runs or self.dies_at
        self.runs.setdefault(run.key, run)
        self.open_key = run.key

    def log(self, rows: Sequence[StepReading]) -> None:
        self._call()
        self.rows.setdefault(self.open_key, []).extend(row.step for row in rows)

    def tell(self, run: AttemptRun, facts: Mapping[str, Any]) -> None:
        self._call()
        self.facts[run.key] = facts

    def close(self, end: End) -> None:
        self._call()
        self.ends[self.open_key] = end

    def end(self, group: str, end: End) -> None:
        self._call()
        self.ends[group] = end

    def where(self) -> str:
        return "look here"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return lay_out(tmp_path) / "run"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Remembering:
    """What `--to memory` writes to."""
    tracker = Remembering()
    row = TrackerRow("memory", "json", "nothing", registry.WandbSettings, lambda settings, folder: tracker)
    monkeypatch.setattr(registry, "TRACKERS", (*registry.TRACKERS, row))
    return tracker


def target() -> Target:
    return parse_target("--to", "memory")


def write(run_dir: Path) -> TrackedRun:
    writing = TrackedRun(run_dir, target())
    while writing.advance():
        pass
    return writing


def steps_of(run_dir: Path, attempt: int) -> list[int]:
    """What the attempt trained itself, by its stream."""
    stream, found = StreamPieces(stream_path(run_dir, attempt)), []
    while (piece := stream.read(is_over=True)).lines and any(piece.lines):
        found += [one.step for line in piece.lines if line and isinstance(one := parse_line(line, attempt), StepReading)]
    return found


def test_every_attempt_is_a_run_with_its_own_rows_and_a_rollback_is_a_fork(run_dir: Path, memory: Remembering) -> None:
    write(run_dir).close()
    lineage = read_lineage(run_dir)
    assert len(lineage) == len(memory.runs) > 3
    assert len({run.group for run in memory.runs.values()}) == 1
    keys = {run.attempt: key for key, run in memory.runs.items()}
    for branch in lineage:
        number = branch["attempt"]
        run = memory.runs[keys[number]]
        assert memory.rows.get(run.key, []) == sorted(set(steps_of(run_dir, number)))
        assert run.config["settings"] == branch["settings"]
        expected = None if branch["parent"] is None else (keys[branch["parent"]], branch["resumed_step"])
        assert (None if run.fork is None else (run.fork.key, run.fork.step)) == expected
        assert memory.facts[run.key]["outcome"] == branch["outcome"]
        assert memory.facts[run.key].get("survives_to") == branch["survives_to"]
    assert any(branch["survives_to"] != branch["last_step"] for branch in lineage), "the recording goes back"
    told = [line for facts in memory.facts.values() for line in facts.get("incidents", [])]
    assert len(told) == 4
    (group,) = {run.group for run in memory.runs.values()}
    assert memory.ends[group] == "stopped"


def test_a_step_told_in_two_lines_is_written_in_two_rows(run_dir: Path, memory: Remembering) -> None:
    """The line of an evaluation is told before the step's own; W&B and MLflow put them together."""
    last = read_lineage(run_dir)[-1]["attempt"]
    stream = stream_path(run_dir, last)
    lines = stream.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if b'"loss"' in line and json.loads(line)["kind"] == "step")
    step = json.loads(lines[place])["step"]
    stream.write_bytes(b"".join([*lines[:place], b'{"kind": "step", "step": %d, "val_loss": 2.5}\n' % step, *lines[place:]]))
    write(run_dir).close()
    assert memory.rows[memory.open_key].count(step) == 2


def test_written_again_nothing_is_written_twice(run_dir: Path, memory: Remembering) -> None:
    write(run_dir).close()
    before = memory.calls
    again = write(run_dir)
    assert "nothing new" in again.summary
    again.close()
    assert memory.calls == before


def test_a_writer_that_dies_at_any_call_is_followed_by_one_that_misses_nothing(run_dir: Path, memory: Remembering) -> None:
    write(run_dir).close()
    whole, calls = {key: sorted(set(steps)) for key, steps in memory.rows.items()}, memory.calls
    assert calls > 10
    for dies_at in range(1, calls + 1):
        place_path(run_dir, target()).unlink()
        fresh = Remembering(dies_at=dies_at)
        memory.__dict__.update(fresh.__dict__)
        with pytest.raises(TrackerError):
            write(run_dir)
        write(run_dir).close()
        assert {key: sorted(set(steps)) for key, steps in memory.rows.items()} == whole, dies_at
        assert set(memory.ends) >= set(whole), dies_at


def test_rows_that_come_later_are_appended_and_the_open_attempt_is_left_open(run_dir: Path, memory: Remembering) -> None:
    """The recording as it was while its last attempt lived: half of its stream, and of the journal what was written before."""
    last = read_lineage(run_dir)[-1]["attempt"]
    stream = stream_path(run_dir, last)
    whole, lines = stream.read_bytes(), stream.read_bytes().splitlines(keepends=True)
    shutil.copy(run_dir / "sentinel.db", run_dir / "later.db")
    with closing(sqlite3.connect(run_dir / "sentinel.db")) as journal, journal:
        (launched,) = journal.execute("select max(seq) from facts where kind = 'AttemptLaunched'").fetchone()
        journal.execute("delete from facts where seq > ?", (launched,))
    stream.write_bytes(b"".join(lines[: len(lines) // 2])[:-5])
    first = write(run_dir)
    key, seen = memory.open_key, len(memory.rows[memory.open_key])
    assert "survives_to" not in memory.facts[key]
    assert memory.facts[key]["outcome"] == "has not ended"
    stream.write_bytes(b"".join(lines[: len(lines) * 3 // 4]))
    while first.advance():
        pass
    assert seen < len(memory.rows[key]) < len(steps_of(run_dir, last)) + 1
    first.close()
    assert memory.ends[key] == "going on"
    stream.write_bytes(whole)
    shutil.copy(run_dir / "later.db", run_dir / "sentinel.db")
    write(run_dir).close()
    assert memory.rows[key] == steps_of(run_dir, last)
    assert memory.ends[key] == "stopped"


def test_a_second_writer_is_refused_and_another_project_is_not(run_dir: Path, memory: Remembering) -> None:
    with command._only_writer(run_dir, target()):
        with pytest.raises(UsageError, match="writing it to memory already"):
            command.track(run_dir, "memory", follow=False, until_eof=False, say=print)
        command.track(run_dir, "memory:project=other", follow=False, until_eof=False, say=print)
    assert memory.rows


def test_a_damaged_place_begins_again_into_the_same_runs(run_dir: Path, memory: Remembering) -> None:
    write(run_dir).close()
    keys = set(memory.runs)
    for damage in (
        b"",
        b"{",
        b"[]",
        b'{"v": 1, "attempts": {"1": [1]}}',
        b'{"v": 1, "attempts": {"x": [0, 0, false, ""]}}',
        b"\xff",
    ):
        place_path(run_dir, target()).write_bytes(damage)
        memory.dies_at = -1  # no longer the first time
        write(run_dir).close()
    assert set(memory.runs) == keys


def test_follow_says_a_failure_once_and_goes_on(run_dir: Path, memory: Remembering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "AGAIN_S", 0.0)
    memory.dies_at = 3
    said: list[str] = []
    command.track(run_dir, "memory", follow=True, until_eof=False, say=said.append)
    assert [words.split(";")[0] for words in said[:1]] == ["not written to memory: the network is away"]
    assert "attempt(s), up to step" in said[-1]
    assert len(said) == 2


def test_a_disk_that_fails_ends_in_a_sentence_and_not_in_a_traceback(
    run_dir: Path, memory: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: TrackedRun) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(run_dir / "trackers"))

    monkeypatch.setattr(TrackedRun, "advance", fails)
    done = CliRunner().invoke(app, ["track", "--to", "memory", str(run_dir)])
    assert done.exit_code == 1, done.exception
    assert f"{run_dir}: not written to memory: [Errno 28] No space left on device" in done.stderr
    assert "the same command goes on" in done.stderr


def test_what_is_no_run_and_no_tracker_is_refused_in_a_sentence(tmp_path: Path, memory: Remembering) -> None:
    with pytest.raises(UsageError, match="not the directory of a run"):
        command.track(tmp_path, "memory", follow=False, until_eof=False, say=print)
    for asked, words in {
        "wandbb": "did you mean 'wandb'",
        "wandb:projekt=x": "did you mean 'project'",
        "wandb:project": "write NAME:option=value",
        "wandb:mode=off": "online or offline",
        "wandb:fork=maybe": "yes or no",
        "mlflow:experiment=": "is empty",
    }.items():
        with pytest.raises(UsageError, match=words):
            parse_target("--to", asked)


def test_a_target_that_comes_twice_is_refused(memory: Remembering) -> None:
    with pytest.raises(UsageError, match="given twice"):
        registry.check_targets("--track", ("memory", "memory"))


def test_a_library_that_is_not_installed_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TrackerRow("absent", "no_such_library_here", "no-such-library", registry.WandbSettings, registry.WandbRuns)
    monkeypatch.setattr(registry, "TRACKERS", (row,))
    with pytest.raises(UsageError, match="pip install no-such-library"):
        parse_target("--to", "absent")


def test_two_runs_of_one_name_have_keys_of_their_own(run_dir: Path, tmp_path: Path, memory: Remembering) -> None:
    write(run_dir).close()
    shutil.copytree(run_dir, tmp_path / "copy")
    before = set(memory.runs)
    write(tmp_path / "copy").close()
    assert set(memory.runs) == before  # a copy is the same run


@pytest.mark.parametrize("kind", ["file", "lock"])
def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(run_dir: Path, memory: Remembering, kind: str) -> None:
    folder = place_path(run_dir, target()).parent
    if kind == "file":
        folder.touch()
    else:
        place_path(run_dir, target()).with_suffix(".lock").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"cannot be written .*; make it a folder that can be written"):
        command.track(run_dir, "memory", follow=False, until_eof=False, say=print)
    assert not memory.calls
