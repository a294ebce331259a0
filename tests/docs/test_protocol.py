"""PROTOCOL.md says what the code does: every list of it against the code, every file of it against one really written."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from sentinel import client
from sentinel.checkpoints import manifest as manifest_file
from sentinel.checkpoints import pointers as checkpoint_pointers
from sentinel.client import warm
from sentinel.client.run_layout import HEAD_NAME, LEASE_NAME, LOST_NAME, STANDBYS, STANDINGS_NAME, WARM_NAME
from sentinel.detectors import slowdown
from sentinel.engine import Engine
from sentinel.engine.detector_bank import build_detector_bank
from sentinel.errors import JournalError
from sentinel.journal import run_file
from sentinel.journal.head import Chain, write_head
from sentinel.journal.lease import Lease
from sentinel.journal.run_file import PolicyReference, RunFile, write_run_file
from sentinel.journal.run_lock import RunLock
from sentinel.journal.standbys import StandbyFile
from sentinel.launcher.elsewhere import ENDED_HERE, EndedHere, write_ended_here
from sentinel.launcher.exit_report import write_report
from sentinel.launcher.spec_file import overrides_to_json, write_spec
from sentinel.model import attempts
from sentinel.model.actions import Request
from sentinel.model.attempts import AttemptSpec, ExitReport, ExitSource, RankExit, SettingsInForce
from sentinel.model.metrics import METRICS, shown_name
from sentinel.model.readings import Phase
from sentinel.plan.checkpoint_validation import COUNT, STATE_PREFIXES
from sentinel.plan.sample_attribution import SAMPLES_MAX
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, AttemptFiles
from sentinel.run_files.detector_standings import StandingsFile
from sentinel.run_files.warm_standing import WarmStanding, write_warm
from sentinel.supervisor.lost_journal import JournalPages
from sentinel.tensorboard import charts
from tests.docs.protocol_page import TEXT, keys_of, listed, table, words
from trainer import exits


def assert_line(name: str, wanted: Sequence[str]) -> None:
    """The line has the code's words in the code's order."""
    assert listed(name) == list(wanted), f"sentinel/client/PROTOCOL.md: this line must be\n    {name}: {' '.join(wanted)}"


def test_the_closed_lists_are_the_codes() -> None:
    assert get_args(Phase) == client.PHASES
    assert get_args(Request) == client.REQUESTS
    assert_line("phases", client.PHASES)
    assert_line("end reasons", client.END_REASONS)
    assert_line("requests", client.REQUESTS)
    assert_line("may lapse", client.LAPSING)
    assert_line("pointers", checkpoint_pointers.POINTERS)
    assert {words(row[0])[0]: words(row[1])[0] for row in table("in the stream")} == charts.MEGATRON
    assert f"`{charts.MARKER}`" in TEXT
    assert_line("cursor keys", manifest_file._CURSOR_KEYS)
    assert all(name == COUNT or name.startswith(STATE_PREFIXES) for name in listed("judged numbers"))
    assert_line("capabilities", run_file.CAPABILITIES)
    assert f"At most {SAMPLES_MAX} samples" in TEXT
    assert_line("rank sources", get_args(ExitSource))
    assert f"`{RUN_DIR_VARIABLE}` and `{ATTEMPT_VARIABLE}`" in TEXT


def test_override_keys_are_those_written_and_those_read() -> None:
    keys = list(overrides_to_json(SettingsInForce(), 1))
    assert_line("override keys", keys)
    readable = {field.name for field in dataclasses.fields(client.Overrides)} - {"given", "raw"}
    assert set(keys) - {"incident"} == readable, "incident is for people, a trainer has no use for it"


def test_exit_codes_are_those_of_both_sides() -> None:
    codes = [int(row[0]) for row in table("code")]
    ours = (attempts.EXIT_FINISHED, attempts.EXIT_BAD_CONFIG, attempts.EXIT_BAD_DATA, attempts.EXIT_NON_FINITE)
    assert codes == [*ours, attempts.EXIT_STOPPED]
    assert codes == [exits.FINISHED, exits.BAD_CONFIG, exits.BAD_DATA, exits.NON_FINITE, exits.STOPPED]


def test_the_metrics_are_the_table_of_metrics() -> None:
    listed_here, known = {words(row[0])[0] for row in table("metric")}, {metric.pattern for metric in METRICS}
    assert not known - listed_here, f"PROTOCOL.md: the table of metrics needs a row for each of {known - listed_here}"
    assert not listed_here - known, f"sentinel/model/metrics.py: METRICS needs a row for each of {listed_here - known}"


def test_the_metrics_somebody_reads_are_the_detectors() -> None:
    """A detector that declares a metric (`needs`, `reads`, `blocks_of`) stands in the metric's row, in the column "read by"."""
    readers = {words(row[0])[0]: row[2] for row in table("metric")}
    state = {metric.pattern for metric in METRICS if metric.is_state}
    read = {*state, "skipped", *slowdown.LOGGED}  # in every row, so they are not declared
    for detector in build_detector_bank(load_policy(shipped_policy_path("default")))._detectors:
        for name in map(shown_name, {*detector.needs, *detector.reads, *detector.blocks_of}):
            assert name in readers, f"{detector.kind} reads {name}: give it a row in sentinel/model/metrics.py and PROTOCOL.md"
            named = readers[name].split(", ")
            assert detector.kind in named, f"PROTOCOL.md: {detector.kind} reads {name}; name it in the row of that metric"
            read.add(name)
    assert {name for name, column in readers.items() if column != "nobody"} == read


def written(path: Path) -> set[str]:
    return set(json.loads(path.read_text()))


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory whose every file was written by its own writer."""
    monkeypatch.setenv("WORLD_SIZE", "2")  # with a peer a rank writes its stacks by itself, and its heartbeat says so
    files = AttemptFiles.of(tmp_path, 3)
    reference = PolicyReference("default.yaml", "d", "default")
    write_run_file(tmp_path, RunFile("r", ("train",), "/", reference, "local", "2026-11-20T00:00:00+00:00"))
    with RunLock.acquire(tmp_path) as lock:
        Lease.publish(lock, 1)
    write_head(tmp_path, Chain())
    paging = load_policy(shipped_policy_path("default")).spec.paging
    JournalPages(tmp_path, paging.model_copy(update={"routes": ()})).page(JournalError("it is gone"), 0.0, print)
    StandingsFile(tmp_path).write(0.0, Engine(load_policy(shipped_policy_path("default"))))
    write_spec(files, AttemptSpec(3, ("train",), "/", None, SettingsInForce(id="ov-3")))
    report = ExitReport(0, (RankExit(0, 0, None, "record", None),), None, "the command ended with code 0")
    write_report(files, report)
    write_ended_here(files, EndedHere("n1", report, frozenset(), "srun was killed"))
    session = client.Session.from_environment(environ=files.environment)
    assert session is not None
    session.heartbeat(1, "forward")
    session.start(resume_step=0, resume_digest=None, world_size=1, params=1, tokens_per_step=1, effective={})
    session.step(1, samples=[[0, 16]])
    session.event("checkpoint_committed", step=1)
    session.end(1, "finished")
    session.record_exit(0)
    log = client.SampleLog(session)
    log.start(resume_step=0, resume_digest=None)
    log.sample(0, loss=2.0, grad_norm=1.0, shard="a.py", offset=0)
    log.end()
    return tmp_path


def test_every_file_has_the_keys_the_page_gives_it(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = AttemptFiles.of(run_dir, 3).folder
    write_warm(run_dir, WarmStanding("none"))
    StandbyFile(run_dir).write("")
    monkeypatch.setenv("SENTINEL_RUN_DIR", str(run_dir))
    monkeypatch.setenv("SENTINEL_ATTEMPT", "3")
    monkeypatch.delenv("RANK", raising=False)
    warm.offer("json")
    found: dict[str, set[str]] = {
        "run.json": written(run_dir / "run.json"),
        "journal.head": set(json.loads((run_dir / HEAD_NAME).read_text().splitlines()[0])),
        LOST_NAME: written(run_dir / LOST_NAME),
        "lease.json": written(run_dir / LEASE_NAME),
        "standbys/HOST-BOOT-PID.json": written(next((run_dir / STANDBYS).iterdir())),
        STANDINGS_NAME: written(run_dir / STANDINGS_NAME),
        WARM_NAME: written(run_dir / WARM_NAME),
        "attempts/N/warm.json": written(folder / "warm.json"),
        "spec.json": written(folder / "spec.json"),
        "exit.json": written(folder / "exit.json"),
        ENDED_HERE: written(folder / ENDED_HERE),
        "heartbeats/rank-N.json": written(folder / "heartbeats/rank-00000.json"),
        "exits/rank-N.json": written(folder / "exits/rank-00000.json"),
    }
    lines: list[dict[str, Any]] = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found |= {f"metrics.jsonl, {line['kind']}": set(line) for line in lines}
    seen: list[dict[str, Any]] = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    found |= {f"samples.jsonl, {line['kind']}": set(line) for line in seen}
    assert {row[0].replace("`", "") for row in table("file")} == set(found)
    for file, keys in found.items():
        assert keys_of(file) == keys, file


def test_what_the_code_calls_the_protocol_is_this_page() -> None:
    """Nothing refers to a page that is not in the repository."""
    root = Path(__file__).resolve().parents[2]
    for path in [*root.glob("*.md"), *(root / "sentinel").rglob("*"), *(root / "trainer").rglob("*.py")]:
        if path.suffix in (".py", ".md"):
            text = path.read_text(encoding="utf-8")
            assert "NUMBERS.md" not in text, f"{path} refers to a page that is not here"
            for heading in re.findall(r"""PROTOCOL(?:\.md)? ['"]([^'"]+)['"]""", text):
                assert re.search(rf"^## {re.escape(heading)}\b", TEXT, re.MULTILINE), f"{path} refers to a section {heading!r}"
