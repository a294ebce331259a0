"""Room for checkpoints: what is told, when, what is unknown, and when it is over."""

from __future__ import annotations

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.disk_forecast import KeptCheckpoints
from sentinel.detectors.disk_full import CALM_S, FILLING, FRESH_S, KIND, DiskFullSettings
from sentinel.detectors.disk_memory import hour_words, lacks_room
from sentinel.model.disks import DiskReading, SavedCheckpoint
from sentinel.model.findings import Finding, Verdict
from sentinel.model.readings import SourceReading
from tests.unit.detectors.bank_kit import config, row

GIB = 1 << 30
HOUR = 3600.0
LOOK_S = 60.0
METRIC = "free_bytes@/ckpt"


def look(
    free: float, saves: int = 5, *, interval_s: float = HOUR, inodes: int | None = 10**6, first: int = 0
) -> DiskReading:
    """A disk with so many checkpoints of 10 GiB and 9 files each, one every 100 steps and `interval_s`."""
    there = [SavedCheckpoint(100 * (first + n), 10 * GIB, 9, (saves - n) * interval_s) for n in range(1, saves + 1)]
    return DiskReading("checkpoints", "/ckpt", int(free), 10**13, inodes, tuple(there), saves)


class Watch:
    """A bank whose disks are looked at every minute."""

    def __init__(self, kept: KeptCheckpoints | None = None, **settings: float) -> None:
        self.bank = DetectorBank(config(disk_full=DiskFullSettings(**settings)), {}, {}, kept=kept)  # type: ignore[arg-type]
        self.now_s = 50_000.0
        self.bank.begin_attempt(1, self.now_s)

    def sees(self, reading: DiskReading, for_s: float = 0.0) -> list[Finding]:
        found: list[Finding] = []
        end_s = self.now_s + for_s
        while True:
            self.bank.disk(reading, self.now_s)
            found += [one for one in self.bank.hardware_tick(self.now_s) if one.kind in (KIND, FILLING)]
            if self.now_s >= end_s:
                return found
            self.now_s += LOOK_S

    @property
    def verdict(self) -> tuple[Verdict, str]:
        return self.bank.verdicts()[KIND]


def test_a_disk_with_room_for_weeks_is_healthy_and_says_what_it_rests_on() -> None:
    watch = Watch()
    assert watch.sees(look(1000 * GIB), 1800.0) == []
    verdict, reason = watch.verdict
    assert verdict is Verdict.HEALTHY
    assert reason == "1000 GiB are free on /ckpt (checkpoints); a checkpoint takes 10 GiB, one every 1 h"


def test_the_hour_when_a_save_finds_no_room_is_told_hours_ahead_once_with_its_evidence() -> None:
    watch = Watch()
    (found,) = watch.sees(look(55 * GIB), 600.0)
    assert (found.kind, found.severity, found.metric, found.value) == (FILLING, "warning", METRIC, 55.0 * GIB)
    assert found.baseline == 10.0 * GIB
    # Room for five more, of which the first comes after an hour: the sixth lacks it, six hours from the first look.
    at = hour_words(50_000.0 + 6 * HOUR)
    assert found.reason == (
        "55 GiB are free on /ckpt (checkpoints); a checkpoint takes 10 GiB, one every 1 h; "
        f"in 6 h, at {at}, a save no longer fits"
    )


def test_what_lies_beyond_the_hours_of_the_policy_is_not_told() -> None:
    assert Watch().sees(look(150 * GIB), 600.0) == []
    assert len(Watch(ahead_s=24 * HOUR).sees(look(150 * GIB), 600.0)) == 1


def test_a_save_that_does_not_fit_is_critical_whatever_is_known_of_the_rate() -> None:
    (found,) = Watch().sees(look(9 * GIB))
    assert (found.kind, found.severity) == (KIND, "critical")
    assert "the next one, due in" in found.reason
    assert found.reason.endswith("does not fit")
    (one,) = Watch().sees(look(9 * GIB, 1))
    assert one.kind is KIND
    assert one.reason.endswith("a checkpoint takes 10 GiB, how often is not known yet; the next one does not fit")


def test_of_one_checkpoint_no_rate_is_known_and_nothing_is_forecast() -> None:
    watch = Watch()
    assert watch.sees(look(15 * GIB, 1), 4 * HOUR) == []


def test_before_any_checkpoint_it_is_unknown_and_not_healthy() -> None:
    watch = Watch()
    assert watch.sees(look(1, 0), HOUR) == []
    assert watch.verdict == (Verdict.UNKNOWN, "1 bytes are free on /ckpt; no checkpoint has shown yet what one takes")


def test_no_answer_is_unknown_and_neither_told_nor_over() -> None:
    watch = Watch()
    watch.bank.source(SourceReading("disks", False, "no answer for 120 s"))
    assert watch.sees(look(9 * GIB)) == []
    assert watch.bank.verdicts({"disks": "no answer"})[KIND][0] is Verdict.UNKNOWN
    assert watch.bank.lacks_room(watch.now_s) == ""
    watch.bank.source(SourceReading("disks", True, "they answer"))
    assert [one.kind for one in watch.sees(look(9 * GIB))] == [KIND]
    watch.sees(look(1000 * GIB), 600.0)
    assert watch.bank.over(KIND, METRIC)
    watch.bank.source(SourceReading("disks", False, "no answer"))
    assert watch.bank.over(KIND, METRIC) == ""


def test_an_old_look_says_nothing_of_now() -> None:
    watch = Watch()
    watch.bank.disk(look(9 * GIB), watch.now_s)
    assert list(watch.bank.hardware_tick(watch.now_s + FRESH_S + 1.0)) == []
    assert watch.bank.lacks_room(watch.now_s + FRESH_S + 2.0) == ""


def test_inodes_are_judged_alike_and_a_filesystem_that_counts_none_is_no_full_one() -> None:
    (found,) = Watch().sees(look(1000 * GIB, inodes=8))
    assert (found.kind, found.metric, found.value, found.baseline) == (KIND, "free_inodes@/ckpt", 8.0, 9.0)
    assert found.reason.startswith("8 inodes are free on /ckpt (checkpoints); a checkpoint takes 9 files")
    assert Watch().sees(look(1000 * GIB, inodes=None), 600.0) == []


def test_it_is_over_when_room_was_measured_for_a_while_and_the_next_time_is_told_again() -> None:
    watch = Watch()
    assert [one.kind for one in watch.sees(look(9 * GIB))] == [KIND]
    assert watch.bank.over(KIND, METRIC) == ""
    assert watch.sees(look(900 * GIB)) == []
    assert watch.bank.over(KIND, METRIC) == ""  # one look is no room yet
    assert watch.sees(look(900 * GIB), CALM_S + LOOK_S) == []
    assert watch.bank.over(KIND, METRIC).startswith("there is room again: 900 GiB are free on /ckpt")
    assert watch.bank.over(KIND, "free_bytes@/other") == ""
    assert [one.kind for one in watch.sees(look(9 * GIB), 600.0)][-1:] == [KIND]
    assert watch.verdict[0] is Verdict.BREACHED


def test_a_forecast_that_flickers_about_its_limit_is_told_once() -> None:
    watch = Watch()
    found = [*watch.sees(look(115 * GIB), 600.0)]
    for _ in range(5):
        found += [*watch.sees(look(125 * GIB), 600.0), *watch.sees(look(115 * GIB), 600.0)]
    assert [one.kind for one in found] == [FILLING]


def test_what_others_write_counts_as_a_steady_trend_and_one_large_copy_is_none() -> None:
    watch, found = Watch(), []
    for minute in range(240):
        found += watch.sees(look(700 * GIB - minute * GIB, interval_s=10 * HOUR))
        watch.now_s += 60.0
    assert [one.kind for one in found] == [FILLING]
    assert "what else is written takes 60 GiB an hour" in found[0].reason
    copied, found = Watch(), []
    for minute in range(240):
        found += copied.sees(look((700 if minute < 120 else 400) * GIB, interval_s=10 * HOUR))
        copied.now_s += 60.0
    assert found == []


def test_own_checkpoints_are_no_trend_of_others() -> None:
    watch, found = Watch(), []
    for hour in range(10):
        found += watch.sees(look(1000 * GIB - hour * 10 * GIB, 5 + hour), HOUR - LOOK_S)
        watch.now_s += LOOK_S
    assert found == []
    assert "what else" not in watch.verdict[1]


def test_where_as_many_are_deleted_as_are_saved_nothing_is_forecast() -> None:
    watch, found = Watch(), []
    for hour in range(10):
        found += watch.sees(look(15 * GIB, 5, first=hour), HOUR - LOOK_S)
        watch.now_s += LOOK_S
    late = watch.sees(look(15 * GIB, 5, first=10), 3 * HOUR)
    assert late == []
    assert watch.verdict[0] is Verdict.HEALTHY
    assert "old ones are deleted" in watch.verdict[1]
    assert [one.kind for one in found] == [FILLING]  # until five saves have shown it


@pytest.mark.parametrize(("free", "is_told"), [(75, False), (35, True)])
def test_retention_bounds_what_is_kept_and_what_it_keeps_must_fit(free: int, is_told: bool) -> None:
    kept = KeptCheckpoints(last=8, every_steps=None, reach_steps=300)
    assert bool(Watch(kept).sees(look(free * GIB), 600.0)) is is_told


def test_a_retention_that_is_not_carried_out_bounds_nothing() -> None:
    kept = KeptCheckpoints(last=2, every_steps=None, reach_steps=0)
    assert len(Watch(kept).sees(look(55 * GIB, 9), 600.0)) == 1


def test_a_copied_directory_gives_no_rate() -> None:
    """Manifests written a second apart, of saves that were 100 steps of 10 s apart."""
    watch = Watch()
    for step in range(1, 200):
        watch.bank.step(row(step, time_s=10.0 * step, loss=2.0), watch.now_s)
    assert watch.sees(look(55 * GIB, interval_s=1.0), 600.0) == []
    assert "how often is not known yet" in watch.verdict[1]


def test_the_run_directory_on_a_disk_of_its_own_is_judged_by_its_trend_and_its_rest() -> None:
    watch, found = Watch(), []
    for minute in range(240):
        found += watch.sees(DiskReading("run directory", "/home", (100 * GIB) - minute * (GIB // 4), 10**12, 10**6))
        watch.now_s += 60.0
    assert [one.kind for one in found] == [FILLING]
    assert "on /home (run directory); what else is written takes 15 GiB an hour; in 5 h" in found[0].reason
    assert found[0].reason.endswith("it is full")
    (full,) = Watch().sees(DiskReading("run directory", "/home", 1 << 20, 10**12, 10**6))
    assert (full.kind, full.metric) == (KIND, "free_bytes@/home")


def test_another_attempt_is_told_again_and_none_is_told_of_between_two() -> None:
    watch = Watch()
    assert len(watch.sees(look(9 * GIB))) == 1
    watch.bank.end_attempt()
    assert watch.sees(look(9 * GIB), 600.0) == []
    watch.bank.begin_attempt(2, watch.now_s)
    assert [one.attempt for one in watch.sees(look(9 * GIB))] == [2]


def test_two_checkpoints_must_fit_at_a_launch_where_a_size_is_known() -> None:
    assert lacks_room(look(25 * GIB)) == ""
    assert lacks_room(look(5, 0)) == ""
    why = "15 GiB are free on /ckpt (checkpoints), and 2 checkpoints of 10 GiB, as that of step 500, do not fit"
    assert lacks_room(look(15 * GIB)) == why
    assert lacks_room(look(1000 * GIB, inodes=17)).startswith("17 inodes are free on /ckpt (checkpoints), and 2 checkpoints of 9")
    watch = Watch()
    watch.sees(look(15 * GIB))
    assert watch.bank.lacks_room(watch.now_s) == why
