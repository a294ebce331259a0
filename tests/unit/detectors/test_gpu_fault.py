"""gpu_fault: one fault from many signs, what has to be done about it, and silence where nothing is wrong or nobody uses it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.gpu_fault import RECENT_KEPT, RECENT_S, SETTLE_S, GpuFault, GpuFaultSettings
from sentinel.detectors.xids import XIDS, Need, need_of_recovery
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import HardwareReading, HardwareWhat, SourceReading
from tests.unit.detectors.bank_kit import beat, config, make_bank, receipt, watched

GPU = "0000:3b:00"


def told(
    what: HardwareWhat, value: float | None = None, source: str = "nvml", device: str | None = GPU, **more: object
) -> HardwareReading:
    return HardwareReading(source, what, more.pop("text", f"{what} {value}"), "node7", device, value, **more)  # type: ignore[arg-type]


def make(attempt: int = 1, **settings: object) -> GpuFault:
    detector = GpuFault(GpuFaultSettings(**settings), watched(newest_step=42))
    if attempt:
        detector.launch(attempt, 0.0)
    return detector


def heard(detector: GpuFault, *readings: HardwareReading, at_s: float = 10.0, wait_s: float = SETTLE_S) -> tuple[Finding, ...]:
    for reading in readings:
        detector.hardware(reading, at_s)
    return detector.hardware_tick(at_s + wait_s)


def test_a_fault_waits_for_its_whole_story_and_says_what_to_do() -> None:
    detector = make()
    detector.hardware(told("xid", 79.0), 10.0)
    assert detector.hardware_tick(10.0 + SETTLE_S - 0.1) == ()
    (found,) = detector.hardware_tick(10.0 + SETTLE_S)
    assert (found.kind, found.severity, found.retryable) == (Kind.GPU_FAULT, "critical", False)
    assert (found.attempt, found.onset_step, found.detected_step, found.visible_s, found.value) == (1, None, 42, 10.0, 79.0)
    assert found.key == f"1/gpu_fault/xid79@{GPU}/42"
    assert found.reason == (
        f"GPU {GPU} on node7: Xid 79: the GPU has fallen off the bus; reboot the node, and take it out if it comes again"
    )


def test_the_same_xid_of_both_sources_and_a_storm_of_it_are_one_finding() -> None:
    detector = make()
    twice = [told("xid", 94.0), told("xid", 94.0, source="kernel_log")] * 500
    (found,) = heard(detector, *twice)
    assert found.retryable
    assert "a restart of the application is enough" in found.reason
    assert heard(detector, *twice, at_s=100.0) == ()


def test_the_same_device_on_two_nodes_is_two_faults_each_of_its_node() -> None:
    detector = make()
    on = [replace(told("xid", 79.0, source="kernel_log"), host=host, by_agent=True) for host in ("n2", "n3")]
    found = heard(detector, *on)
    assert [(one.blamed_node, one.key) for one in found] == [
        ("n2", f"1/gpu_fault/xid79@n2/{GPU}/42"), ("n3", f"1/gpu_fault/xid79@n3/{GPU}/42"),
    ]  # fmt: skip
    assert found[0].reason.startswith(f"GPU {GPU} on n2: Xid 79: the GPU has fallen off the bus")
    detector.hardware(replace(told("seen", rank=3), host="n2", by_agent=True), 20.0)
    assert detector.gpus_in_use is None  # agents tell of the sick ones alone: nobody has counted


def test_where_an_agent_is_gone_nobody_says_that_gpus_are_well() -> None:
    detector = make()
    heard(detector, told("seen"))
    assert detector.verdict()[0] is Verdict.HEALTHY
    detector.source(SourceReading("agents", ok=False, reason="no word from n2"))
    assert detector.verdict() == (Verdict.UNKNOWN, "no word from n2")


@pytest.mark.parametrize(("code", "retryable", "words"), [(0, True, "restart"), (1, False, "reset"), (2, False, "reboot")])
def test_the_drivers_word_outranks_the_table(code: int, retryable: bool, words: str) -> None:
    (found,) = heard(make(), told("xid", 119.0), told("recovery_action", float(code), source="kernel_log"))
    assert found.retryable is retryable
    assert f"{words}" in found.reason
    assert found.reason.endswith("(the driver's word)")


def test_a_word_from_before_the_fault_is_not_about_it() -> None:
    detector = make()
    detector.hardware(told("recovery_action", 0.0), 1.0)
    (found,) = heard(detector, told("xid", 119.0))
    assert not found.retryable


def test_a_recovery_action_alone_is_a_fault_when_it_is_new_and_a_note_when_it_is_old() -> None:
    (old,) = heard(make(), told("recovery_action", 1.0))
    assert old.severity == "info"
    detector = make()
    assert heard(detector, told("recovery_action", 0.0)) == ()
    (new,) = heard(detector, told("recovery_action", 1.0), at_s=20.0)
    assert (new.severity, new.retryable, new.metric) == ("critical", False, f"recovery_action@{GPU}")


def test_an_applications_own_xid_is_recorded_and_no_more() -> None:
    for number in (13.0, 31.0, 43.0, 45.0, 63.0, 160.0, 161.0):
        (found,) = heard(make(), told("xid", number))
        assert found.severity == "info"


@pytest.mark.parametrize("number", [54.0, 159.0, *map(float, range(162, 176)), 9999.0])
def test_an_xid_without_a_known_action_is_a_warning_to_a_person(number: float) -> None:
    """NVIDIA's catalogue only reports them, or does not have them: nobody can say that nothing needs to be done."""
    (found,) = heard(make(), told("xid", number))
    assert (found.kind, found.severity, found.retryable) == (Kind.HARDWARE_WARNING, "warning", True)
    assert "nothing needs to be done" not in found.reason
    assert "catalogue" in found.reason


def test_a_gpu_that_is_gone() -> None:
    detector = make()
    assert heard(detector, told("gpu_lost", 0.0)) == ()
    (found,) = heard(detector, told("gpu_lost", 1.0), at_s=20.0)
    assert (found.severity, found.retryable) == ("critical", False)
    (before,) = heard(make(), told("gpu_lost", 1.0))
    assert before.severity == "info"


@pytest.mark.parametrize("what", ["ecc_uncorrected", "row_remap_pending", "row_remap_failure"])
def test_counters_and_states_count_from_the_first_look(what: HardwareWhat) -> None:
    detector = make()
    assert [found.severity for found in heard(detector, told(what, 3.0))] == ["info"]
    assert heard(detector, told(what, 2.0), at_s=20.0) == ()
    (found,) = heard(detector, told(what, 4.0), at_s=30.0)
    assert (found.kind, found.severity) == (Kind.HARDWARE_WARNING, "warning")
    assert heard(detector, told(what, 5.0), at_s=40.0) == ()  # once an attempt
    detector.launch(2, 50.0)
    assert [found.attempt for found in heard(detector, told(what, 6.0), at_s=50.0)] == [2]


def test_slow_clocks_are_a_warning_only_when_they_last() -> None:
    detector = make()
    detector.hardware(told("throttle", 1.0, text="clocks are held down by thermal slowdown at 91 °C"), 10.0)
    assert detector.hardware_tick(309.0) == ()
    detector.hardware(told("throttle", 0.0), 309.5)
    detector.hardware(told("throttle", 1.0), 310.0)
    assert detector.hardware_tick(609.0) == ()
    (found,) = detector.hardware_tick(610.0)
    assert (found.kind, found.visible_s) == (Kind.HARDWARE_WARNING, 310.0)


@pytest.mark.parametrize(
    ("what", "severity"),
    [("machine_check", "warning"), ("memory_error", "warning"), ("pcie_error", "warning"), ("io_error", "warning"),
     ("machine_check_corrected", "info"), ("oom_kill", "info"), ("nvlink_errors", "info")],
)  # fmt: skip
def test_what_the_machine_says_is_told_a_person_or_recorded(what: HardwareWhat, severity: str) -> None:
    detector = make()
    detector.hardware(told("nvlink_errors", 1.0), 1.0)
    (found,) = heard(detector, told(what, 2.0, source="kernel_log", device=None if what != "nvlink_errors" else GPU))
    assert (found.kind, found.severity) == (Kind.HARDWARE_WARNING, severity)


def test_a_gpu_this_run_does_not_use_gives_info_only_and_explains_nothing() -> None:
    detector = make()
    detector.hardware(told("seen", used=False), 1.0)
    (found,) = heard(detector, told("xid", 79.0, source="kernel_log"))
    assert (found.severity, found.blamed_rank) == ("info", None)
    assert detector.explain(13.0) == ("", None)
    assert detector.verdict()[0] is Verdict.HEALTHY


def test_blame_by_process_then_by_place_where_every_rank_has_a_gpu_here() -> None:
    detector = make()
    detector.hardware(told("seen", rank=5, place=(1, 2)), 1.0)
    (found,) = heard(detector, told("xid", 79.0, source="kernel_log"))
    assert found.blamed_rank == 5
    for world_size, blamed in ((2, 1), (16, None), (None, None)):
        detector = make()
        if world_size is not None:
            detector.resume(receipt(world_size=world_size), (), 0.0)
        detector.hardware(told("seen", place=(1, 2)), 1.0)
        (found,) = heard(detector, told("xid", 79.0, source="kernel_log"))
        assert found.blamed_rank == blamed


def test_a_fault_that_only_a_reboot_ends_is_one_of_the_next_attempt_too() -> None:
    detector = make()
    heard(detector, told("xid", 79.0))
    detector.launch(2, 50.0)
    (again,) = detector.hardware_tick(50.0 + SETTLE_S)
    assert (again.attempt, again.retryable) == (2, False)
    assert "not mended since: Xid 79" in again.reason
    detector.hardware(told("recovery_action", 0.0), 60.0)  # the driver is content
    detector.launch(3, 70.0)
    assert detector.hardware_tick(80.0) == ()


def test_memory_is_bounded_whatever_is_told() -> None:
    detector = make()
    for number in range(5000):
        detector.hardware(told("io_error", 1.0, source="kernel_log", device=f"sd{number}"), float(number))
        detector.hardware(told("xid", float(number), source="kernel_log", text="x" * 5000), float(number))
    assert len(detector.hardware_tick(6000.0)) <= 512
    assert len(detector._recent) <= RECENT_KEPT
    assert len(detector._parts) <= 256
    assert len(detector.explain(5000.0)[0]) < 1500


def test_the_verdict_is_unknown_without_eyes_and_says_why() -> None:
    detector = make()
    assert detector.verdict() == (Verdict.UNKNOWN, "no GPU was seen yet")
    detector.hardware(told("absent", text="no NVIDIA driver: gpu faults cannot be seen", device=None), 1.0)
    assert detector.verdict() == (Verdict.UNKNOWN, "no NVIDIA driver: gpu faults cannot be seen")
    detector = make()
    detector.hardware(told("seen"), 1.0)
    assert detector.verdict()[0] is Verdict.HEALTHY
    detector.source(SourceReading("nvml", False, "silent"))
    assert detector.verdict() == (Verdict.UNKNOWN, "silent")
    detector.source(SourceReading("nvml", True, "back"))
    heard(detector, told("xid", 48.0))
    assert detector.verdict()[0] is Verdict.BREACHED
    off = DetectorBank(config(gpu_fault=GpuFaultSettings(enabled=False)), {}, {})
    assert off.verdicts()[Kind.GPU_FAULT] == (Verdict.UNKNOWN, "switched off by policy")


def test_the_table_and_the_drivers_codes_are_whole() -> None:
    assert all(xid.need >= Need.RESTART_APP for xid in XIDS.values() if xid.critical)
    assert {number for number, xid in XIDS.items() if xid.critical} >= {48, 62, 64, 74, 79, 94, 95, 119, 120, 140}
    assert not any(XIDS[number].critical for number in (13, 31, 43, 45, 63, 92))
    assert [need_of_recovery(code) for code in (0, 1, 2, 99)] == [
        Need.NOTHING, Need.RESET_GPU, Need.REBOOT_NODE, Need.REBOOT_NODE,
    ]  # fmt: skip


def test_a_crash_and_a_hang_say_what_the_hardware_said_just_before() -> None:
    died = ExitReport(1, (RankExit(0, None, 6, "record"), RankExit(1, None, 15, "record")), None)
    for wait_s, expected in ((1.0, True), (RECENT_S + 1.0, False)):
        bank = make_bank()
        bank.hardware(told("xid", 79.0, rank=1), 10.0)
        ended = bank.exit(died, finished=False, stop_requested=False, now_s=10.0 + wait_s)
        assert (f"; just before: GPU {GPU}: Xid 79" in ended.finding.reason) is expected  # type: ignore[union-attr]
    bank = make_bank()
    bank.receipt(receipt(), 1.0)
    bank.heartbeats([beat(0, 1, "forward")], 2.0)
    bank.heartbeats([beat(1, 1, "forward")], 2.0)
    bank.hardware(told("xid", 119.0, rank=1), 1195.0)
    (hung,) = bank.tick(1300.0)
    assert hung.kind is Kind.HANG
    assert "just before: GPU" in hung.reason
    assert hung.blamed_rank == 1


def test_the_senses_listen_to_the_sources_of_the_machine_only() -> None:
    bank = make_bank()
    bank.source(SourceReading("metrics", False, "gone"))
    assert bank.verdicts()[Kind.GPU_FAULT] == (Verdict.UNKNOWN, "no GPU was seen yet")
    bank.source(SourceReading("kernel_log", False, "not readable"))
    assert bank.verdicts()[Kind.GPU_FAULT] == (Verdict.UNKNOWN, "not readable")


def apart(hosts: dict[int, str], *, said_size: int | None = 2, **more: object) -> GpuFault:
    """A detector of a run on these hosts that has heard an Xid 79 of another node's agent, which sees no rank there."""
    run = watched(newest_step=42)
    run.hosts, run.rank_end = hosts, run.rank_end if said_size is None else said_size
    detector = GpuFault(GpuFaultSettings(), run)
    detector.launch(1, 0.0)
    xid = told("xid", 79.0, source="kernel_log", by_agent=True, saw_no_rank=True)
    detector.hardware(replace(xid, host="spare1", **more), 10.0)  # type: ignore[arg-type]
    return detector


def test_a_fault_where_no_rank_is_is_a_warning_and_explains_nothing() -> None:
    detector = apart({0: "vm", 1: "vm"})
    assert detector.explain(11.0) == ("", None)
    (found,) = detector.hardware_tick(10.0 + SETTLE_S)
    assert (found.kind, found.severity, found.retryable) == (Kind.HARDWARE_WARNING, "warning", True)
    assert (found.blamed_node, found.blamed_rank) == ("spare1", None)
    assert found.reason.startswith(f"GPU {GPU} on spare1, where no rank of this run is: Xid 79")
    assert "training goes on" in found.reason
    assert "it is not left out" in found.reason


@pytest.mark.parametrize(
    ("hosts", "more"),
    [
        ({0: "vm"}, {}),  # rank 1 has not told where it is
        ({}, {}),
        ({0: "vm", 1: "vm"}, {"said_size": None}),  # nobody said how many there are
        ({0: "vm", 1: "SPARE1.cluster.local"}, {}),  # one is there
        ({0: "vm", 1: "pod-1"}, {"saw_no_rank": False}),  # its agent saw one, whatever its heartbeat calls the machine
        ({0: "vm", 1: "vm"}, {"rank": 1}),
        ({0: "box", 1: "box"}, {"by_agent": False}),  # the supervisor's own machine: ranks in a container call it otherwise
    ],
)
def test_a_fault_counts_in_full_where_a_rank_may_be_there(hosts: dict[int, str], more: dict[str, object]) -> None:
    detector = apart(hosts, **more)  # type: ignore[arg-type]
    (found,) = detector.hardware_tick(10.0 + SETTLE_S)
    assert (found.kind, found.severity, found.retryable) == (Kind.GPU_FAULT, "critical", False)
    assert detector.explain(11.0)[0]


def test_a_fault_where_no_rank_was_waits_in_the_next_attempt_until_it_is_known_who_is_there() -> None:
    for now_there, kind in (("vm", Kind.HARDWARE_WARNING), ("spare1", Kind.GPU_FAULT)):
        detector = apart(hosts := {0: "vm", 1: "vm"})
        detector.hardware_tick(10.0 + SETTLE_S)
        hosts.clear()
        detector.launch(2, 50.0)
        assert detector.hardware_tick(60.0) == ()
        hosts.update({0: "vm", 1: now_there})
        (found,) = detector.hardware_tick(61.0)
        assert found.kind is kind
        assert "not mended since: Xid 79" in found.reason
