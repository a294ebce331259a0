"""What the machine threatens a run with: said as long as it holds, once, and never from what nobody has looked at lately."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sentinel.cli.top import warnings_of
from sentinel.detectors.disk_full import FILLING
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.paging import IncidentPage
from sentinel.model.state import RunState
from sentinel.report.documents import status_document
from sentinel.report.machine_warnings import machine_warnings
from sentinel.report.snapshot import RunSnapshot
from sentinel.report.text import status_text
from sentinel.run_files.detector_standings import OLD_AFTER_S, DetectorStandings
from sentinel.run_files.gpu_standing import GpuStanding
from tests.unit.run_files.test_stall import NO_SCHEDULE
from tests.unit.told_run import at, state_of, told

NOW_S = at(20)
FILLS = "3 GiB are free on /ckpt, the next save takes 4 GiB"
HOT = GpuStanding(1, "H100", lost=False, troubles=("slowed down: HW thermal",))
WELL = GpuStanding(0, "H100", lost=False)


def senses(*verdicts: tuple[str, str, str], gpus: tuple[GpuStanding, ...] = ()) -> DetectorStandings:
    return DetectorStandings(NOW_S, 1, 40, verdicts=verdicts, gpus=gpus)


def training() -> RunState:
    return state_of(told(20))


def called_for(kind: Kind, page: IncidentPage | None, state: IncidentState) -> RunState:
    found = Incident(1, kind, "warning", "DiskFilling", "tell", 1, None, 40, 40, at(19), at(19), "full in 3 h")
    return replace(training(), incidents=(replace(found, state=state, page=page),))


def test_a_disk_that_fills_up_is_said_on_every_surface() -> None:
    seen = RunSnapshot(Path("/r"), training(), NOW_S, supervisor="alive", senses=senses(("disk_full", "breached", FILLS)))
    assert machine_warnings(seen.state, NOW_S, seen.senses) == [{"about": "disk", "words": f"disk: {FILLS}", "incident": None}]
    assert f"warning     disk: {FILLS}" in status_text(status_document(seen, None, "") | {"schedule": NO_SCHEDULE})
    assert warnings_of(seen) == (f"disk: {FILLS}",)


def test_a_gpu_is_in_trouble_long_before_that_counts_as_a_fault() -> None:
    found = machine_warnings(training(), NOW_S, senses(("gpu_fault", "healthy", "2 GPUs are seen"), gpus=(WELL, HOT)))
    assert [one["words"] for one in found] == ["hardware: GPU 1 (H100): slowed down: HW thermal"]
    fault = ("gpu_fault", "breached", "GPU 1: Xid 79")
    told_of = machine_warnings(training(), NOW_S, senses(fault, gpus=(WELL, HOT)))
    assert [one["words"] for one in told_of] == ["hardware: GPU 1: Xid 79"], "the fault says it"


def test_an_incident_of_it_is_named_and_not_told_beside_it() -> None:
    page = IncidentPage("warning", "demo: disk", "text", at(19))
    verdict = ("disk_full", "breached", FILLS)
    state = called_for(FILLING, page, IncidentState.EXHAUSTED)
    assert machine_warnings(state, NOW_S, senses(verdict)) == [{"about": "disk", "words": "disk: full in 3 h", "incident": 1}]
    assert warnings_of(RunSnapshot(Path("/r"), state, NOW_S, supervisor="alive", senses=senses(verdict))) == ()
    resolved = replace(page, resolved="ann cleans up", resolved_s=at(20))
    (left,) = machine_warnings(called_for(FILLING, resolved, IncidentState.EXHAUSTED), NOW_S, senses(verdict))
    assert left == {"about": "disk", "words": f"disk: {FILLS}", "incident": None}, "answered, and it still fills up"


def test_what_nobody_has_looked_at_lately_is_not_known() -> None:
    old = senses(("disk_full", "breached", FILLS), gpus=(HOT,))
    assert machine_warnings(training(), NOW_S + OLD_AFTER_S + 1, old) == []
    assert machine_warnings(training(), NOW_S, senses(("disk_full", "unknown", "no answer"))) == []
    assert machine_warnings(state_of(told()), NOW_S, old) == [], "it has ended"
