"""detectors.gpu_fault: its defaults, its words, and what is refused with a remedy."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sentinel.detectors.gpu_fault import GpuFaultSettings
from sentinel.policy.schema import Detectors
from sentinel.telemetry.hardware import open_hardware


def read(**words: object) -> GpuFaultSettings:
    settings: GpuFaultSettings = Detectors.model_validate({"gpu_fault": words}).gpu_fault
    return settings


def test_defaults_and_words() -> None:
    settings = read()
    assert (settings.enabled, settings.nvml, settings.kernel_log, settings.throttle_s) == (True, True, "/dev/kmsg", 300.0)
    assert read(nvml="off", kernel_log="off", throttle="1m") == read(nvml=False, kernel_log="off", throttle="60s")
    assert not Detectors.model_validate({"gpu_fault": "off"}).gpu_fault.enabled


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"nvml": "maybe"}, "'maybe' is neither on nor off"),
        ({"nvml": {}}, "is neither on nor off"),
        ({"kernel_log": "kern.log"}, "'kern.log' is not where a kernel log can be read"),
        ({"kernel_log": 3}, "3 is not where a kernel log can be read"),
        ({"throttle": 5}, "5 has no unit"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        read(**words)


def test_what_is_switched_off_is_not_opened() -> None:
    for settings in (read(enabled=False), read(nvml="off", kernel_log="off")):
        hardware = open_hardware(settings)
        assert (hardware.nvml, hardware.kernel_log) == (None, None)
        assert hardware.poll(0.0) == []
        assert not hardware.has_more
        hardware.close()
    hardware = open_hardware(read(kernel_log="/somewhere/kern.log"))
    assert hardware.kernel_log is not None
    assert (hardware.kernel_log.path, hardware.nvml is not None) == ("/somewhere/kern.log", True)
