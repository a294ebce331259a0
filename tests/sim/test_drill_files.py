"""What a drill file says of the real trainer: what it takes over, what it changes, and where its mistakes are."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.errors import PolicyError, UsageError
from sentinel.journal.run_file import CAPABILITIES
from sentinel.policy_files.loading import load_policy
from sentinel.sim.cases import run_case_files
from sentinel.sim.drill import NotShown, drill_file, drill_seeds, policy_beside, shipped_drills
from sentinel.sim.drill_file import read_drill
from sentinel.sim.expected import Expected, ExpectedIncident, differences
from sentinel.sim.faults import KINDS, parse_fault
from sentinel.sim.real_faults import EFFECTS, REAL_KINDS, as_real_fault
from trainer.faults import NUMBERS, OPTIONS
from trainer.faults import parse_fault as trainers_parse

DRILLS = Path(__file__).parents[2] / "policies" / "drills"
# What the recovery of a run is asked to master, and the drill that shows it. A new disaster gets a line here and a file there;
# everything else (this test, `make drills`, `make drills-real`) takes it up by itself.
ASKED = {
    "poisoned data": "poisoned-data",
    "poisoned data twice as long as the first skip": "poisoned-data-twice-as-long",
    "learning rate too high": "learning-rate-too-high",
    "an explosion from a damaged optimizer state": "sick-optimizer",
    "loss-scale collapse": "loss-scale-collapse",
    "NaN once": "nan",
    "NaN always": "nan-always",
    "slow drift": "slow-drift",
    "a bad newest checkpoint": "damaged-checkpoint",
    "a bit flip on one rank": "bit-flip",
    "a wrong configuration": "wrong-config",
    "library versions or code changed between attempts": "changed-code",
    "a log flood": "log-flood",
    "SIGKILL": "kill",
    "a hang": "hang",
    "SIGKILL in the probation of a numeric incident": "kill-in-probation",
}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_every_disaster_asked_for_has_its_drill_and_is_shown_with_the_real_trainer() -> None:
    assert set(ASKED.values()) <= set(shipped_drills())
    for name in ASKED.values():
        assert not read_drill(DRILLS / f"{name}.yaml", real=True).real.not_shown


@pytest.mark.parametrize("name", shipped_drills())
def test_a_shipped_drill_can_be_done_to_the_real_trainer_or_says_why_not(name: str) -> None:
    real = read_drill(DRILLS / f"{name}.yaml", real=True).real
    assert real.not_shown or real.scenario.faults
    load_policy(policy_beside(DRILLS / f"{name}.yaml", real.policy), frozenset(CAPABILITIES))
    for fault in real.scenario.faults:
        assert trainers_parse(fault.text).text == fault.text


def test_a_drill_is_done_as_it_is_written_without_what_only_a_simulation_must_be_told(tmp_path: Path) -> None:
    text = (
        "run: {steps: 200, checkpoint_every: 20 steps}\n"
        "faults: ['bad_data@sample=16-32:heals=slow,loss=5', 'kill@step=9:attempt=2', 'slow@step=5']\n"
        "expect: {outcome: finished, attempts: 3}\n"
    )
    drill = read_drill(written(tmp_path, text), real=True)
    faults = [fault.text for fault in drill.real.scenario.faults]
    assert faults == ["bad_data@sample=16-32", "kill@step=9:attempt=2", "slow@step=5:for=4"], (
        "the simulator's own default is said"
    )
    assert (drill.real.scenario.shape.steps, drill.real.policy, drill.real.precision) == (200, "demo", "fp32")
    assert drill.real.expected == drill.expected


def test_what_real_says_differs_and_the_rest_stays(tmp_path: Path) -> None:
    text = (
        "policy: default\nrun: {steps: 200, ranks: 4}\nfaults: ['drift@step=9:height=0.5']\n"
        "expect: {outcome: finished, pages: 0, incidents: [{kind: drift, onset: 9}]}\n"
        "real: {policy: mine.yaml, run: {steps: 100, precision: bf16}, faults: ['drift@step=50:size=0.2'], until: 90s,\n"
        "  expect: {pages: 1, incidents: [{kind: drift, onset: 40..60}]}}\n"
    )
    real = read_drill(written(tmp_path, text), real=True).real
    shape = real.scenario.shape
    assert (shape.steps, shape.ranks, real.precision, real.policy, real.until_s) == (100, 4, "bf16", "mine.yaml", 90.0)
    assert real.expected == Expected("finished", 1, None, (ExpectedIncident("drift", onset=(40, 60)),))


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("faults: []\nreal: {faults: ['drift@step=9:height=1']}\n", "2:17", "real.faults[0]: fault 'drift@step=9:height=1'"),
        ("faults: []\nreal: {faults: ['blind@time=9']}\n", "2:17", "unknown kind 'blind'"),
        ("faults: ['stop@time=9']\n", "1:10", "faults[0]: fault 'stop@time=9': is for the simulator only"),
        ("faults: ['nan_state@step=9:rank=1']\n", "1:10", "nan_state takes no 'rank=1'"),
        ("real: {run: {precision: fp8}}\n", "1:14", "real.run.precision: 'fp8' is not known"),
        ("real: {run: {step: 5s}}\n", "1:14", "real.run.step: unknown key 'step'"),
        ("real: {run: {ranks: 3}}\n", "1:8", "batch 16 does not divide by 3 ranks"),
        ("real: {not_shown: }\n", "1:8", "real.not_shown"),
        ("real: {expect: {incidents: [{kind: crash, onset: soon}]}}\n", "1:43", "incidents[0].onset: 'soon' is no step"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, place: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PolicyError) as caught:
        read_drill(path, real=True)
    assert f"{path}:{place}: " in caught.value.message
    assert said in caught.value.message


def test_a_word_where_real_wants_keys_is_a_mistake_too(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="real"):
        read_drill(written(tmp_path, "real: 5\nplaybooks: {crash: [{resume: {}}]}\n"))


def test_what_only_the_simulator_can_do_is_no_mistake_in_it(tmp_path: Path) -> None:
    assert read_drill(written(tmp_path, "faults: ['stop@time=9']\n")).scenario.faults


def test_a_drill_that_cannot_be_simulated_says_so_and_passes() -> None:
    report = drill_file(DRILLS / "log-flood.yaml")
    assert isinstance(report, NotShown)
    assert report.ok
    assert "a simulated run writes no logs" in report.text
    assert drill_seeds(DRILLS / "log-flood.yaml", 1, 5).ok
    cases = run_case_files([DRILLS / "log-flood.yaml"])
    assert cases.ok
    assert cases.cases[0].seen == ("not simulated: a simulated run writes no logs",)


def test_another_policy_than_the_files_own(tmp_path: Path) -> None:
    report = drill_file(DRILLS / "kill.yaml", policy_name="observe_only")
    assert report.text.startswith("drill kill: policy observe_only")
    with pytest.raises(PolicyError):
        drill_file(DRILLS / "kill.yaml", policy_name="no-such-policy")


def test_an_expected_step_may_be_a_range() -> None:
    result = drill_file(DRILLS / "nan.yaml").result  # type: ignore[union-attr]
    for span, differs in (((91, 91), False), ((80, 91), False), ((92, 99), True)):
        found = differences(Expected(incidents=(ExpectedIncident("non_finite", onset=span),)), result)
        assert [("onset 91, expected 92..99" in sentence) for sentence in found] == [True] * differs


def test_a_diagnosis_and_the_rank_it_blames_may_be_expected(tmp_path: Path) -> None:
    text = (DRILLS / "bit-flip.yaml").read_text()
    report = drill_file(written(tmp_path, text.replace("diagnosis: hardware, blamed_rank: 1", "diagnosis: data, blamed_rank: 0")))
    assert report.differing == (  # type: ignore[union-attr]
        "incident 1: diagnosis hardware, expected data",
        "incident 1: rank 1 is blamed, expected 0",
    )


def test_the_grammars_of_simulator_and_trainer_are_one_but_for_how_strong_a_fault_is() -> None:
    assert set(REAL_KINDS) == set(OPTIONS), "what sentinel lets through is what the trainer takes"
    assert set(REAL_KINDS) - set(KINDS) == {"log_flood", "edit"}
    for kind, (places, options) in REAL_KINDS.items():
        assert set(options) == set(OPTIONS[kind])
        for name, default in options.items():
            assert float(default) == (0 if name == "rank" else NUMBERS[name][0]), (kind, name)
        if kind in KINDS:
            assert places == KINDS[kind][0]
            assert set(KINDS[kind][1]) - set(options) <= set(EFFECTS), f"{kind}: only an effect is the simulator's alone"


@pytest.mark.parametrize("kind", sorted(set(REAL_KINDS) & set(KINDS)))
def test_a_simulated_fault_reaches_the_trainer_as_the_same(kind: str) -> None:
    where = "sample=16-32" if kind == "bad_data" else "step=9"
    tail = "" if kind in ("bad_data", "unstable") else ":attempt=2"
    fault = as_real_fault(parse_fault(f"{kind}@{where}{tail}"))
    taken = trainers_parse(fault.text)
    assert (taken.kind, taken.attempt) == (kind, fault.attempt)
    assert (taken.samples == (16, 32)) if kind == "bad_data" else (taken.step == 9)


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_drill(tmp_path / "none.yaml")


def test_a_finding_that_no_rule_takes_is_no_alert_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "spikes.yaml").write_text(
        "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: spikes}\n"
        "spec:\n  rules: [{alert: Spike, on: spike, playbook: tell}]\n  playbooks: {tell: [{page: {}, then: keep_training}]}\n"
    )
    case = written(
        tmp_path,
        f"cases:\n  - name: NaN\n    policy: {tmp_path}/spikes.yaml\n"
        "    series: {metrics: {loss: 3x100 NaNx5}}\n    expect: {alerts: []}\n",
    )
    report = run_case_files([case])
    assert report.ok, report.text
    assert "taken by no rule: non_finite" in str(report.document)
