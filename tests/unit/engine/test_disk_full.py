"""A disk that fills up, in the engine: who is called, when that is taken back, and that nothing else is done."""

from __future__ import annotations

from sentinel.detectors.disk_full import CALM_S, FILLING, KIND
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.disks import DiskReading, SavedCheckpoint
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import SourceReading
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from tests.builders import Bench

GIB = 1 << 30


def training(policy: str = "default") -> Bench:
    bench = Bench(load_policy(shipped_policy_path(policy))).launched()
    for step in (10, 20, 30, 40):
        bench.steps(step - 9, step).checkpoint(step)
    return bench.steps(41, 45)


def disk(free_gib: float, saves: int = 4, interval_s: float = 3600.0) -> DiskReading:
    there = tuple(SavedCheckpoint(10 * n, 10 * GIB, 9, (saves - n) * interval_s) for n in range(1, saves + 1))
    return DiskReading("checkpoints", "/ckpt", int(free_gib * GIB), 10**13, 10**6, there, saves)


def looked(bench: Bench, free_gib: float, for_s: float = 0.0) -> Bench:
    for _ in range(1 + int(for_s // 30)):
        bench.tell(disk(free_gib))
        bench.tick(30.0 if for_s else 1.0)
    return bench


def pages(bench: Bench) -> list[tuple[str, str]]:
    return [(page.stage, page.severity) for page in bench.decided(a.SendPage)]


def test_a_disk_that_is_full_in_hours_calls_a_person_and_changes_nothing() -> None:
    bench = looked(training(), 55)
    assert (bench.incident.kind, bench.incident.state, bench.incident.severity) == (FILLING, IncidentState.EXHAUSTED, "warning")
    assert "55 GiB are free on /ckpt (checkpoints); a checkpoint takes 10 GiB, one every 60 min; in 6" in bench.incident.reason
    assert pages(bench) == [("trigger", "warning")]
    assert bench.state.plan is None
    assert not bench.state.giving_up


def test_a_save_that_does_not_fit_is_critical() -> None:
    bench = looked(training(), 9)
    assert (bench.incident.kind, bench.incident.severity) == (KIND, "critical")
    assert pages(bench) == [("trigger", "critical")]
    assert bench.state.attempt is not None
    assert not bench.state.attempt.is_over


def test_the_page_is_taken_back_by_measurement_and_by_nothing_else() -> None:
    bench = looked(training(), 55)
    bench.tell(SourceReading("disks", False, "no answer"))
    for _ in range(10):
        bench.tick(60.0)
    assert bench.of(f.PageResolved) == []
    bench.tell(SourceReading("disks", True, "they answer"))
    looked(bench, 55, 600.0)
    assert bench.of(f.PageResolved) == []
    looked(bench, 900, CALM_S + 60.0)
    (taken_back,) = bench.of(f.PageResolved)
    assert taken_back.reason.startswith("there is room again: 900 GiB are free on /ckpt")
    assert not bench.state.open_pages


def test_another_supervisor_takes_it_back_too_and_says_it_once() -> None:
    bench = looked(training(), 55)
    bench.die()
    looked(bench, 55, 120.0)
    assert [incident.kind for incident in bench.state.incidents] == [FILLING]
    looked(bench, 900, CALM_S + 60.0)
    assert len(bench.of(f.PageResolved)) == 1
    bench.steps(46, 50)
    looked(bench, 55, 400.0)  # what was over in between is news, also to a supervisor that has just begun
    assert [incident.kind for incident in bench.state.incidents] == [FILLING, FILLING]


def test_a_policy_that_switches_it_off_is_told_nothing() -> None:
    policy = load_policy(shipped_policy_path("default"))
    detectors = policy.spec.detectors.model_copy(update={"disk_full": type(policy.spec.detectors.disk_full)(enabled=False)})
    spec = policy.spec.model_copy(update={"detectors": detectors})
    bench = Bench(policy.model_copy(update={"spec": spec})).launched()
    bench.steps(1, 10)
    assert looked(bench, 1).state.incidents == ()
