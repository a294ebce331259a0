"""A run behind its reference: a person is told, training goes on, and no checkpoint is condemned."""

from __future__ import annotations

from sentinel.detectors.reference import Reference
from sentinel.engine.detector_bank import build_detector_bank
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from tests.builders import Bench

STEPS = tuple(float(step) for step in range(1, 1001, 10))


def test_somebody_is_told_and_training_goes_on() -> None:
    policy = load_policy(shipped_policy_path("default"))
    bench = Bench(policy)
    bench.engine.detectors = build_detector_bank(policy, Reference("small", STEPS, (1.2,) * len(STEPS)))
    bench.done("start/1").receipt().steps(1, 250).checkpoint(250).steps(251, 500)
    (incident,) = bench.state.incidents
    assert (incident.kind, incident.severity, incident.alert) == ("behind_reference", "warning", "BehindReference")
    (page,) = bench.decided(a.SendPage)
    assert "small had 1.2" in page.text
    assert "steps" in page.text
    assert bench.decided(a.KillAttempt) == []
    assert not bench.of(f.CheckpointCondemned)
    assert not bench.state.ended
