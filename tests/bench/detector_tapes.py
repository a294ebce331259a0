"""What each detector was told of a log, recorded once and played again to detectors with other constants.

A bank makes series, blocks, pace and learning rates of every row, and a constant of one detector moves none of them. So one bank
reads a log as shipped, and notes what it told the detectors of ROOMS. Under another constant only the detector that has it is
built anew and told the same. Of what others found, a detector knows one thing: drift and divergence ask whether a spike fires.
They are told again where spikes fired in other rows. All other findings are those of the shipped policy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sentinel.detectors import bank as bank_module
from sentinel.detectors.bank import LOSS
from sentinel.detectors.contract import CALM_ROWS, Detector, WatchedRun
from sentinel.detectors.registry import MAKER_OF, DetectorRow
from sentinel.engine.detector_bank import build_detector_bank
from sentinel.model.findings import Finding
from sentinel.model.readings import StepReading
from sentinel.policy.schema import Policy

SPIKE = "spike"
ASK_FOR_SPIKES = ("drift", "divergence")
ROOMS = (SPIKE, *ASK_FOR_SPIKES, "loss_scale", "too_good", "plateau", "non_finite")
CALLS = ("begin", "change_settings", "step", "block")


class Told(NamedTuple):
    """One call of a detector. `row`: how many rows were judged for spikes before; the rest is what was known of the rate."""

    call: str
    args: tuple[Any, ...]
    row: int
    rate_rises: bool
    level_at_rate: float | None


@dataclass(frozen=True)
class Tape:
    """One log under the shipped policy. `told`, `found`: by a detector's name. `calm`: before the first row and after each, the
    rows since a spike fired; 0 while one does."""

    told: dict[str, list[Told]]
    found: dict[str, list[Finding]]
    calm: list[int]


def record(rows: Sequence[StepReading], policy: Policy) -> Tape:
    """Read a log with a whole bank. The policy must not switch off any of ROOMS."""
    told: dict[str, list[Told]] = {name: [] for name in ROOMS}
    calm: list[int] = [CALM_ROWS]

    def note(name: str, detector: Detector, run: WatchedRun) -> None:
        for call in CALLS if name in ROOMS else ():
            setattr(detector, call, _noting(told[name], call, getattr(detector, call), run, calm))
        if name == SPIKE:
            detector.step = _counting(detector.step, run, calm)

    with _seen_when_built(note):
        bank = build_detector_bank(policy)
    bank.begin_attempt(1, 0.0)
    found: dict[str, list[Finding]] = {}
    for reading in rows:
        for finding in bank.step(reading, reading.time_s):
            found.setdefault(MAKER_OF[finding.kind].name, []).append(finding)
    return Tape(told, found, calm)


def findings_with(tape: Tape, policy: Policy, changed: Collection[str]) -> list[Finding]:
    """What a bank of this policy finds in the log of the tape, in no order. `changed`: the detectors of ROOMS whose settings are
    others than those of the policy it was recorded with."""
    assert set(changed) <= set(ROOMS), changed
    built: dict[str, tuple[Detector, WatchedRun]] = {}
    with _seen_when_built(lambda name, detector, run: built.update({name: (detector, run)})):
        build_detector_bank(policy)
    anew, calm, found = set(changed), tape.calm, dict(tape.found)
    if SPIKE in anew:
        found[SPIKE], calm = _play_spikes(tape, *built[SPIKE])
        if calm != tape.calm:
            anew.update(ASK_FOR_SPIKES)
    for name in anew - {SPIKE}:
        found[name] = _play(tape.told[name], *built[name], calm)
    return [finding for some in found.values() for finding in some]


def _play_spikes(tape: Tape, detector: Detector, run: WatchedRun) -> tuple[list[Finding], list[int]]:
    found: list[Finding] = []
    calm = [CALM_ROWS]
    for call, args, _, run.rate_rises, run.level_at_rate in tape.told[SPIKE]:
        if call == "step":
            found += detector.step(*args)
            calm.append(run.calm_rows)
        else:
            getattr(detector, call)(*args)
    return found, calm


def _play(told: Sequence[Told], detector: Detector, run: WatchedRun, calm: Sequence[int]) -> list[Finding]:
    found: list[Finding] = []
    run.loss_blocks.clear()  # another detector of the same bank may have been played
    for call, args, row, run.rate_rises, run.level_at_rate in told:
        run.calm_rows, run.is_spiking = calm[row], calm[row] == 0
        if call == "block" and args[0] == LOSS:
            run.loss_blocks.add(args[1])  # the bank does, before its readers
        found += getattr(detector, call)(*args) or ()
    return found


def _noting(told: list[Told], call: str, real: Callable[..., Any], run: WatchedRun, calm: Sequence[int]) -> Callable[..., Any]:
    def noted(*args: Any) -> Any:
        told.append(Told(call, args, len(calm) - 1, run.rate_rises, run.level_at_rate))
        return real(*args)

    return noted


def _counting(real: Callable[..., Any], run: WatchedRun, calm: list[int]) -> Callable[..., Any]:
    def counted(*args: Any) -> Any:
        found = real(*args)
        calm.append(run.calm_rows)
        return found

    return counted


@contextmanager
def _seen_when_built(look: Callable[[str, Detector, WatchedRun], None]) -> Iterator[None]:
    """Banks built meanwhile show each of their detectors, before any call but its constructor's."""
    rows = bank_module.DETECTORS
    bank_module.DETECTORS = tuple(_shown(row, look) for row in rows)
    try:
        yield
    finally:
        bank_module.DETECTORS = rows


def _shown(row: DetectorRow, look: Callable[[str, Detector, WatchedRun], None]) -> DetectorRow:
    real = row.build
    if real is None:
        return row

    def build(settings: Any, run: WatchedRun) -> Detector | None:
        detector = real(settings, run)
        if detector is not None:
            look(row.name, detector, run)
        return detector

    return replace(row, build=build)
