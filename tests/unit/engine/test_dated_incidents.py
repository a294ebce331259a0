"""The incident is dated by the earliest co-signal; the finding that opened it stays as it was found."""

from __future__ import annotations

from sentinel.model import facts as f
from tests.builders import BATCH, Bench


def dated(*saved: int) -> Bench:
    """The activation norm doubles at 81, the loss spikes at 101."""
    bench = Bench().launched()
    for step in range(1, 103):
        norm = (2.0 if step >= 81 else 1.0) * (1.0 + 0.01 * (step % 5))
        bench.step(step, 8.0 if step >= 101 else None, activation_norm=norm)
        if step in (saved or (50, 70, 90)):
            bench.checkpoint(step)
    return bench


def test_onset_anchor_and_rollback_go_back_to_the_first_signal() -> None:
    bench = dated()
    incident = bench.incident
    assert (incident.onset_step, incident.limit_step) == (81, 81)
    assert incident.reason.endswith("onset 81 by activation_norm, loss followed at 101")
    assert incident.samples is not None
    assert incident.samples.onset == 80 * BATCH
    assert incident.band is not None
    assert abs(incident.band.median - 2.0) < 0.02
    bench.steps(103, 110, loss=8.0)
    assert bench.resumed_from == 50, "20 steps before step 81, where 90 would have done for step 101"


def test_the_finding_and_its_key_stay_and_a_restart_finds_nothing_new() -> None:
    bench = dated()
    recorded = bench.of(f.FindingRecorded)
    assert [fact.finding.onset_step for fact in recorded] == [101]
    bench.die()
    assert bench.of(f.FindingRecorded) == recorded
    assert [i.onset_step for i in bench.state.incidents] == [81]


def test_a_date_before_every_checkpoint_does_not_throw_the_run_away() -> None:
    bench = dated(90, 95)
    assert bench.incident.onset_step == 91
    assert bench.incident.reason.endswith("taken as 91, because no checkpoint is older than step 90")
    bench.steps(103, 110, loss=8.0)
    assert bench.resumed_from == 90


def test_without_any_checkpoint_the_date_stands() -> None:
    assert dated(102).incident.onset_step == 81
