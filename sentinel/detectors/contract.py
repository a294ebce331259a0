"""What a detector is, and the settings it reads.

A detector is pure: it is told what was read and when it was heard, keeps a bounded memory, and answers with findings. It
judges before it learns, says `unknown` when it cannot judge, and is cut at every launch. Read again from its first line,
the same stream gives the same findings with the same keys, whatever the supervisor lived through in between.

Settings are structural: policy's models have these attributes, and detectors stand below policy and do not import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Phase, StepReading


class Detector(Protocol):
    """One kind of failure, watched."""

    @property
    def kind(self) -> Kind: ...

    def begin(self, attempt: int) -> None:
        """Another attempt, or a relaunch inside it: forget what belonged to the old one."""
        ...

    def verdict(self) -> tuple[Verdict, str]:
        """How it stands now, and why."""
        ...


class StepDetector(Detector, Protocol):
    """A detector fed by optimizer steps, each once and in order. `covered` is how many steps the reading stands for."""

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]: ...


class NonFiniteSettings(Protocol):
    @property
    def enabled(self) -> bool: ...
    @property
    def gated_in_a_row(self) -> int: ...


class SpikeSettings(Protocol):
    @property
    def enabled(self) -> bool: ...
    @property
    def metrics(self) -> Sequence[str]: ...
    @property
    def z(self) -> float: ...
    @property
    def relative(self) -> float: ...
    @property
    def window_steps(self) -> int: ...
    @property
    def level_steps(self) -> int: ...
    @property
    def min_history_steps(self) -> int: ...


class HangSettings(Protocol):
    @property
    def enabled(self) -> bool: ...
    @property
    def after_step_times(self) -> float: ...
    @property
    def floor_s(self) -> float: ...
    @property
    def phases(self) -> Mapping[Phase, float]: ...


class DetectorSettings(Protocol):
    """`spec.detectors` of a policy."""

    @property
    def non_finite(self) -> NonFiniteSettings: ...
    @property
    def spike(self) -> SpikeSettings: ...
    @property
    def hang(self) -> HangSettings: ...
