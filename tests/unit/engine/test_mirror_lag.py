"""A mirror that lags: a person is told and training goes on; the page is taken back, also by a later supervisor."""

from __future__ import annotations

from sentinel.detectors.mirror_lag import KIND
from sentinel.model import facts as f
from sentinel.model.readings import MirrorReading
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from tests.builders import Bench


def late(behind_s: float = 5000.0, trouble: str = "no space left") -> MirrorReading:
    return MirrorReading("journal", "/backup", behind_s, 60.0, trouble)


def told() -> Bench:
    bench = Bench(load_policy(shipped_policy_path("default"))).launched()
    bench.steps(1, 30)
    bench.tell(late())
    bench.tick()
    return bench


def test_a_person_is_told_and_training_goes_on() -> None:
    bench = told()
    assert [incident.kind for incident in bench.state.incidents] == [KIND]
    assert bench.incident.page is not None
    assert "no space left" in bench.incident.page.text
    assert bench.state.plan is None
    assert not bench.state.giving_up
    bench.tick()
    assert len(bench.state.incidents) == 1


def test_the_page_is_taken_back_when_the_mirror_has_caught_up() -> None:
    bench = told()
    bench.tell(late(3.0, ""))
    bench.tick()
    assert [fact.reason for fact in bench.of(f.PageResolved)] == ["the mirror has caught up"]
    bench.tick()
    assert len(bench.of(f.PageResolved)) == 1


def test_a_later_supervisor_neither_tells_it_again_nor_forgets_to_take_it_back() -> None:
    """Whichever part is the furthest behind by then."""
    bench = told().die()
    bench.tell(late())
    bench.tell(MirrorReading("streams", "/backup", 9000.0, 600.0))
    bench.tick()
    assert len(bench.state.incidents) == 1
    assert bench.of(f.PageResolved) == []
    bench.tell(late(1.0, ""))
    bench.tell(MirrorReading("streams", "/backup", 1.0, 600.0))
    bench.tick()
    assert len(bench.of(f.PageResolved)) == 1


def test_secrets_in_what_a_service_says_do_not_reach_the_journal() -> None:
    bench = Bench(load_policy(shipped_policy_path("default"))).launched()
    bench.steps(1, 5)
    bench.tell(late(trouble="403 for https://ada:hunter2hunter2@host/x"))
    bench.tick()
    assert "hunter2hunter2" not in repr(bench.facts)
