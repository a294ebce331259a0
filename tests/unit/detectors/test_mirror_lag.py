"""mirror_lag: what the mirror is not known to hold, by part; once told, and passed when all parts have caught up."""

from __future__ import annotations

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.mirror_lag import KIND
from sentinel.model.findings import Finding, Verdict
from sentinel.model.readings import MirrorPart, MirrorReading
from tests.unit.detectors.bank_kit import make_bank


def tell(bank: DetectorBank, now_s: float, part: MirrorPart, behind_s: float, trouble: str = "") -> list[Finding]:
    every_s = {"journal": 60.0, "streams": 600.0}.get(part, 0.0)
    bank.mirror(MirrorReading(part, "s3://bucket/runs", behind_s, every_s, trouble))
    return [finding for finding in bank.hardware_tick(now_s) if finding.kind is KIND]


@pytest.mark.parametrize(
    ("part", "most_s"), [("journal", 1860.0), ("streams", 2400.0), ("checkpoints", 21600.0)]
)
def test_a_part_is_late_beyond_its_own_rhythm_and_the_policys_limit(part: MirrorPart, most_s: float) -> None:
    bank = make_bank()
    assert tell(bank, 1.0, part, most_s) == []
    (found,) = tell(bank, 2.0, part, most_s + 1, "the bucket is gone")
    assert (found.severity, found.value) == ("warning", most_s + 1)
    assert part in found.reason
    assert "s3://bucket/runs" in found.reason
    assert "the bucket is gone" in found.reason
    assert bank.verdicts()[KIND][0] is Verdict.BREACHED


def test_it_is_told_once_until_every_part_has_caught_up() -> None:
    bank = make_bank()
    assert len(tell(bank, 1.0, "journal", 5000.0)) == 1
    assert tell(bank, 2.0, "journal", 9000.0) == tell(bank, 3.0, "streams", 9000.0) == []
    assert tell(bank, 4.0, "journal", 3.0) == []
    assert bank.over(KIND, "journal") == ""
    assert tell(bank, 5.0, "streams", 3.0) == []
    assert bank.over(KIND, "journal") == "the mirror has caught up"
    assert len(tell(bank, 6.0, "streams", 9000.0)) == 1


def test_without_a_mirror_nothing_is_known_and_nothing_found() -> None:
    bank = make_bank()
    assert bank.hardware_tick(1e6) == ()
    assert bank.verdicts()[KIND] == (Verdict.UNKNOWN, "the run has no mirror")
    assert bank.over(KIND, "journal") == ""


def test_between_two_attempts_nobody_is_told_and_the_next_one_is() -> None:
    bank = make_bank()
    bank.end_attempt()
    assert tell(bank, 1.0, "journal", 9000.0) == []
    bank.begin_attempt(2, 2.0)
    assert len(tell(bank, 3.0, "journal", 9000.0)) == 1
