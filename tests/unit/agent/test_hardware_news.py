"""What of a node's hardware is told: events, and what has changed; not the sixty values that are well."""

from __future__ import annotations

from dataclasses import replace

from sentinel.agent.hardware_news import HardwareNews
from sentinel.model.readings import HardwareReading, HardwareWhat, SourceReading
from sentinel.run_files.agent_files import HARDWARE_MAX
from sentinel.telemetry.hardware import Hardware
from tests.unit.agent.agent_kit import Told

GPU = "0000:3b:00"


def reading(what: HardwareWhat, value: float | None = None, source: str = "nvml", device: str | None = GPU) -> HardwareReading:
    return HardwareReading(source, what, what, "n2", device, value)


def news() -> tuple[HardwareNews, Told]:
    source = Told()
    return HardwareNews(Hardware(None, source)), source  # type: ignore[arg-type]


def heard(subject: HardwareNews, source: Told, *readings: object, now_s: float = 1.0) -> list[tuple[str, float | None]]:
    """What is new in its report."""
    before = {one.number for one in subject.report(now_s)}
    source.next = list(readings)  # type: ignore[arg-type]
    subject.turn(now_s)
    return [(one.reading.what, one.reading.value) for one in subject.report(now_s) if one.number not in before]


def test_values_that_are_well_are_not_told_and_one_that_changes_is_behind_what_it_was() -> None:
    subject, source = news()
    assert heard(subject, source, reading("seen"), reading("ecc_uncorrected", 0), reading("nvlink_errors", 3)) == []
    changed = [("seen", None), ("ecc_uncorrected", 0), ("ecc_uncorrected", 2)]
    assert heard(subject, source, reading("ecc_uncorrected", 2)) == changed
    assert heard(subject, source, reading("ecc_uncorrected", 3)) == [("ecc_uncorrected", 3)]
    assert heard(subject, source, reading("nvlink_errors", 4)) == [("nvlink_errors", 3), ("nvlink_errors", 4)]


def test_what_is_bad_from_the_beginning_is_told_at_once() -> None:
    subject, source = news()
    assert heard(subject, source, reading("seen"), reading("gpu_lost", 1.0)) == [("seen", None), ("gpu_lost", 1.0)]
    assert heard(subject, source, reading("gpu_lost", 0.0)) == [("gpu_lost", 0.0)]


def test_an_event_is_told_each_time_with_its_age_and_the_newest_are_kept() -> None:
    subject, source = news()
    assert heard(subject, source, reading("xid", 79, "kernel_log"), now_s=5.0) == [("xid", 79)]
    assert [one.age_s for one in subject.report(7.5)] == [2.5]
    many = [replace(reading("xid", float(number)), device=None) for number in range(200)]
    heard(subject, source, *many)
    kept = subject.report(1.0)
    assert (len(kept), kept[-1].number, kept[-1].reading.value) == (HARDWARE_MAX, 201, 199.0)


def test_a_source_that_sees_nothing_is_told_until_it_sees() -> None:
    subject, source = news()
    heard(subject, source, HardwareReading("nvml", "absent", "no driver"), SourceReading("kernel_log", ok=False, reason="gone"))
    assert subject.blind == {"nvml": "no driver", "kernel_log": "gone"}
    heard(subject, source, SourceReading("kernel_log", ok=True, reason="cut", remark=True))
    assert "kernel_log" in subject.blind
    heard(subject, source, SourceReading("kernel_log", ok=True, reason="it can be read"))
    assert subject.blind == {"nvml": "no driver"}
