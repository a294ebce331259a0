"""A recorded log through the whole engine: what is found, what would have been done, and that watching goes on afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from sentinel.curves.svg import PlotMark, draw_picture
from sentinel.model.readings import Receipt, StepReading
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.replay import ReplayFinding, ReplayResult, replay_file
from sentinel.replay.many_logs import find_logs, replay_many
from sentinel.streams.curve import BUCKETS_MAX, Curve
from sentinel.telemetry.rewind import Rewind
from tests.unit.telemetry.event_kit import file_version, scalar

POLICY = load_policy(shipped_policy_path("default"))


def losses(count: int, seed: int = 1) -> list[float]:
    dice = random.Random(seed)
    return [2.0 + 3.0 / (1 + step / 200) + dice.gauss(0.0, 0.02) for step in range(1, count + 1)]


def write_csv(path: Path, values: Iterable[float], first: int = 1, every: int = 1) -> Path:
    rows = [f"{first + every * index},{value},0.5,," for index, value in enumerate(values)]
    path.write_text("step,loss,grad_norm,loss_scale,lr\n" + "\n".join(rows) + "\n")
    return path


def replay(path: Path) -> ReplayResult:
    return replay_file(path, POLICY)


def alarms(result: ReplayResult) -> list[ReplayFinding]:
    return [found for found in result.found if found.severity != "info"]


def hurt(values: list[float], start: int, count: int, add: float) -> list[float]:
    """Steps start .. start + count - 1 (from 1) raised by `add`."""
    return [value + add * (start <= step < start + count) for step, value in enumerate(values, 1)]


def test_a_healthy_run_is_silent(tmp_path: Path) -> None:
    result = replay(write_csv(tmp_path / "log.csv", losses(3000)))
    assert (alarms(result), result.rows, result.first_step, result.last_step) == ([], 3000, 1, 3000)


def test_a_spike_that_heals_is_an_alarm_marked_benign(tmp_path: Path) -> None:
    (found,) = alarms(replay(write_csv(tmp_path / "log.csv", hurt(losses(1500), 1000, 8, 2.0))))
    assert (found.kind, found.onset_step, found.benign, found.intervened, found.remedy) == ("spike", 1000, True, False, None)
    assert found.detected_step in (1000, 1001)
    assert found.resolved_step is not None
    assert found.resolved_step == 1008, "where the metric was back, not where the verdict fell"


def test_what_joins_shares_how_it_went_and_is_not_resolved_before_it_was_found(tmp_path: Path) -> None:
    """Loss back after 8 steps; the gradient norm follows 6 steps later and joins."""
    values = hurt(losses(1500), 1000, 8, 2.0)
    dice = random.Random(5)
    rows = [
        f"{step},{value},{0.5 * dice.lognormvariate(0, 0.1) * (8 if 1006 <= step < 1016 else 1)},,"
        for step, value in enumerate(values, 1)
    ]
    path = tmp_path / "log.csv"
    path.write_text("step,loss,grad_norm,loss_scale,lr\n" + "\n".join(rows) + "\n")
    first, second = alarms(replay(path))
    assert (first.benign, second.benign) == (True, True)
    assert (first.resolved_step, second.resolved_step) == (1008, max(1008, second.detected_step))


def test_the_opener_is_shown_with_the_onset_its_incident_was_dated_back_to(tmp_path: Path) -> None:
    dice = random.Random(6)
    values = hurt(losses(1500), 1003, 8, 2.0)
    rows = [
        f"{step},{value},{0.5 * dice.lognormvariate(0, 0.1) * (6 if 1002 <= step < 1011 else 1)},,"
        for step, value in enumerate(values, 1)
    ]
    path = tmp_path / "log.csv"
    path.write_text("step,loss,grad_norm,loss_scale,lr\n" + "\n".join(rows) + "\n")
    first, *_ = alarms(replay(path))
    assert (first.onset_step, first.detected_step) == (1002, 1003)
    assert first.reason.endswith("; onset 1002 by grad_norm, loss followed at 1003")


def test_a_log_that_ends_before_a_verdict_leaves_it_unknown(tmp_path: Path) -> None:
    (found,) = alarms(replay(write_csv(tmp_path / "log.csv", hurt(losses(1012), 1000, 8, 2.0))))
    assert (found.benign, found.resolved_step, found.intervened) == (None, None, False)


def test_a_spike_that_stays_would_have_been_treated(tmp_path: Path) -> None:
    first, *_ = alarms(replay(write_csv(tmp_path / "log.csv", hurt(losses(1500), 1000, 501, 3.0))))
    assert (first.intervened, first.remedy, first.benign, first.resolved_step) == (True, "rollback+skip", False, None)
    assert first.remedy_step is not None
    assert first.remedy_step > first.detected_step


def test_a_late_recovery_is_no_merit_of_a_remedy_that_was_not_carried_out(tmp_path: Path) -> None:
    first, *_ = alarms(replay(write_csv(tmp_path / "log.csv", hurt(losses(1500), 1000, 60, 3.0))))
    assert (first.intervened, first.benign) == (True, False)
    assert first.resolved_step is not None


def test_watching_goes_on_after_one_that_healed_and_at_a_new_level(tmp_path: Path) -> None:
    values = hurt(hurt(losses(6000), 1000, 8, 2.0), 2000, 4001, 1.0)
    found = alarms(replay(write_csv(tmp_path / "log.csv", hurt(values, 4500, 8, 3.0))))
    spikes = [one for one in found if one.kind == "spike"]
    assert [one.onset_step for one in spikes][:2] == [1000, 2000]
    last = next(one for one in spikes if one.onset_step == 4500)
    assert (last.benign, last.resolved_step is not None) == (True, True)


def test_nan_is_found_at_once_and_for_ever_is_no_hindrance(tmp_path: Path) -> None:
    values = losses(1200)
    values[699:] = [float("nan")] * 501
    found = alarms(replay(write_csv(tmp_path / "log.csv", values)))
    assert (found[0].kind, found[0].onset_step, found[0].detected_step, found[0].intervened) == ("non_finite", 700, 700, True)
    assert all(one.resolved_step is None for one in found)


@pytest.mark.parametrize("every", [5, 100, 500])
def test_coarse_logs_are_judged_by_rows_and_not_by_one(tmp_path: Path, every: int) -> None:
    """A spike of three rows, healed after: an alarm; one row of normal loss is not yet proof of anything."""
    values = hurt(losses(1200), 800, 3, 2.0)
    (found,) = alarms(replay(write_csv(tmp_path / "log.csv", values, first=every, every=every)))
    assert found.onset_step == 800 * every
    assert found.resolved_step is not None
    assert found.resolved_step >= 803 * every


def test_a_run_resumed_into_the_same_log_is_not_lost_sight_of(tmp_path: Path) -> None:
    values = losses(1000)
    path = write_csv(tmp_path / "log.csv", values)
    again = write_csv(tmp_path / "again.csv", hurt(losses(900, 2), 300, 30, 3.0), first=601)
    path.write_text(path.read_text() + again.read_text())
    result = replay(path)
    assert result.last_step == 1500
    assert 900 in [found.onset_step for found in alarms(result)]


def test_rows_out_of_order_are_no_relaunch() -> None:
    def row(step: int) -> StepReading:
        return StepReading(1, step, 0.0, (), {})

    told = list(Rewind().follow([row(step) for step in (1, 2, 3, 3, 4, 2, 5, 6, 4, 5, 6, 7)]))
    receipts = [one for one in told if isinstance(one, Receipt)]
    assert [(one.resume_step, [reading.step for reading in one.history]) for one in receipts] == [(3, [1, 2, 3])]


def reread(rows: list[tuple[int, float, float]]) -> tuple[int, int]:
    """Relaunches seen and rows passed over, of rows (step, time, loss)."""
    rewind = Rewind()
    told = list(rewind.follow([StepReading(1, step, time_s, (), {"loss": loss}) for step, time_s, loss in rows]))
    return sum(isinstance(one, Receipt) for one in told), rewind.repeated


def test_lines_of_several_ranks_are_no_relaunch() -> None:
    lines = [(n, 0.0, 3.0 - n / 100) for n in range(1, 201)]
    in_turn = [line for line in lines for _ in range(8)]
    assert reread(in_turn) == (0, 7 * 200)
    bursts = [line for first in range(0, 200, 25) for _ in range(8) for line in lines[first : first + 25]]
    assert reread(bursts) == (0, 7 * 200)
    their_own = [(n, 0.0, 3.0 - n / 100 + rank) for n in range(1, 201) for rank in range(8)]
    assert reread(their_own)[0] == 0


def test_two_writers_side_by_side_are_told_apart_by_their_times() -> None:
    first = [(n, 1.7e9 + n, 3.0) for n in range(1, 101)]
    other = [(n, 1.7e9 + n + 0.5, 2.0) for n in range(1, 101)]
    assert reread(first + other) == (0, 99)
    resumed = [(n, 1.7e9 + 200 + n, 2.0) for n in range(51, 151)]
    assert reread(first + resumed) == (1, 0)


def test_a_resumed_run_that_repeats_itself_is_a_relaunch_from_where_it_differs() -> None:
    first = [(n, 0.0, 3.0 - n / 1000) for n in range(1, 101)]
    again = [(n, 0.0, 3.0 - n / 1000 + 1e-3 * (n > 70)) for n in range(51, 161)]
    assert reread(first + again) == (1, 20)


def test_two_runs_in_one_log_are_each_judged_by_themselves(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", hurt(losses(1000), 700, 30, 3.0))
    path.write_text(path.read_text() + write_csv(tmp_path / "b.csv", hurt(losses(1000, 2), 700, 30, 3.0)).read_text())
    assert [one.onset_step for one in alarms(replay(path)) if one.kind == "spike"] == [700, 700]


def test_the_same_failure_after_a_relaunch_is_found_again(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", hurt(losses(1000), 900, 101, 3.0))
    again = write_csv(tmp_path / "again.csv", hurt(losses(1200, 2)[800:], 100, 30, 3.0), first=801)
    path.write_text(path.read_text() + again.read_text())
    spikes = [one for one in alarms(replay(path)) if one.kind == "spike"]
    assert [one.onset_step for one in spikes] == [900, 900]


def test_what_cannot_be_read_ends_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "prose.txt").write_text("once upon a time\nthere was a run\n")
    (tmp_path / "folder").mkdir()
    words = {"empty.csv": "empty", "binary.csv": "binary", "prose.txt": "recognised", "folder": "directory", "gone": "No such"}
    for name, word in words.items():
        result = replay(tmp_path / name)
        assert word in result.error
        assert str(tmp_path / name) in result.error


def test_results_come_in_the_order_of_the_arguments(tmp_path: Path) -> None:
    rows = {"z": 4000, "a": 10, "m": 300}
    paths = [write_csv(tmp_path / f"{name}.csv", losses(count)) for name, count in rows.items()]
    results = list(replay_many(find_logs(paths), POLICY))
    assert [(result.file, result.rows) for result in results] == list(zip(map(str, paths), rows.values(), strict=True))


def test_directories_are_walked_and_event_files_of_one_place_are_one_log(tmp_path: Path) -> None:
    inner = tmp_path / "tb"
    inner.mkdir()
    for name in ("events.out.tfevents.1.x", "events.out.tfevents.2.x"):
        (inner / name).write_bytes(file_version() + scalar(1, "loss", 1.0))
    log = write_csv(tmp_path / "b.csv", losses(3))
    (tmp_path / "picture.png").touch()
    assert [one.path for one in find_logs([tmp_path, log])] == [log, inner]


def test_curves_keep_their_peaks_in_bounded_memory() -> None:
    curve = Curve()
    for step in range(1, 100_001):
        curve.add(step, 9.0 if step == 77_777 else 2.0)
    assert len(curve.buckets) <= 2 * BUCKETS_MAX
    assert max(high for _, _, high in curve.buckets) == 9.0


def test_a_picture_is_sound_xml_with_its_marks() -> None:
    from xml.etree import ElementTree

    marks = [PlotMark(5, "onset", "a < b"), PlotMark(6, "found", "spike"), PlotMark(7, "remedy", "rollback")]
    text = draw_picture("runs/<a>&b.csv", {"loss": [(1, 2.0, 200.0), (10, 2.0, 3.0)], "grad_norm": []}, marks)
    root = ElementTree.fromstring(text)
    words = "".join(root.itertext())
    assert "loss (log)" in words
    assert "onset" in words
    assert "remedy would start" in words
    for curves in ({}, {"loss": [(3, 1.0, 1.0)]}, {"loss": [(3, -1e300, 1e300), (4, 0.0, 0.0)]}):
        ElementTree.fromstring(draw_picture("x", curves, []))


def test_steps_that_begin_again_with_each_epoch_are_counted_on() -> None:
    """A log of three epochs; in the last the run was resumed, which is a relaunch at the step of the whole run."""

    def row(epoch: int, step: int, loss: float) -> StepReading:
        return StepReading(1, step, 0.0, (), {"epoch": float(epoch), "loss": loss - step / 99})

    rows = [row(epoch, step, 3.0) for epoch in (0, 1, 2) for step in range(20)]
    resumed = [row(2, step, 1.0) for step in range(15, 25)]
    rewind = Rewind()
    told = list(rewind.follow([*rows, *resumed]))
    assert rewind.counts_epochs
    steps = [one.step for one in told if isinstance(one, StepReading)]
    assert steps == [*range(60), *range(55, 65)]
    (receipt,) = (one for one in told if isinstance(one, Receipt))
    assert receipt.resume_step == 54


def test_steps_that_begin_again_without_an_epoch_are_a_relaunch() -> None:
    rows = [StepReading(1, step, 0.0, (), {"loss": 3.0 - launch - step / 99}) for launch in (0, 1) for step in range(20)]
    rewind = Rewind()
    told = list(rewind.follow(rows))
    assert not rewind.counts_epochs
    assert sum(isinstance(one, Receipt) for one in told) == 1


def test_an_epoch_that_is_a_fraction_is_no_new_epoch() -> None:
    """Hugging Face writes the epoch as a fraction; a run resumed from its first step goes back in it."""
    launches = [(step, launch) for launch in (0, 1) for step in range(1, 20)]
    rows = [StepReading(1, step, 0.0, (), {"epoch": step / 10, "loss": 3.0 - launch}) for step, launch in launches]
    rewind = Rewind()
    told = list(rewind.follow(rows))
    assert (rewind.counts_epochs, sum(isinstance(one, Receipt) for one in told)) == (False, 1)


@pytest.mark.parametrize(
    "text",
    [
        "step,loss\n100000000000000000,2.5\n",
        ' iteration 100000000000000000/ 10 | lm loss: 2.5 |\n',
        '{"step": 100000000000000000, "loss": 2.5}\n',
        "step 100000000000000000 loss 2.5\n" * 2,
    ],
    ids=["csv", "megatron", "json", "text"],
)
def test_a_step_that_no_run_reaches_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    result = replay_file(path, load_policy(shipped_policy_path("default")))
    assert "not one step in it" in result.error
    assert "a step of 100000000000000000 (steps end at 2^53)" in result.first_damage
