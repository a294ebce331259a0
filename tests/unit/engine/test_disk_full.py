"""A disk that fills up, in the engine: who is called, when that is taken back, and that nothing else is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sentinel.detectors.disk_full import CALM_S, FILLING, KIND
from sentinel.detectors.disk_memory import lacks_room
from sentinel.engine.disk_room import sound_only
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.disks import DiskReading, SavedCheckpoint
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import SourceReading
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.documents import status_document
from sentinel.report.schedule import SettingsHistory
from sentinel.report.snapshot import RunSnapshot
from sentinel.report.text import status_text
from sentinel.run_files.detector_standings import StandingsFile, read_standings
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
    assert "55 GiB are free on /ckpt (checkpoints); a checkpoint takes 10 GiB, one every 1 h; in 6" in bench.incident.reason
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


def test_the_offer_names_the_command_and_what_it_gives_back() -> None:
    bench = Bench(load_policy(shipped_policy_path("default"))).launched()
    for step in range(200, 3001, 200):
        bench.steps(step - 199, step).checkpoint(step)
    bench.read(3000)
    saves = tuple(SavedCheckpoint(200 * n, 10 * GIB, 9, (15 - n) * 3600.0) for n in range(1, 16))
    bench.tell(DiskReading("checkpoints", "/ckpt", 9 * GIB, 10**13, 10**6, saves, 15))
    bench.tick(1.0)
    offer = "`sentinel checkpoints prune --keep 3 RUN_DIR` gives back 70 GiB of 7 checkpoints that nobody needs"
    assert bench.incident.reason.endswith(offer)


def test_where_nothing_can_be_spared_it_says_so() -> None:
    assert looked(training(), 9).incident.reason.endswith("no checkpoint can be spared: make room elsewhere on that disk")


def test_an_offer_goes_by_where_checkpoints_lie_and_not_by_the_words_of_the_reason() -> None:
    bench = training()
    bench.tell(DiskReading("run directory", "/home", 1 << 20, 10**12, 10**6))
    bench.tick(1.0)
    assert "on /home" in bench.incident.reason
    assert "checkpoint can be spared" not in bench.incident.reason
    odd = training()  # a mount whose name holds the words by which a disk without checkpoints is shown
    there = tuple(SavedCheckpoint(10 * n, 10 * GIB, 9, (4 - n) * 3600.0) for n in range(1, 5))
    odd.tell(DiskReading("checkpoints", "/ckpt (run directory)", 9 * GIB, 10**13, 10**6, there, 4))
    odd.tick(1.0)
    assert odd.incident.reason.endswith("no checkpoint can be spared: make room elsewhere on that disk")


# A launch that could not save.


def held_back(free_gib: float = 15) -> Bench:
    """The attempt has crashed, and its relaunch has come to the launch itself."""
    bench = looked(training(), free_gib)
    bench.exits(signal=9)
    assert bench.state.plan is not None
    for _ in range(9):
        action = bench.state.plan.actions[bench.state.plan.next]
        if isinstance(action, a.StartAttempt):
            return bench
        bench.done(action.key)
        assert bench.state.plan is not None
    raise AssertionError("no launch")


def starts(bench: Bench) -> int:
    return sum(isinstance(action, a.StartAttempt) for action in bench.state.pending.values())


def test_a_relaunch_that_could_not_save_twice_waits_and_a_person_is_called_once() -> None:
    bench = held_back()
    assert starts(bench) == 0
    for _ in range(20):
        looked(bench, 15)
    assert starts(bench) == 0
    assert (bench.incident.kind, bench.incident.severity) == (KIND, "critical")
    assert bench.incident.reason.startswith("attempt 2 is not launched: 15 GiB are free on /ckpt (checkpoints), and 2")
    sent = [page.stage for page in bench.decided(a.SendPage) if page.incident == bench.incident.id]
    assert sent == ["trigger"]


def test_a_checkpoint_known_to_be_damaged_holds_no_launch_back() -> None:
    bench = held_back(25)
    huge = disk(25)
    huge = replace(huge, saves=(*huge.saves[:-1], replace(huge.saves[-1], bytes=10**15)))
    assert "as that of step 40" in lacks_room(huge)
    known = replace(bench.state.checkpoints[-1], condemned="sha256", damaged=True)
    state = replace(bench.state, checkpoints=(*bench.state.checkpoints[:-1], known))
    assert lacks_room(sound_only(state, huge)) == ""


def test_it_is_launched_when_there_is_room_again_and_the_page_is_taken_back() -> None:
    bench = looked(held_back(), 25)
    assert starts(bench) == 1
    (taken_back,) = [fact for fact in bench.of(f.PageResolved) if "is launched" in fact.reason]
    assert taken_back.incident == bench.incident.id
    bench.launched()
    assert bench.state.attempt is not None
    assert bench.state.attempt.attempt == 2


def test_it_is_launched_when_nobody_knows_how_much_room_there_is() -> None:
    bench = held_back()
    bench.tell(SourceReading("disks", False, "no answer"))
    bench.tick(1.0)
    assert starts(bench) == 1


def test_a_stop_is_not_kept_waiting_by_a_launch_that_waits_for_room() -> None:
    bench = held_back()
    bench.wants_stop()
    bench.tick(1.0)
    assert bench.state.ended == "stopped"
    assert bench.state.plan is None


def test_another_supervisor_goes_on_with_a_launch_that_waited() -> None:
    bench = held_back()
    bench.die()
    bench.tick(1.0)
    assert starts(bench) == 1  # it has looked at no disk yet, and `sentinel run` looks before it begins


# What a person asks for.


def long_run(read: bool = True) -> Bench:
    bench = Bench(load_policy(shipped_policy_path("default"))).launched()
    for step in range(200, 3001, 200):
        bench.steps(step - 199, step).checkpoint(step)
    return bench.read(3000) if read else bench


def test_a_person_has_what_nobody_needs_deleted_one_after_the_other() -> None:
    bench = long_run()
    answer = bench.asks(w.PruneCheckpoints(3))
    assert answer.granted, answer.answer
    assert answer.answer == "deleted, one after the other: the checkpoints of steps 200, 400, 600, 800, 1000, 1200, 1400"
    assert [action.step for action in bench.decided(a.PruneCheckpoint)] == [*range(200, 1401, 200)]
    for step in range(200, 1401, 200):
        bench.done(f"prune/{step}/")
    assert [found.step for found in bench.state.checkpoints] == [*range(1600, 3001, 200)]
    assert not bench.asks(w.PruneCheckpoints(3)).granted


def test_nothing_is_deleted_while_an_incident_is_open_or_nobody_sees_the_run() -> None:
    bench = long_run()
    bench.tell(SourceReading("metrics", False, "Stale file handle"))
    assert "blind for metrics" in bench.asks(w.PruneCheckpoints(3)).answer
    bench.tell(SourceReading("metrics", True, "seen"))
    bench.exits(signal=9)
    refused = bench.asks(w.PruneCheckpoints(3))
    assert not refused.granted
    assert "a recovery is under way" in refused.answer
    observed = Bench(load_policy(shipped_policy_path("default")), observe_only=True)
    assert "only observed" in observed.asks(w.PruneCheckpoints(3)).answer
    assert not bench.decided(a.PruneCheckpoint)


def test_room_can_be_made_for_a_launch_that_waits_for_it_and_never_with_what_it_resumes_from() -> None:
    bench = long_run()
    looked(bench, 15)
    bench.exits(signal=9)
    while (plan := bench.state.plan) is not None and not isinstance(plan.actions[plan.next], a.StartAttempt):
        bench.done(plan.actions[plan.next].key)
    assert starts(bench) == 0
    answer = bench.asks(w.PruneCheckpoints(1))
    assert answer.granted, answer.answer
    assert bench.state.plan is not None
    launch = bench.state.plan.actions[-1]
    assert isinstance(launch, a.StartAttempt)
    assert launch.resume is not None
    assert launch.resume.step not in [action.step for action in bench.decided(a.PruneCheckpoint)]


def test_how_much_room_there_is_stands_in_senses_and_in_status(tmp_path: Path) -> None:
    bench = looked(training(), 55)
    StandingsFile(tmp_path).write(bench.now_s, bench.engine)
    standings = read_standings(tmp_path)
    assert standings.disks == (DiskReading("checkpoints", "/ckpt", 55 * GIB, 10**13, 10**6),)
    schedule = SettingsHistory().document((), None)
    seen = RunSnapshot(tmp_path, bench.state, bench.now_s, step=45, supervisor="alive", attempt_alive=True, senses=standings)
    document = status_document(seen, None, "")
    assert "55 GiB of 9.09 TiB, 1000000 inodes free on /ckpt (checkpoints)" in status_text(document | {"schedule": schedule})
    assert status_document(replace(seen, now_s=bench.now_s + 60.0), None, "")["disks"] == []
    bench.tell(SourceReading("disks", False, "no answer"))
    StandingsFile(tmp_path).write(bench.now_s, bench.engine)
    assert read_standings(tmp_path).disks == ()
