"""The shipped drills pass, and a drill file with mistakes says where they are."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from sentinel.errors import PolicyError
from sentinel.model.facts import FindingRecorded
from sentinel.sim.drill import DrillReport, drill_file, drill_seed, shipped_drills
from tests.integration.forked_sentinel import run_sentinel

DRILLS = Path(__file__).parents[2] / "policies" / "drills"


DECLINES = ("loss-scale-decline", "activation-reversal", "gradient-creep", "parameter-turn", "clip-regime", "two-declines")


# Every other drill is run as written by test_varied_drills, and then from drawn seeds.
@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.slow) for name in DECLINES[:-1]), DECLINES[-1]])
def test_drills_of_slow_declines_pass(name: str) -> None:
    report = drill_file(DRILLS / f"{name}.yaml")
    assert report.ok, report.text


@pytest.mark.parametrize("policy", ["default", "opt-175b", "bloom-104b"])
@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.slow) for name in DECLINES[:-1]), DECLINES[-1]])
def test_slow_declines_are_told_under_every_policy_and_nothing_is_rolled_back(name: str, policy: str) -> None:
    report = drill_file(DRILLS / f"{name}.yaml", policy_name=policy)
    assert isinstance(report, DrillReport)
    assert report.ok, report.text
    assert not any(one.remedy.rollback_to_step for incident in report.result.state.incidents for one in incident.tries)


def test_a_run_without_the_decline_is_told_nothing_of(tmp_path: Path) -> None:
    path = tmp_path / "healthy.yaml"
    text = (DRILLS / "two-declines.yaml").read_text()
    begin, _, rest = text.partition("faults:\n")
    faults, _, _ = rest.partition("vary:")
    path.write_text(f"{begin}faults: []\nexpect: {{outcome: finished, pages: 0, incidents: [], findings: []}}\n")
    report = drill_file(path)
    assert report.ok, report.text
    path.write_text(f"{begin}faults:\n{faults}expect: {{findings: []}}\n")
    report = drill_file(path)
    assert isinstance(report, DrillReport)
    assert report.differing[0].startswith("2 findings of any kind (loss_scale falls since step ")


def test_two_declines_may_be_told_in_either_order_where_they_are_drawn() -> None:
    """Of seed 74 the activations double and are told first. Still the first is info, and the second a warning of both."""
    report = drill_file(DRILLS / "two-declines.yaml", seed=74)
    assert isinstance(report, DrillReport)
    assert report.ok, report.text
    told = [entry.fact.finding for entry in report.result.entries if isinstance(entry.fact, FindingRecorded)]
    assert [(one.metric, one.severity) for one in told] == [("activation_norm", "info"), ("loss_scale", "warning")]


def test_a_drawn_drill_that_tells_of_another_metric_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    text = (DRILLS / "two-declines.yaml").read_text()
    path.write_text(text.replace("metric: loss_scale", "metric: grad_norm"))
    report = drill_file(path, seed=1)
    assert isinstance(report, DrillReport)
    assert report.differing == ("findings of activation_norm, loss_scale, expected of activation_norm, grad_norm",)


def test_an_expected_finding_that_was_another(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    text = (DRILLS / "two-declines.yaml").read_text()
    path.write_text(text.replace("info, metric: loss_scale, onset: 4500..6000", "critical, metric: grad_norm, onset: 9000"))
    report = drill_file(path)
    assert isinstance(report, DrillReport)
    assert [sentence.partition(":")[0] for sentence in report.differing] == [
        "finding severity info, expected critical", "finding metric loss_scale, expected grad_norm",
        "finding onset 5500, expected 9000",
    ]  # fmt: skip


def test_the_drills_that_ship_cover_what_the_readme_promises() -> None:
    assert set(shipped_drills()) >= {"kill", "hang", "poisoned-data", "nan", "crash-loop", "damaged-checkpoint"}


def test_a_drill_that_goes_otherwise_says_how(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "run: {steps: 120}\nfaults:\n  - kill@step=60\n"
        "expect:\n  outcome: failed\n  pages: 1\n  incidents:\n    - {kind: hang, remedies: [rollback]}\n"
    )
    report = drill_file(path)
    assert not report.ok
    assert report.differing == (
        "the run finished, expected failed",
        "0 pages, expected 1",
        "incident 1: kind crash, expected hang",
        "incident 1: remedies resume, expected rollback",
    )
    assert f"again with: sentinel drill {path}" in report.text


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("faults:\n  - kil@step=3\n", "2:5", "faults[0]: fault 'kil@step=3': unknown kind 'kil'"),
        ("run: {step: 5}\n", "1:7", "run.step: 5 has no unit"),
        ("run: {speed: 5}\n", "1:7", "run.speed: unknown key 'speed'"),
        ("expect:\n  outcome: fine\n", "2:3", "expect.outcome: 'fine' is not known"),
        ("expect:\n  incidents:\n    - {state: recovered}\n", "3:7", "which kind of incident is expected?"),
        ("run: {lr_end: 2}\n", "1:7", "run.lr_end: 2 is no share"),
        ("run: {log_every: 0 steps}\n", "1:7", "run.log_every"),
        ("expect:\n  findings:\n    - {severity: info}\n", "3:7", "which kind of finding is expected?"),
        ("expect:\n  findings:\n    - {kind: trent}\n", "3:8", "expect.findings[0].kind: 'trent' is not known"),
        ("expect:\n  findings:\n    - {kind: trend, metric: 5}\n", "3:21", "5 is no name of a metric"),
        ("faults:\n  - clips_more@step=9:height=x\n", "2:5", "height='x' is not a number"),
        ("seed: -1\n", "1:1", "seed: -1 is not a whole number"),
        ("a: 1\na: 2\n", "2:1", "'a' is written twice"),
    ],
)
def test_a_bad_drill_file_names_line_and_column(tmp_path: Path, text: str, place: str, said: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        drill_file(path)
    assert f"{path}:{place}: " in caught.value.message
    assert said in caught.value.message


def test_a_seed_reproduces_itself() -> None:
    first, again = drill_seed(11, 1800.0), drill_seed(11, 1800.0)
    assert first.result.digest == again.result.digest
    assert first.reproduce == "sentinel drill --seed 11 --until 1800s"


def test_the_command_line(tmp_path: Path) -> None:
    drill = partial(run_sentinel, "drill")
    good = drill(str(DRILLS / "kill.yaml"), "--json")
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["incidents"][0]["state"] == "recovered"
    bad = tmp_path / "bad.yaml"
    bad.write_text("faults: kill\n")
    assert drill(str(bad)).returncode == 2
    assert f"{bad}:1:1: faults: this is no list" in drill(str(bad)).stderr
    assert drill().returncode == 2
