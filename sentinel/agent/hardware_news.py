"""What of this node's hardware is news: events, and states and counters that have changed since the agent began.

A node with eight GPUs has some sixty values that are well. They would be most of its report, and 2,048 reports of them most of
what a supervisor reads. So a value is told when it has changed, behind the value that it had before; one that is bad from the
beginning is told at once. Each reading has a number, and the newest are kept.
"""

from __future__ import annotations

from collections import deque

from sentinel.model.agents import HARDWARE_EVENTS, NodeHardware
from sentinel.model.readings import HardwareReading, HardwareWhat, SourceReading
from sentinel.run_files.agent_files import HARDWARE_MAX
from sentinel.telemetry.hardware import Hardware

OLD_FAULTS: frozenset[HardwareWhat] = frozenset(
    ("gpu_lost", "recovery_action", "ecc_uncorrected", "row_remap_failure", "throttle")
)

_Part = tuple[str, str, str | None]  # source, what, device


class HardwareNews:
    """Over the sources of one node. `blind`: why a source sees nothing, by its name."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._before: dict[_Part, HardwareReading] = {}  # as last heard, and not told
        self._is_open: set[_Part] = set()  # what has changed once: from then on all of it is told
        self._places: dict[str | None, HardwareReading] = {}  # of a GPU, not told
        self._kept: deque[tuple[int, float, HardwareReading]] = deque(maxlen=HARDWARE_MAX)
        self._number = 0
        self.blind: dict[str, str] = {}

    def turn(self, now_s: float) -> None:
        """Hear what is new."""
        for reading in self._hardware.poll(now_s):
            if isinstance(reading, SourceReading):
                self._hear(reading)
            elif isinstance(reading, HardwareReading):
                self._take(now_s, reading)

    def report(self, now_s: float) -> tuple[NodeHardware, ...]:
        return tuple(NodeHardware(number, max(0.0, now_s - at_s), reading) for number, at_s, reading in self._kept)

    def close(self) -> None:
        self._hardware.close()

    def _hear(self, reading: SourceReading) -> None:
        if not reading.ok:
            self.blind[reading.source] = reading.reason
        elif not reading.remark:
            self.blind.pop(reading.source, None)

    def _take(self, now_s: float, reading: HardwareReading) -> None:
        if reading.what == "absent":
            self.blind[reading.source] = reading.text
        elif reading.what == "seen":
            self._places[reading.device] = reading
        elif reading.what in HARDWARE_EVENTS:
            self._tell(now_s, reading)
        else:
            part = (reading.source, reading.what, reading.device)
            before = self._before.pop(part, None)
            if part in self._is_open:
                self._tell(now_s, reading)
            elif before is not None or (reading.value and reading.what in OLD_FAULTS):
                self._is_open.add(part)
                for one in (before, reading):
                    if one is not None:
                        self._tell(now_s, one)
            else:
                self._before[part] = reading

    def _tell(self, now_s: float, reading: HardwareReading) -> None:
        place = self._places.pop(reading.device, None)
        for one in (place, reading):
            if one is not None:
                self._number += 1
                self._kept.append((self._number, now_s, one))
