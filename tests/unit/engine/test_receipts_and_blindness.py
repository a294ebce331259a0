"""The trainer's proof of what is in force, and what a supervisor that cannot see may not conclude."""

from __future__ import annotations

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import Alive, NotStarted, Orphaned, Unseen
from sentinel.model.readings import SourceReading
from tests.builders import Bench


def rolled_back() -> Bench:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    return bench.launched(receipt=False)


def test_a_receipt_that_says_what_was_asked_is_no_incident() -> None:
    assert len(rolled_back().receipt().state.incidents) == 1


def test_a_skip_list_the_trainer_does_not_have_is_an_incident_and_a_page_not_a_relaunch() -> None:
    bench = rolled_back().receipt(skip=[])
    assert bench.incident.kind == "override_mismatch"
    assert "not in the trainer's skip list" in bench.incident.reason
    assert bench.state.giving_up == "stop_now"
    assert bench.decided(a.SendPage)


def test_a_mismatch_is_found_once_however_often_its_receipt_is_read() -> None:
    bench = rolled_back().receipt(skip=[])
    bench.die().die()
    assert len([i for i in bench.state.incidents if i.kind == "override_mismatch"]) == 1
    assert len(bench.of(f.ReceiptSeen)) == 2


def test_a_change_the_trainer_refuses_is_an_incident() -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.note("override_refused", 20, id="ov-1", reason="cannot change live")
    assert "override refused: cannot change live" in bench.incident.reason


def test_a_refusal_of_something_older_is_nothing() -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.note("override_refused", 20, id="ov-0", reason="no")
    assert not bench.state.incidents


@pytest.mark.parametrize("view", [NotStarted(1), Alive(1, 5, (6,)), Unseen(1, "no /proc")])
def test_unknown_is_not_dead(view: object) -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    before = len(bench.facts)
    bench.seen(view)
    assert len(bench.facts) == before


def test_ranks_without_a_keeper_are_ended_and_then_it_is_a_crash() -> None:
    bench = Bench().launched()
    bench.steps(1, 20).seen(Orphaned(1, (7, 8), "keeper gone"))
    assert [x.key for x in bench.decided(a.KillAttempt)] == ["kill/1"]
    bench.done("kill/1").exits(signal=9)
    assert bench.incident.kind == "crash"
    assert bench.state.plan is not None


def test_a_source_that_goes_blind_is_on_record_once_and_so_is_its_return() -> None:
    bench = Bench().launched()
    for ok in (True, False, False, True, True):
        bench.tell(SourceReading("metrics", ok, "stale handle"))
    assert [fact.ok for fact in bench.of(f.SourceChanged)] == [False, True]


def remarks_of(bench: Bench) -> list[str]:
    return [note.reason for note in bench.of(f.Noted) if note.about == "source"]


def test_a_remark_of_a_source_that_sees_is_noted_once_also_by_the_next_supervisor() -> None:
    bench = Bench().launched()
    remark = SourceReading("metrics", True, "1 damaged line(s) left out", remark=True)
    for _ in range(3):
        bench.tell(remark)
    bench.tell(SourceReading("metrics", True, "it can be read"))
    bench.die().tell(remark)
    assert remarks_of(bench) == ["metrics: 1 damaged line(s) left out"]
    assert not bench.of(f.SourceChanged)
    bench.exits(signal=9).launched()
    bench.tell(remark)
    assert len(remarks_of(bench)) == 2, "another attempt is another stream"


def test_what_a_trainer_remarks_is_noted_once_and_cut() -> None:
    bench = Bench().launched()
    for reason in ("the disk is nearly full", "the disk is nearly full", 7, None, "x" * 5000):
        bench.note("remark", None, reason=reason)
    assert remarks_of(bench) == ["trainer: the disk is nearly full", f"trainer: {'x' * 1000}"]


def test_remarks_without_end_fill_no_journal() -> None:
    bench = Bench().launched()
    for size in range(300):
        bench.tell(SourceReading("metrics", True, f"cut to {size} bytes", remark=True))
    said = remarks_of(bench)
    assert (len(said), said[19]) == (21, "metrics: cut to 19 bytes")
    assert said[20] == "20 remarks are written down, more in this attempt are only counted"
    assert bench.engine.unwritten_remarks == 280
    bench.die()
    for size in range(300):
        bench.tell(SourceReading("metrics", True, f"cut to {size} bytes", remark=True))
    assert len(remarks_of(bench)) == 21
    assert bench.engine.unwritten_remarks == 280


@pytest.mark.parametrize(
    ("blind", "beats", "hangs"),
    [
        ((), True, True),
        (("heartbeats",), True, False),
        (("metrics",), True, True),  # heartbeats speak for themselves
        (("metrics",), False, False),
        (("launcher",), True, True),
    ],
)
def test_silence_is_a_hang_only_to_a_supervisor_that_can_hear(blind: tuple[str, ...], beats: bool, hangs: bool) -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    if beats:
        bench.beat("forward", 20)
    for source in blind:
        bench.tell(SourceReading(source, False, "stale handle"))
    bench.tick(2000)
    assert any(incident.kind == "hang" for incident in bench.state.incidents) is hangs
    for source in blind:
        bench.tell(SourceReading(source, True, "it can be read"))
    bench.tick(2000)
    assert bench.incident.kind == "hang", "a hang that nobody saw is seen when sight returns"
