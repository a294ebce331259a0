"""Whatever the kernel, the driver or a damaged helper says: nothing raises, memory and texts stay bounded, keys are stable."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from sentinel.detectors.gpu_fault import GpuFault, GpuFaultSettings
from sentinel.model.findings import Kind
from sentinel.model.readings import HardwareReading, HardwareWhat
from sentinel.telemetry.gpu_sample import normalise_pci, read_sample, tell_values
from sentinel.telemetry.kernel_lines import read_kernel_line
from sentinel.telemetry.kernel_log import read_record
from sentinel.telemetry.nvml import NvmlSource
from tests.unit.detectors.bank_kit import watched

WORDS = st.sampled_from(
    ["NVRM: Xid (PCI:0000:3b:00): ", "79", "154, ", "GPU recovery action changed from 0x0 (None) to 0x", "[Hardware Error]: ",
     "mce: ", "EDAC MC0: ", "kernel: ", "[1.0] ", "<3>", "I/O error, dev ", "Machine Check", "PCIe Bus Error: severity=",
     "\0", "\n"]
)  # fmt: skip
LINES = st.lists(WORDS | st.text(max_size=20), max_size=12).map("".join)
DEVICES = st.none() | st.sampled_from(["0000:3b:00", "0000:3c:00", "sda"]) | st.text(max_size=10)
READINGS = st.builds(
    HardwareReading,
    source=st.sampled_from(["nvml", "kernel_log"]) | st.text(max_size=5),
    what=st.sampled_from(get_args(HardwareWhat)),
    text=st.text(max_size=400),
    host=st.text(max_size=5),
    device=DEVICES,
    value=st.none() | st.floats() | st.sampled_from([0.0, 1.0, 13.0, 79.0, 94.0, 119.0]),
    rank=st.none() | st.integers(0, 9),
    place=st.none() | st.tuples(st.integers(0, 8), st.integers(1, 8)),
    used=st.booleans(),
)


@given(LINES)
def test_any_line_of_a_kernel_log_is_read_or_passed_over(line: str) -> None:
    word = read_kernel_line(line)
    assert word is None or (len(word.text) <= 400 and word.text.isprintable() and len(word.device or "") <= 200)


@given(st.binary(max_size=200) | LINES.map(lambda line: b"3,1,2,-;" + line.encode("utf-8", "surrogateescape")))
def test_any_record_of_the_kernel_is_read_or_passed_over(record: bytes) -> None:
    message = read_record(record)
    assert message is None or "\n" not in message


@given(st.lists(st.tuples(st.floats(0, 100), READINGS), max_size=40))
def test_the_detector_never_raises_and_says_each_thing_once_an_attempt(told: list[tuple[float, HardwareReading]]) -> None:
    detector = GpuFault(GpuFaultSettings(), watched(newest_step=42))
    now_s, found = 0.0, []
    detector.launch(1, now_s)
    for after_s, reading in told:
        now_s += after_s
        detector.hardware(reading, now_s)
        found += detector.hardware_tick(now_s)
        detector.verdict()
        assert len(detector.explain(now_s)[0]) < 1500
    found += detector.hardware_tick(now_s + 1000.0)
    keys = [finding.key for finding in found]
    assert len(keys) == len(set(keys))
    assert all(len(finding.reason) < 1500 and finding.attempt == 1 for finding in found)
    assert all(finding.retryable for finding in found if finding.kind is Kind.HARDWARE_WARNING or finding.severity == "info")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
        "kind", "gpus", "index", "bus", "lost", "throttle", "pids", "recovery_action", "xid", "reason", "ecc_uncorrected", "name",
    ]), inner, max_size=6),
    max_leaves=15,
)  # fmt: skip


@given(JSON)
def test_any_object_is_a_sample_or_none(told: object) -> None:
    sample = read_sample(told)
    if sample is not None:
        tell_values(sample)
        assert all(isinstance(trouble, str) for trouble in sample.troubles)


@given(st.sampled_from(["sample", "xid", "absent", "failed", "hello"]), JSON, st.binary(max_size=40))
def test_any_line_of_a_helper_is_survived(kind: str, told: object, junk: bytes) -> None:
    import json

    source = NvmlSource(None, signs=())
    for line in (junk, json.dumps(told).encode(), json.dumps((told if isinstance(told, dict) else {}) | {"kind": kind}).encode()):
        source._take(line)


@given(st.text(max_size=40))
def test_a_pci_name_is_its_own_normal_form(text: str) -> None:
    once = normalise_pci(text)
    assert normalise_pci(once) == once
