"""Sick hardware in the engine: what is retried, who is called, and when nothing is done."""

from __future__ import annotations

from sentinel.model import facts as f
from sentinel.model.events import Event
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import HardwareReading, HardwareWhat, SourceReading
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from tests.builders import Bench

GPU = "0000:3b:00"


def told(what: HardwareWhat, value: float | None = None, text: str = "") -> Event:
    return HardwareReading("nvml", what, text or what, "node7", GPU, value)


def training(policy: str = "demo") -> Bench:
    bench = Bench(load_policy(shipped_policy_path(policy))).launched()
    bench.steps(1, 50).checkpoint(50)
    return bench.steps(51, 60)


def after(bench: Bench, *events: Event) -> Bench:
    for event in events:
        bench.tell(event)
    bench.tick(1.0)
    bench.tick(1.5)
    return bench


def test_where_a_restart_of_the_application_is_enough_the_run_resumes() -> None:
    bench = after(training(), told("xid", 94.0))
    assert bench.incident.kind is Kind.GPU_FAULT
    assert bench.plan_kinds == ["Capture", "KillAttempt", "VerifyCheckpoint", "Quarantine", "StartAttempt"]
    assert bench.resumed_from == 50


def test_the_same_gpu_again_calls_a_person() -> None:
    bench = after(training(), told("xid", 94.0))
    bench.launched()
    after(bench, told("xid", 94.0))
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert [page.severity for page in bench.state.pending.values() if type(page).__name__ == "SendPage"] == ["critical"]


def test_where_the_node_must_be_rebooted_a_person_is_called_at_once() -> None:
    bench = after(training(), told("xid", 79.0))
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert "reboot the node" in bench.incident.reason
    assert bench.state.giving_up == "stop_now"
    assert [rung.remedy.words for rung in bench.of(f.RungTaken)] == [("page", "then")]


def test_wear_tells_a_person_and_training_goes_on() -> None:
    bench = after(training(), told("ecc_uncorrected", 0.0), told("ecc_uncorrected", 2.0))
    assert bench.incident.kind is Kind.HARDWARE_WARNING
    assert bench.state.giving_up in ("", "keep_training")
    assert bench.state.plan is None
    assert not [action for action in bench.state.pending if action.startswith("kill")]


def test_a_crash_within_seconds_is_one_incident_with_its_cause_in_the_reason() -> None:
    bench = training()
    bench.tell(told("xid", 79.0))
    bench.exits(signal=6)
    assert [incident.kind for incident in bench.state.incidents] == [Kind.CRASH]
    assert "just before: GPU 0000:3b:00: Xid 79" in bench.incident.reason
    after(bench)
    assert len(bench.state.incidents) == 1
    bench.launched()
    after(bench)  # and the relaunch meets the same dead GPU: no third try
    assert [incident.kind for incident in bench.state.incidents] == [Kind.CRASH, Kind.GPU_FAULT]
    assert bench.state.giving_up == "stop_now"


def test_nothing_is_opened_while_stopping() -> None:
    bench = training()
    bench.wants_stop()
    after(bench, told("xid", 79.0))
    assert bench.state.incidents == ()
    assert "being stopped" in bench.of(f.FindingRecorded)[-1].reason


def test_a_machine_without_a_driver_says_so_once_in_the_journal_and_is_not_blind() -> None:
    bench = training()
    bench.tell(told("absent", text="no NVIDIA driver: gpu faults cannot be seen"))
    assert bench.state.blind == {}
    (note,) = [fact for fact in bench.of(f.Noted) if fact.about == "nvml"]
    assert note.reason == "no NVIDIA driver: gpu faults cannot be seen"


def test_a_source_that_goes_blind_is_recorded_and_hangs_are_judged_all_the_same() -> None:
    bench = training()
    bench.tell(SourceReading("nvml", False, "the helper is silent"))
    assert bench.state.blind == {"nvml": "the helper is silent"}
    bench.now_s += 10_000
    bench.tick()
    assert bench.incident.kind is Kind.HANG
