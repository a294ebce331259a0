"""What Prometheus reads of a run: each family that is promised and no other, counters that never fall, harmless labels."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import inf, isinf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sentinel import __version__
from sentinel.curves.registry import CURVES
from sentinel.engine import evolve
from sentinel.journal.session import take_run
from sentinel.metrics.exposition import CONTENT_TYPE, LABEL_CHARS_MAX, exposition
from sentinel.metrics.families import FAMILIES
from sentinel.metrics.of_run import LAYERS_MAX, STATES
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.disks import DiskReading
from sentinel.model.price import Price
from sentinel.model.stall import StepTimes
from sentinel.model.state import Mark, RunState
from sentinel.report.following import FollowedRun, RunSnapshot
from sentinel.report.losses import LOST, IncidentLoss
from sentinel.report.tally import Tally
from sentinel.run_files.detector_standings import DetectorStandings
from tests.docs.test_commands import STATES as DOCUMENTED_STATES
from tests.sim.kit import simulate
from tests.unit.engine.test_verifying import TB, behind, crashed, read, saved, verified
from tests.unit.told_run import at, entries_of, told, told_on_gpus, write_run, write_stream

METRICS_PAGE = Path(__file__).resolve().parents[3] / "deploy/prometheus/METRICS.md"
DETECTORS = DetectorStandings(
    at(200),
    3,
    600,
    0,
    (("spike", "healthy", "well"), ("hang", "breached", "silent")),
    StepTimes(at(199.9), 0.2),
    disks=(DiskReading("checkpoints", "/ckpt", 5, 9, 7), DiskReading("run directory", "/home", 3, 4, None)),
)


def fold(entries: list[f.Entry], **more: Any) -> RunSnapshot:
    tally, state = Tally(), RunState()
    for entry in entries:
        tally.take(state, entry)
        state = evolve(state, entry.at_s, entry.fact)
    standing = {"now_s": at(200), "supervisor": "alive", "heartbeat_s": at(195), "senses": DETECTORS, "attempt_alive": True,
                "mirror_lag_s": {"journal": 12.0}}  # fmt: skip
    return RunSnapshot(**{"run_dir": Path("/runs/demo"), "state": state, "tally": tally, **standing, **more})


def snapshot(until: float = 1e9, **more: Any) -> RunSnapshot:
    return fold(entries_of(told(until)), **more)


def verifying() -> RunState:
    """Its plan has the verification of a checkpoint of 1 TB before it, at 2 GB/s."""
    return crashed("full", TB, behind()).state


def everything() -> RunSnapshot:
    """A run of which all is known that can be."""
    page = a.SendPage("page/1/1/trigger/terminal", 1, "critical", "a title", "a text")
    blind = f.SourceChanged("nvml", False, "the driver is gone")
    raised = f.PageRaised(1, page.severity, page.title, page.text)
    more: list[tuple[float, f.Fact]] = [(151, raised), (151, f.ActionDecided(page)), (152, f.ActionConfirmed(page.key))]
    last = {curve.name: 0.5 for curve in CURVES if curve.gauge and not curve.is_family} | {"activation_norm/block-00": 0.9}
    saves: list[tuple[float, f.Fact]] = [(104 + n, f.CheckpointCommitted(3, 350 + n, "c", 0, f"d{n}", 0.0)) for n in range(1, 5)]
    facts = [*told_on_gpus(8, Price(3.6, "USD"), until=149), *saves, *more, (153, blind)]
    losses = (IncidentLoss(1, "crash", {1: dict.fromkeys(LOST, 1.0)}, is_over=True),)
    found = fold(entries_of(facts), step=354, total_steps=600, last=last, losses=losses)
    return replace(found, state=replace(found.state, plan=verifying().plan))


def samples(*snapshots: RunSnapshot) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(exposition(snapshots).decode()):
        for one in family.samples:
            yield one.name, one.labels, one.value


def value(found: RunSnapshot, name: str, **labels: str) -> float | None:
    """Of the one series that has these labels; None when there is none."""
    values = [number for named, has, number in samples(found) if named == name and labels.items() <= has.items()]
    assert len(values) <= 1, (name, labels)
    return values[0] if values else None


def test_every_family_of_the_table_is_exported_with_its_type_and_labels_and_no_other() -> None:
    text = exposition([everything()]).decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert types == {family.name: family.type for family in FAMILIES}
    for family in FAMILIES:
        own = {f"{family.name}{end}" for end in (("_bucket", "_sum", "_count") if family.type == "histogram" else ("",))}
        found = [labels for name, labels, _ in samples(everything()) if name in own]
        assert found, family.name
        for labels in found:
            assert set(labels) - {"le"} == {"run", *family.labels}, family.name


def test_the_page_of_the_metrics_says_what_the_code_does() -> None:
    """Its table is the registry, row by row and in its order."""
    shown = [line for line in METRICS_PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    before = "at the head of the table"
    for place, family in enumerate(FAMILIES):
        labels = " ".join(f"`{label}`" for label in family.labels)
        wanted = f"| `{family.name}` | {family.type} | {labels} | {family.unit} | {family.meaning} |"
        stands = shown[place] if place < len(shown) else "nothing"
        assert stands == wanted, f"deploy/prometheus/METRICS.md, {before}: write\n{wanted}\nthere stands\n{stands}"
        before = f"behind the row of `{family.name}`"
    more = shown[len(FAMILIES) :]
    assert not more, f"deploy/prometheus/METRICS.md: no metric of sentinel/metrics/families.py has these rows: {more}"


def test_names_follow_the_conventions() -> None:
    for family in FAMILIES:
        assert family.name.startswith("sentinel_")
        assert family.name.endswith("_total") == (family.type == "counter"), family.name
        for unit in ("seconds", "bytes", "ratio"):
            assert (family.unit == unit) == (f"_{unit}" in family.name), family.name


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_finds_nothing_wrong_with_the_names() -> None:
    done = subprocess.run(["promtool", "check", "metrics"], input=exposition([everything()]), capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_state_is_one_word_of_those_that_status_shows() -> None:
    assert set(STATES) == DOCUMENTED_STATES
    for until in (0, 5, 31, 50, 92, 1e9):
        run = snapshot(until)
        assert value(run, "sentinel_run_state", state=run.state.label) == 1.0
        assert sum(number for name, _, number in samples(run) if name == "sentinel_run_state") == 1.0


def test_a_run_that_has_only_just_begun_tells_what_is_known_and_nothing_else() -> None:
    bare = RunSnapshot(Path("/runs/new"))
    names = {name for name, _, _ in samples(bare)}
    assert value(bare, "sentinel_run_state", run="new", state="starting") == 1.0
    assert value(bare, "sentinel_pages_open") == 0.0
    assert not names & {"sentinel_loss", "sentinel_step", "sentinel_heartbeat_timestamp_seconds", "sentinel_checkpoint_step"}
    assert "sentinel_attempt_alive" not in names, "not seen is not dead"
    assert exposition([]) == b""


def test_numbers_that_are_not_finite_are_told_as_they_are() -> None:
    run = snapshot(last={"loss": nan, "grad_norm": inf, "loss_scale": -inf})
    assert isnan(value(run, "sentinel_loss") or 0.0)
    assert isinf(value(run, "sentinel_grad_norm") or 0.0)
    assert value(run, "sentinel_loss_scale") == -inf
    assert b'sentinel_loss{run="demo"} NaN\n' in exposition([run])


def test_the_heartbeat_is_the_supervisors_and_not_the_exporters(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    first = value(FollowedRun(run_dir).refresh(), "sentinel_heartbeat_timestamp_seconds")
    assert first == pytest.approx((run_dir / "lease.json").stat().st_mtime)
    assert value(FollowedRun(run_dir).refresh(), "sentinel_heartbeat_timestamp_seconds") == first
    (run_dir / "lease.json").unlink()
    assert value(FollowedRun(run_dir).refresh(), "sentinel_heartbeat_timestamp_seconds") is None


def test_what_a_line_leaves_out_is_told_as_it_was_last(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    path = write_stream(run_dir, 3, [351, 352, 353], grad_norm=0.5)
    path.write_text(path.read_text().replace('"step": 352,', '"step": 352, "val_loss": 2.25,'))
    look = FollowedRun(run_dir).refresh()
    assert (look.newest.get("val_loss"), value(look, "sentinel_val_loss")) == (None, 2.25)
    assert (value(look, "sentinel_step"), value(look, "sentinel_grad_norm")) == (353.0, 0.5)


def test_nobody_is_called_healthy_when_nobody_judges() -> None:
    judged = snapshot()
    assert value(judged, "sentinel_detector_state", detector="spike", verdict="healthy") == 1.0
    assert value(judged, "sentinel_detector_state", detector="hang", verdict="breached") == 1.0
    for stale in (replace(judged, supervisor="gone"), replace(judged, now_s=at(300))):
        for detector in ("spike", "hang"):
            assert value(stale, "sentinel_detector_state", detector=detector, verdict="unknown") == 1.0
            assert value(stale, "sentinel_detector_state", detector=detector, verdict="healthy") == 0.0


def answered(run: RunSnapshot, **how: Any) -> RunSnapshot:
    """With the one page of the run answered."""
    now = tuple(replace(one, page=replace(one.page, **how)) if one.page is not None else one for one in run.state.incidents)
    return replace(run, state=replace(run.state, incidents=now))


def test_a_page_is_acknowledged_when_every_open_one_is() -> None:
    run = everything()
    assert (value(run, "sentinel_pages_open"), value(run, "sentinel_page_acknowledged")) == (1.0, 0.0)
    assert value(answered(run, acknowledged_by="ana"), "sentinel_page_acknowledged") == 1.0
    over = answered(run, resolved="a person says so", resolved_s=at(160))
    assert (value(over, "sentinel_pages_open"), value(over, "sentinel_page_acknowledged")) == (0.0, 0.0)
    assert value(snapshot(), "sentinel_page_acknowledged") == 0.0, "there is none"


def test_a_condemned_checkpoint_is_none_to_go_back_to() -> None:
    facts: list[tuple[float, f.Fact]] = [*told(), (151, f.CheckpointCondemned(350, "numbers"))]
    assert value(snapshot(), "sentinel_checkpoint_step") == 350.0
    assert value(snapshot(), "sentinel_checkpoint_age_seconds") == 120.0
    assert value(fold(entries_of(facts)), "sentinel_checkpoint_step") == 100.0


def test_names_of_a_trainer_or_a_machine_break_no_line() -> None:
    nasty = 'a"b\\c\nsentinel_step{run="x"} 7\r\x1b[31m\ud800'
    run = snapshot(run_dir=Path("/runs/demo"), last={f"activation_norm/{nasty}": 1.0, f"activation_norm/{'long' * 99}": 2.0})
    run.tally.blind[nasty] = True
    layers = [labels["layer"] for name, labels, _ in samples(run) if name == "sentinel_activation_norm"]
    assert len(layers) == 2
    for layer in layers:
        assert layer.isprintable()
        assert len(layer) <= LABEL_CHARS_MAX
    assert value(run, "sentinel_step") is None


def test_layers_are_bounded_and_a_series_never_stands_there_twice() -> None:
    same = {f"activation_norm/{'x' * LABEL_CHARS_MAX}{n}": float(n) for n in range(3)}
    assert value(snapshot(last=same), "sentinel_activation_norm") == 0.0
    many = {f"activation_norm/{n}": 1.0 for n in range(3 * LAYERS_MAX)}
    assert sum(name == "sentinel_activation_norm" for name, _, _ in samples(snapshot(last=many))) == LAYERS_MAX


def test_runs_of_one_name_are_told_apart() -> None:
    runs = [snapshot(run_dir=Path(place)) for place in ("/a/one/demo", "/b/one/demo", "/b/two/demo")]
    other = replace(snapshot(run_dir=Path("/c/x")), state=replace(runs[0].state, run_id="other"))
    found = {labels["run"] for name, labels, _ in samples(*runs, other) if name == "sentinel_step" or name == "sentinel_info"}
    assert found == {"a/one/demo", "b/one/demo", "two/demo", "other"}
    assert {labels["run"] for _, labels, _ in samples(runs[0])} == {"demo"}


def counters(found: RunSnapshot) -> dict[tuple[str, str], float]:
    names = {one.name for one in FAMILIES if one.type != "gauge"}
    return {
        (name, str(sorted(labels.items()))): number
        for name, labels, number in samples(found)
        if name in names or re.sub("_(bucket|sum|count)$", "", name) in names
    }


def test_no_counter_falls_while_the_journal_grows() -> None:
    faults = ("crash@step=60:rank=1", "supervisor_kill@time=60:for=5", "bad_data@sample=2000-2400:heals=never")
    result = simulate(*faults)
    entries = list(result.entries)
    assert len(result.state.incidents) >= 2
    before: dict[tuple[str, str], float] = {}
    tally, state = Tally(), RunState()
    for number, entry in enumerate(entries):
        tally.take(state, entry)
        state = evolve(state, entry.at_s, entry.fact)
        if number % 3 == 0 or number == len(entries) - 1:
            now = counters(RunSnapshot(Path("/runs/x"), state, entry.at_s, tally=tally))
            assert {series: (was, now.get(series)) for series, was in before.items() if now.get(series, -1.0) < was} == {}
            before = now
    assert any(name == "sentinel_incidents_total" for name, _ in before)


def test_another_program_or_a_later_one_tells_the_same_counters(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=90.2)
    follower = FollowedRun(run_dir)
    follower.refresh()
    with take_run(run_dir) as session:
        for when, fact in told()[len(told(90.2)) :]:
            session.journal.append(at(when), [fact], session.epoch)
    assert counters(follower.refresh()) == counters(FollowedRun(run_dir).refresh())


def test_a_scrape_walks_incidents_attempts_and_layers_once() -> None:
    """In calls, which a busy machine makes no more of. What they take in milliseconds, `make bench-scrape` says."""
    few, many = calls_of_a_scrape(100), calls_of_a_scrape(500)
    assert (many - few) / 400 < 150, "139 for an incident with its attempt of eight marks, 2026-11-27"
    assert many < 100_000, "87 thousand, 100 layers among them, 2026-11-27; 20 ms of a processor"


def calls_of_a_scrape(number: int) -> int:
    run = everything()
    attempt, crash = run.state.attempts[0], run.state.incidents[0]
    marks = tuple(Mark(10 * n, at(n), 0.1) for n in range(8))
    state = replace(
        run.state,
        incidents=tuple(replace(crash, id=n) for n in range(number)),
        attempts=tuple(replace(attempt, attempt=n, launched_s=at(n), marks=marks) for n in range(number)),
    )
    busy = replace(run, state=state, last=run.last | {f"activation_norm/block-{n:02}": 1.0 for n in range(100)})
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        text = exposition([busy])
    finally:
        sys.setprofile(before)
    assert len(text) > 10_000
    return calls


def test_it_says_which_sentinel_exports_and_in_which_format() -> None:
    assert value(snapshot(), "sentinel_info", version=__version__, policy="demo") == 1.0
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")


def test_room_is_told_by_place_and_not_at_all_where_nobody_has_looked_lately() -> None:
    assert value(everything(), "sentinel_disk_free_bytes", place="checkpoints") == 5.0
    assert value(everything(), "sentinel_disk_size_bytes", place="run directory") == 4.0
    assert value(everything(), "sentinel_disk_free_inodes", place="checkpoints") == 7.0
    assert value(everything(), "sentinel_disk_free_inodes", place="run directory") is None
    for gone in (snapshot(supervisor="gone"), snapshot(now_s=at(400))):
        assert value(gone, "sentinel_disk_free_bytes", place="checkpoints") is None


def test_what_it_costs_is_told_where_it_is_known() -> None:
    told_run = everything()
    assert value(told_run, "sentinel_gpus") == 8.0
    spent = {part: value(told_run, "sentinel_gpu_seconds", part=part) for part in ("trained", "thrown_away", "downtime")}
    assert sum(number or 0.0 for number in spent.values()) == pytest.approx(8 * 200, abs=1)
    money = value(told_run, "sentinel_cost", part="downtime", currency="USD")
    assert money == pytest.approx((spent["downtime"] or 0) / 1000, abs=1e-3)
    assert value(told_run, "sentinel_incident_lost_seconds", kind="crash") == 4.0
    assert value(told_run, "sentinel_incident_lost_gpu_seconds", kind="crash") == pytest.approx(32, abs=0.2)
    ends = [value(told_run, "sentinel_forecast_end_timestamp_seconds", bound=bound) for bound in ("earliest", "likely", "latest")]
    assert at(200) < (ends[0] or 0.0) < (ends[1] or 0.0) < (ends[2] or 0.0)
    unknown = {name for name, _, _ in samples(fold(entries_of(told())))}
    assert not unknown & {"sentinel_gpus", "sentinel_gpu_seconds", "sentinel_cost", "sentinel_forecast_end_timestamp_seconds"}


def test_the_time_of_the_newest_step_is_exported_and_is_none_before_a_step() -> None:
    name = "sentinel_last_step_timestamp_seconds"
    made = [value for found, _, value in samples(snapshot()) if found == name]
    assert made == [pytest.approx(at(199.9))]
    assert f"# TYPE {name} gauge" in exposition([snapshot()]).decode()
    unknown = snapshot(senses=replace(DETECTORS, step_times=StepTimes()))
    assert name not in [found for found, _, _ in samples(unknown)]


def test_the_seconds_of_the_coming_verification_are_told_until_it_is_done() -> None:
    name = "sentinel_verification_expected_seconds"
    assert value(RunSnapshot(Path("/runs/r"), verifying()), name) == 500.0
    assert value(RunSnapshot(Path("/runs/r"), crashed("full", TB).state), name) is None, "no rate was measured"
    bench = crashed("full", TB, behind())
    assert value(RunSnapshot(Path("/runs/r"), verified(bench, saved(read())).state), name) is None
    assert value(RunSnapshot(Path("/runs/r"), replace(verifying(), ended="stopped")), name) is None


def test_two_runs_whose_long_names_begin_alike_are_two() -> None:
    """A sweep names its runs by their settings: the failed one must not hide behind the one that trains."""
    runs = [told(), told(100)]
    shown = []
    for number, facts in enumerate(runs):
        name = f"{'model.dim=1024,' * 10}seed={number}"
        one = fold(entries_of(facts), run_dir=Path("/runs") / name)
        shown.append(replace(one, state=replace(one.state, run_id=name)))
    names = {labels["run"] for name, labels, _ in samples(*shown) if name == "sentinel_attempt"}
    assert len(names) == 2
    assert all(len(name) <= LABEL_CHARS_MAX for name in names)


def test_of_a_run_that_died_with_its_supervisor_no_end_is_forecast_and_no_time_counts_as_training() -> None:
    """The journal alone would have it train on for ever."""
    dead = replace(everything(), supervisor="gone", attempt_alive=False, now_s=at(5000), last_s=at(199.9))
    unseen = replace(dead, senses=DetectorStandings())
    for snapshot_ in (dead, unseen):
        told_ = {name for name, _, _ in samples(snapshot_)}
        assert "sentinel_forecast_end_timestamp_seconds" not in told_
        assert (value(snapshot_, "sentinel_account_seconds", account="detection") or 0.0) >= 4800
        assert (value(snapshot_, "sentinel_goodput_ratio") or 0.0) < 0.05
    assert (value(replace(dead, attempt_alive=True), "sentinel_goodput_ratio") or 0.0) > 0.9, "it trains on alone"


def test_a_run_of_which_nothing_can_be_read_is_exported_as_that_alone() -> None:
    lost = RunSnapshot(Path("/runs/lost"), trouble="the journal is damaged")
    assert list(samples(lost)) == [("sentinel_journal_unreadable", {"run": "lost"}, 1.0)]
