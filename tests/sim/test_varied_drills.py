"""Every drill with place, length and strength of its faults drawn from printed seeds; and engines that are broken make it fail.

DRILL_SEED_BASE=N draws others. `make drills` draws some hundreds of each.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sentinel.errors import PolicyError
from sentinel.model.attempts import SampleRange
from sentinel.plan import remedy
from sentinel.plan.rollback import RollbackTarget
from sentinel.sim.accuracy import POISONING, Accuracy, summarise, summary_lines
from sentinel.sim.drill import drill_file, drill_seeds, shipped_drills
from sentinel.sim.drill_file import read_drill
from sentinel.sim.expected import differences
from sentinel.sim.faults import parse_fault
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape
from sentinel.sim.variation import Vary, first_step, vary_scenario
from tests.integration.forked_sentinel import run_sentinel
from tests.sim.kit import policy_named

DRILLS = Path(__file__).parents[2] / "policies" / "drills"
BASE = int(os.environ.get("DRILL_SEED_BASE", "20261120"))
FEW, MANY = 2, 300
ENOUGH = 60  # seeds of which one notices a broken engine
SHAPE = Shape()


LONG_STEPS = 2000
REPRESENTATIVE = "loss-scale-decline"  # of the slow declines: their runs are long, and the others are `slow`


def steps_of(name: str) -> int:
    return read_drill(DRILLS / f"{name}.yaml").scenario.shape.steps


def many(name: str) -> int:
    """So many seeds that no drill takes much longer than another."""
    return MANY if steps_of(name) <= LONG_STEPS else max(12, MANY * 1000 // steps_of(name))


def is_long(name: str) -> bool:
    return steps_of(name) > LONG_STEPS and name != REPRESENTATIVE


ACCURACY: dict[str, tuple[Accuracy, ...]] = {}  # of the drills that have been drawn so often


def run_seeds(name: str, count: int) -> None:
    print(f"drill {name}: as written, then seeds {BASE} to {BASE + count - 1}")
    report = drill_seeds(DRILLS / f"{name}.yaml", BASE, count)
    print("\n".join(summary_lines(report.accuracy)))
    ACCURACY[name] = report.accuracy
    assert report.ok, report.text


@pytest.mark.parametrize("name", [name for name in shipped_drills() if not is_long(name)])
def test_shipped_drills_pass_wherever_their_faults_strike(name: str) -> None:
    run_seeds(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_drills())
def test_and_with_hundreds_of_seeds(name: str) -> None:
    run_seeds(name, many(name))


@pytest.mark.slow
def test_onsets_are_dated_to_the_step_and_little_is_left_out() -> None:
    """Of every drill that poisons data or numbers, over its drawn seeds. What grows from nothing is dated when it can be seen."""
    for name in shipped_drills():
        if name not in ACCURACY and any(fault.kind in POISONING for fault in read_drill(DRILLS / f"{name}.yaml").scenario.faults):
            run_seeds(name, many(name))
    found = [one for of_drill in ACCURACY.values() for one in of_drill]
    print("all drills\n" + "\n".join(summary_lines(found)))
    summary = summarise(found)
    assert (summary["no_incident"], summary["wasteful"]) == (0, 0)
    assert summary["onset_error_steps"]["median"] <= 2
    assert summary["onset_error_steps"]["p95"] <= 10
    assert summary["onset_error_steps_of_growing"]["median"] <= 10
    assert summary["onset_error_steps_of_growing"]["p95"] <= 20


def test_a_drill_says_how_well_the_poison_was_judged() -> None:
    """400 samples from step 101 on; the policy asks for 4 steps before the onset and 40 behind the finding: 44 x 16 samples."""
    report = drill_file(DRILLS / "poisoned-data.yaml")
    (one,) = report.accuracy
    assert (one.first_step, one.onset_step, one.error_steps) == (101, 101, 0)
    assert (one.poisoned_samples, one.margin_samples) == (400, 704)
    assert one.skipped_samples == sum(span.end - span.start for span in report.result.state.incidents[0].tries[-1].remedy.skip)
    assert f"{one.skipped_samples} samples skipped (704 as margins), 400 poisoned" in report.text
    assert report.document["accuracy"][0]["onset_error_steps"] == 0
    drawn = drill_seeds(DRILLS / "poisoned-data.yaml", BASE, 3)
    assert "onset error in steps, 4 incidents: median 0, p95 " in drawn.text
    assert drawn.document["accuracy"]["skipped_over_poisoned"]["incidents"] == 4


def test_a_late_date_and_a_long_skip_are_noticed() -> None:
    (one,) = drill_file(DRILLS / "poisoned-data.yaml").accuracy
    late = replace(one, onset_step=112, skipped_samples=2 * 400 + 704 + 1)
    assert (late.error_steps, late.is_wasteful, one.is_wasteful) == (11, True, False)
    assert "onset error +11 steps" in late.line
    assert summarise([one, late])["wasteful"] == 1
    assert "1 skipped more than 2 x the poison and the policy's margins" in list(summary_lines([one, late]))


def test_poison_that_becomes_no_incident_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("faults: ['bad_data@sample=1600-1601:loss=2', 'sick_optimizer@step=200:later=20']\n")
    small, hidden = drill_file(path).accuracy
    assert (small.incident, small.error_steps) == (0, None)
    assert small.line.endswith("no numeric incident")
    assert hidden.first_step == 220, "the first update that shows it"
    assert "poisoning faults: 2, of which 1 became no numeric incident" in list(summary_lines([small, hidden]))


# What is drawn.


def drawn(*faults: str, seeds: int = 60, vary: Vary | None = None) -> list[Scenario]:
    scenario = Scenario(1, SHAPE, tuple(parse_fault(text) for text in faults))
    return [vary_scenario(scenario, vary or Vary(), policy_named("demo"), seed) for seed in range(seeds)]


def test_the_same_seed_draws_the_same_and_another_something_else() -> None:
    first, again = drawn("bad_data@sample=1600-2000"), drawn("bad_data@sample=1600-2000")
    assert [str(one) for one in first] == [str(one) for one in again]
    assert len({str(one) for one in first}) == len(first)
    assert len({one.shape.curve.seed for one in first}) == len(first)


def test_place_length_and_strength_are_all_drawn_within_their_ranges() -> None:
    poison = [one.faults[0] for one in drawn("bad_data@sample=1600-2000")]
    lengths = [fault.behind - fault.at for fault in poison]
    assert min(lengths) >= 200
    assert max(lengths) <= 600
    assert max(lengths) - min(lengths) > 300
    steps = [first_step(fault, SHAPE) for fault in poison]
    assert min(steps) >= 54, "the demo policy's baseline is asleep before"
    assert max(fault.behind for fault in poison) <= SHAPE.steps * SHAPE.batch
    assert max(steps) - min(steps) > 100
    assert {fault.at % SHAPE.batch > 0 for fault in poison} == {True, False}, (
        "a batch is not always poisoned from its first sample"
    )
    assert max(fault.number("loss") for fault in poison) - min(fault.number("loss") for fault in poison) > 2.0
    spikes = [one.faults[0] for one in drawn("spike@step=100:length=6,height=2")]
    assert {fault.number("length") for fault in spikes} == set(range(3, 10))
    assert all(1.0 <= fault.number("height") <= 4.0 for fault in spikes)


def test_a_file_narrows_what_is_drawn() -> None:
    vary = Vary((90, 95), (1.0, 1.0), (1.0, 1.0))
    found = [one.faults[0] for one in drawn("spike@step=100:length=4,height=3", vary=vary)]
    assert {fault.step for fault in found} == set(range(90, 96))
    assert {(fault.number("length"), fault.number("height")) for fault in found} == {(4.0, 3.0)}


def test_faults_that_belong_together_keep_their_checkpoints() -> None:
    for one in drawn("bit_rot@step=100", "kill@step=110:rank=0"):
        rot, kill = one.faults
        assert rot.step % SHAPE.checkpoint_every == 0
        assert rot.step < kill.step <= rot.step + SHAPE.checkpoint_every, one
        assert kill.step < SHAPE.steps


def test_what_a_fault_is_stays_as_it_is() -> None:
    step_faults = ("crash@step=120:always", "kill@step=130:attempt=2", "deaf@step=0", "exit@step=80:code=3")
    written = (*step_faults, "fails@action=SendPage:retry=0")
    for one in drawn(*written, seeds=20):
        crash, kill, deaf, leaves, fails = one.faults
        assert (crash.always, kill.attempt, deaf.step, leaves.options["code"]) == (True, 2, 0, "3")
        assert (fails.word, fails.number("retry")) == ("SendPage", 0.0)
    for one in drawn("supervisor_kill@effect=3:for=10", "blind@time=60:for=30", seeds=20):
        assert 1 <= one.faults[0].at <= 6
        assert 30.0 <= one.faults[1].at <= 90.0


def test_the_drill_on_the_policies_page_is_one(tmp_path: Path) -> None:
    page = (DRILLS.parent / "README.md").read_text(encoding="utf-8")
    start = page.index("    name: mine\n    policy: demo")
    block = page[start : page.index("\n\n", start)]
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(line[4:] for line in block.splitlines()))
    report = drill_seeds(path, BASE, FEW)
    assert report.ok, report.text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("position: 60", "vary.position: 60 is not a range of steps; write it as '60..240 steps'"),
        ("position: 90..60 steps", "runs backwards; write the smaller one first: '60..90 steps'"),
        ("position: 60..900 steps", "the run ends at step 300; write a last step of at most 300"),
        ("length: 2x", "vary.length: '2x' is not a range of factors; write it as '0.5x..2x'"),
        ("magnitude: 0x..2x", "'0x' is not a factor above zero"),
        ("speed: 1x..2x", "vary.speed: unknown key 'speed'"),
    ],
)
def test_a_range_that_cannot_be_read_says_what_to_write(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"faults: [kill@step=60]\nvary: {{{line}}}\n")
    with pytest.raises(PolicyError) as caught:
        read_drill(path)
    flat = " ".join(caught.value.message.split())
    assert f"{path}:2:" in caught.value.message
    for part in said.split("; write "):
        assert part in flat, caught.value.message


# What is expected of it.


def test_steps_of_the_run_are_asked_of_the_file_as_written_only(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("faults: [nan_state@step=90]\nexpect:\n  incidents:\n    - {kind: non_finite, onset: 90, resumed_from: 50}\n")
    report = drill_seeds(path, 1, 3)
    assert report.reports[0].differing == ("incident 1: onset 91, expected 90", "incident 1: resumed_from 75, expected 50")
    assert [one.ok for one in report.reports] == [False, True, True, True]
    assert report.text.endswith("3 of 4 passed")


def failing(name: str) -> str:
    """The failing lines of the first few seeds of which one notices, with the command that runs the first of them again."""
    for first in range(BASE, BASE + ENOUGH, FEW):
        report = drill_seeds(DRILLS / f"{name}.yaml", first, FEW)
        lines = [one.line for one in report.reports[1:] if not one.ok]
        if lines:
            path, _, seed = lines[0].partition("; again with: sentinel drill ")[2].partition(" --seed ")
            assert drill_file(Path(path), seed=int(seed)).line == lines[0]
            return "\n".join(lines)
    raise AssertionError(f"no seed of {name} from {BASE} to {BASE + ENOUGH - 1} notices")


def newest(checkpoints: object, *_: object) -> RollbackTarget:
    found = max(checkpoints, key=lambda c: c.step, default=None)  # type: ignore[call-overload]
    return RollbackTarget(found, "the newest")


def test_a_varied_drill_notices_a_resume_after_the_onset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.plan.remedy.choose_before", newest)
    monkeypatch.setattr("sentinel.sim.invariants.Inspector._judge_launch", lambda *_: None)
    monkeypatch.setattr("sentinel.sim.invariants.Inspector.on_resume", lambda *_: None)
    assert "incident 1: resumed from step " in failing("nan")


def test_a_varied_drill_notices_a_skip_that_is_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.plan.remedy.skip_window", lambda *given: cut_short(remedy_skip_window(*given)))
    assert "incident 1: remedies wait, rollback + skip, rollback + skip" in failing("poisoned-data")


def test_a_skip_that_leaves_some_poison_in_is_noticed_even_where_nothing_else_went_wrong() -> None:
    drill = read_drill(DRILLS / "poisoned-data.yaml")
    result = drill_file(DRILLS / "poisoned-data.yaml").result
    assert not differences(drill.expected, result)
    reach = result.state.incidents[0].tries[-1].remedy.skip[0].end
    longer = replace(result.scenario, faults=(parse_fault(f"bad_data@sample=1600-{reach + 1}"),))
    (told,) = differences(drill.expected, replace(result, scenario=longer))
    assert told.startswith("incident 1: it skipped ")
    assert told.endswith(f"-{reach}, and the poison is 1600-{reach + 1}")


remedy_skip_window = remedy.skip_window


def cut_short(found: SampleRange | None) -> SampleRange | None:
    return None if found is None else replace(found, end=found.start + (found.end - found.start) // 2)


def test_a_varied_drill_notices_that_everything_is_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.plan.remedy.choose_newest", lambda *_: RollbackTarget(None, "from scratch"))
    assert "never from scratch for nothing" in failing("kill")
    assert "never from scratch for nothing" in failing("damaged-checkpoint")


def test_a_varied_drill_notices_rungs_taken_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from sentinel.policy_files.loading import load_policy

    def hasty(path: Path) -> object:
        policy = load_policy(path)
        playbooks = {name: rungs[1:] if name != "call" else rungs for name, rungs in policy.spec.playbooks.items()}
        return policy.model_copy(update={"spec": policy.spec.model_copy(update={"playbooks": playbooks})})

    monkeypatch.setattr("sentinel.sim.drill.load_policy", hasty)
    assert "remedies rollback + skip, expected wait, rollback + skip" in failing("poisoned-data")
    assert "remedies resume, rollback, page, expected resume, resume, rollback, page" in failing("crash-loop")


def test_a_checkpoint_that_rots_is_found_out() -> None:
    """The fault once struck nothing: it was taken for a fault of the step itself, and the drill passed all the same."""
    report = drill_file(DRILLS / "damaged-checkpoint.yaml")
    assert "checkpoint of step 100 will not be used" in report.text
    assert "sha256 is 0bad0bad0bad" in report.text


def test_the_command_line(tmp_path: Path) -> None:
    drill = partial(run_sentinel, "drill")
    good = drill(str(DRILLS / "kill.yaml"), "--seeds", "2", "--seed", "7")
    assert good.returncode == 0, good.stderr
    assert [line.partition(":")[0] for line in good.stdout.splitlines()] == [
        "kill",
        "kill seed 7",
        "kill seed 8",
        "3 of 3 passed",
    ]
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("faults: [kill@step=60]\nexpect: {outcome: failed}\n")
    bad = drill(str(wrong), "--seeds", "1", "--json")
    assert bad.returncode == 1
    document = json.loads(bad.stdout)
    assert (document["ok"], document["drills"][1]["reproduce"]) == (False, f"sentinel drill {wrong} --seed 1")
