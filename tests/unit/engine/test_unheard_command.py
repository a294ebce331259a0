"""A command of which nothing was ever heard is not called hung: it may be training."""

from __future__ import annotations

from sentinel.model import facts as f
from sentinel.model.findings import Kind
from tests.builders import Bench


def test_hours_of_silence_of_an_unknown_command_end_nothing() -> None:
    bench = Bench().launched(receipt=False)
    for _ in range(40):
        bench.tick(100.0)
    assert not bench.of(f.IncidentOpened)
    assert not bench.state.ended
    (found,) = bench.of(f.FindingRecorded)
    assert "whether it hangs is not known" in found.reason


def test_one_that_has_spoken_before_is() -> None:
    bench = Bench().launched().steps(1, 60).checkpoint(50).exits(signal=9).launched(receipt=False)
    for _ in range(40):
        bench.tick(100.0)
    assert bench.of(f.IncidentOpened)[-1].incident.kind is Kind.HANG
