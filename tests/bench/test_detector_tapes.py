"""A log that is played again to one detector tells what a whole bank would have found."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from sentinel.detectors import bank as bank_module
from sentinel.detectors.registry import DETECTORS, MAKER_OF
from sentinel.engine.detector_bank import build_detector_bank
from sentinel.model.findings import Finding
from sentinel.model.readings import StepReading
from sentinel.policy.schema import Policy
from tests.bench.detector_constants import CONSTANTS, SEPARATIONS, Constant, detector_of, setting, title
from tests.bench.detector_tapes import ASK_FOR_SPIKES, Tape, findings_with, record
from tests.sim.kit import policy_named
from tests.unit.detectors.bank_kit import row

SHORT = Constant("window_steps", "plateau", (400,))  # for so few rows
ALL = (*CONSTANTS, *SEPARATIONS, SHORT)


def eventful_rows() -> Iterator[StepReading]:
    """Hard rows, spikes, a climb, a jump for good, NaN, a loss scale that halves, a rate that returns, a loss near zero."""
    dice = random.Random(20261127)
    for step in range(1, 1801):
        loss = 2.2 + 2.0 * math.exp(-step / 300) + 0.03 * dice.gauss(0.0, 1.0)
        norm = 0.4 * dice.lognormvariate(0.0, 0.2)
        loss += 0.4 * (step in (420, 480, 482)) + 1.0 * (540 <= step < 552) + 0.003 * max(0, min(step, 850) - 650)
        loss += 0.8 * (step >= 1000) - 1.6 * (step >= 1500)
        norm *= 4.0 if 552 <= step < 556 else 1.0
        if step in (1200, 1201, 1202):
            loss = math.nan
        scale = 65536.0 / 2 ** (max(0, min(step, 1290) - 1250) // 8)
        yield row(step, loss=loss, grad_norm=norm, loss_scale=scale, lr=3e-4 * (1.0 - (step % 700) / 800))


ROWS = list(eventful_rows())


@pytest.fixture(scope="module")
def policy() -> Policy:
    return policy_named("default")


@pytest.fixture(scope="module")
def tape(policy: Policy) -> Tape:
    return record(ROWS, policy)


def by_a_bank(policy: Policy) -> list[Finding]:
    bank = build_detector_bank(policy)
    bank.begin_attempt(1, 0.0)
    return [finding for reading in ROWS for finding in bank.step(reading, reading.time_s)]


@pytest.mark.parametrize("name", ["spike rule hold", "spike NORM_ROWS", "spike level_steps", "drift z", "divergence ratio"])
def test_another_constant_of_one_detector(name: str, policy: Policy, tape: Tape) -> None:
    constant = next(one for one in ALL if title(one) == name)
    with setting(policy, (constant, constant.values[0])) as changed:
        assert Counter(findings_with(tape, changed, {detector_of(constant)})) == Counter(by_a_bank(changed))


def test_constants_of_all_detectors_at_once(policy: Policy, tape: Tape) -> None:
    """Each of them finds something, so that each would show what it was not told."""
    with setting(policy, *((constant, constant.values[0]) for constant in ALL)) as changed:
        anew = by_a_bank(changed)
        assert Counter(findings_with(tape, changed, {detector_of(one) for one in ALL})) == Counter(anew)
    assert {detector_of(one) for one in ALL} <= {MAKER_OF[finding.kind].name for finding in anew}


def test_slow_detectors_speak_where_a_spike_fires_no_more(policy: Policy, tape: Tape) -> None:
    limit = next(one for one in CONSTANTS if title(one) == "spike z")
    with setting(policy, (limit, 1e6)) as changed:
        found = findings_with(tape, changed, {"spike"})
        assert Counter(found) == Counter(by_a_bank(changed))
    slow = [finding for finding in found if MAKER_OF[finding.kind].name in ASK_FOR_SPIKES]
    assert Counter(slow) != Counter(finding for name in ASK_FOR_SPIKES for finding in tape.found.get(name, ()))


def test_a_recording_leaves_the_registry_as_it_was(policy: Policy) -> None:
    record(ROWS[:10], policy)
    assert bank_module.DETECTORS is DETECTORS
