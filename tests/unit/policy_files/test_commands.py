"""`sentinel policy check | explain | test | schema`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.errors import PolicyError, UsageError
from sentinel.policy.quantities import Malformed
from sentinel.policy_files.check import check_files
from sentinel.policy_files.explain import Assumed, explain, explain_rules
from sentinel.policy_files.loading import load_policy, shipped_policies, shipped_policy_path
from sentinel.sim.case_file import read_cases
from sentinel.sim.cases import is_case_file, run_case_files
from sentinel.sim.series import parse_values
from tests.unit.policy.policies_in_words import numeric

MISTAKES = Path(__file__).parents[1] / "policy" / "mistakes"
CASES = """\
policy: opt-175b
cases:
  - name: activations turn
    series:
      noise: 0.005
      metrics: {loss: 3x7600, activation_norm: 1x6999 1+0.001x600}
    expect:
      alerts: [ActivationReversal]
      incidents:
        - {alert: ActivationReversal, kind: expression, onset: 6990..7050, detected: 7500..7600, remedies: [lr]}
  - name: a killed rank
    policy: demo
    run: {steps: 200, ranks: 2, step: 0.5s, checkpoint_every: 25 steps}
    faults: [kill@step=120:rank=1]
    expect: {outcome: finished, incidents: [{kind: crash, state: recovered, remedies: [resume]}]}
"""
QUIET = "name: quiet\npolicy: default\nseries: {noise: 0.01, metrics: {loss: 3x600}}\nexpect: {alerts: []}\n"


def sentinel(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# check


def test_check_takes_several_files_and_says_what_each_holds():
    code, out, _ = sentinel("policy", "check", "default", "opt-175b")
    assert code == 0
    assert out.splitlines()[0].startswith("default: fine. 26 rules; playbooks numeric (6 rungs)")
    assert "opt-175b: fine. 21 rules, 2 on expressions" in out


def test_check_goes_on_after_a_file_that_cannot_work():
    code, _, err = sentinel("policy", "check", str(MISTAKES / "contradiction.yaml"), "default")
    assert code == 2
    assert "a rung can do only one" in err
    assert "default: fine." in err


def test_check_in_json():
    code, out, _ = sentinel("policy", "check", "--json", str(MISTAKES / "bad_expression.yaml"), "default")
    first, second = json.loads(out)
    assert code == 2
    assert (first["ok"], second["ok"], second["problems"]) == (False, True, [])
    problem = first["problems"][0]
    assert (problem["line"], problem["column"], problem["remedy"]) == (13, 23, "write '&&'")


def test_check_knows_what_the_trainer_cannot():
    assert check_files(["default"], "skip,live_overrides").ok
    found = check_files(["default"], "live_overrides")
    assert found.ok
    assert "cannot skip samples (capability 'skip'): this rung is passed over" in found.files[0].text
    with pytest.raises(UsageError, match="did you mean 'skip'"):
        check_files(["default"], "skipp")


# explain


def test_explain_prints_every_rung_made_absolute():
    code, out, _ = sentinel("policy", "explain", "default", "--finding", "spike", "--onset", "1000", "--samples-per-step", "10")
    assert code == 0
    lines = out.splitlines()
    assert lines[1] == "  rule Spike (spec.rules[1]) takes it"
    assert "onset at step 1000, believed at step 1001, a checkpoint every 250 steps, 10 samples a step" in out
    rungs = [line for line in lines if line.startswith("  ") and line.strip()[0].isdigit()]
    assert len(rungs) == 6
    assert "roll back to the checkpoint of step 750" in rungs[1]
    assert "skip samples 9790..12010" in rungs[1]  # from onset - 20 (sample 9990 - 200) to detected + 200 (10010 + 2000)
    assert "learning rate 0.5x" in rungs[3]
    assert "a critical page; training is stopped at once" in rungs[5]
    assert "of which this playbook takes up to 4" in out
    assert "pages go to: terminal; within 2m, again every 30m" in out


def test_explain_by_alert_live_changes_and_deaths():
    opt, default = (load_policy(shipped_policy_path(name)) for name in ("opt-175b", "default"))
    live = explain(opt, "ActivationReversal", Assumed())
    assert live.rungs[0] == ("lr", "learning rate 0.9x; live, without a relaunch")
    assert live.assumed["detected_step"] == 1199, "it must last 200 steps"
    assert explain(default, "crash", Assumed()).rungs[0][1] == "resume from the checkpoint of step 1000, the newest"
    assert explain(default, "plateau", Assumed()).before[-1] == "it is recorded, and nothing is done"
    assert "no rule is on gpu_fault" in explain(opt, "gpu_fault", Assumed()).before[0]
    near = explain(default, "spike", Assumed(onset_step=100, checkpoint_every=60))
    assert "start from scratch" in near.rungs[1][1]


def test_explain_says_how_much_may_be_tried_for_one_cause(tmp_path):
    path = tmp_path / "mine.yaml"
    head = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\nextends: default\n"
    path.write_text(f"{head}spec: {{budget: {{per_cause: 2 per 6h}}}}\n", encoding="utf-8")
    assert "(2 in 6h for one kind of incident)" in "\n".join(explain(load_policy(path), "spike", Assumed()).after)
    without = explain(load_policy(shipped_policy_path("default")), "spike", Assumed())
    assert "for one kind of incident" not in "\n".join(without.after)


def test_explain_says_who_is_asked_first():
    asked = numeric({"rollback": {"before_onset": "100 steps"}, "approval": {"within": "30m", "otherwise": "approve"}})
    told = explain(asked, "spike", Assumed()).rungs[0][1]
    assert told.startswith("a person is asked, and without an answer in 30m this rung is taken: roll back to")


def test_explain_refuses_what_is_neither_a_kind_nor_an_alert():
    policy = load_policy(shipped_policy_path("default"))
    with pytest.raises(UsageError, match="did you mean 'spike'"):
        explain(policy, "spikes", Assumed())
    with pytest.raises(UsageError, match="before its onset"):
        explain(policy, "spike", Assumed(1000, 900))


@pytest.mark.parametrize("name", shipped_policies())
def test_every_alert_of_every_shipped_policy_can_be_explained(name):
    policy = load_policy(shipped_policy_path(name))
    for rule in policy.spec.rules:
        told = explain(policy, rule.alert, Assumed())
        assert told.document["rungs"] or rule.labels.severity == "info"
        assert rule.alert in explain_rules(policy)


def test_explain_in_json_is_of_one_finding_or_of_all_rules():
    code, out, _ = sentinel("policy", "explain", "palm-540b", "--finding", "Spike", "--json")
    assert (code, [rung["rung"] for rung in json.loads(out)["rungs"]][-1]) == (0, "page")
    code, out, _ = sentinel("policy", "explain", "palm-540b", "--json")
    rules = {rule["alert"]: rule for rule in json.loads(out)["rules"]}
    assert (code, rules["Spike"]["on"], rules["Spike"]["playbook"]) == (0, "spike", "skip")
    assert len(rules["Spike"]["rungs"]) > 1


# test


def test_series_and_drills_stand_in_one_file(tmp_path):
    file = write(tmp_path / "cases.yaml", CASES)
    code, out, _ = sentinel("policy", "test", str(file))
    assert code == 0, out
    assert out.splitlines()[-1] == "2 cases, none failed"
    code, out, _ = sentinel("drill", str(file), "--json")
    assert [case["ok"] for case in json.loads(out)] == [True, True]


def test_a_plain_drill_file_is_a_case_too(tmp_path):
    assert not is_case_file(Path("policies/drills/kill.yaml"))
    assert run_case_files([Path("policies/drills/kill.yaml"), write(tmp_path / "q.yaml", QUIET)]).ok


def test_a_case_that_is_not_as_expected_says_so(tmp_path):
    wrong = CASES.replace("alerts: [ActivationReversal]", "alerts: []").replace("6990..7050", "10")
    wrong = wrong.replace("remedies: [lr]", "remedies: []")
    code, out, _ = sentinel("policy", "test", str(write(tmp_path / "cases.yaml", wrong)))
    assert code == 1
    assert "FAILED  activations turn" in out
    for sentence in ("alerts ActivationReversal, expected none", "expected 10", "remedies lr, expected none"):
        assert sentence in out


def test_another_policy_can_be_put_to_the_same_cases(tmp_path):
    file = write(tmp_path / "q.yaml", QUIET)
    report = run_case_files([file], policy="cautious")
    assert (report.ok, report.cases[0].policy) == (True, "cautious")


def test_a_policy_beside_its_cases_is_found_there(tmp_path):
    write(tmp_path / "mine.yaml", shipped_policy_path("cautious").read_text(encoding="utf-8"))
    assert run_case_files([write(tmp_path / "q.yaml", QUIET.replace("policy: default", "policy: mine.yaml"))]).ok


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (QUIET.replace("3x600", "3y600"), "3:33", "'3y600' is no part of a series"),
        (QUIET.replace("noise: 0.01", "noise: 2"), "3:10", "2 is no share"),
        (QUIET.replace("expect: {alerts: []}", "seed: 2"), "1:1", "nothing is expected"),
        (QUIET.replace("series: {", "series: {seeds: 3, "), "3:10", "unknown key 'seeds'"),
        ("cases: []\n", "1:1", "no case stands here"),
        (CASES.replace("onset: 6990..7050", "onset: later"), "10:57", "'later' is no step"),
        (CASES.replace("kill@", "kil@"), "14:14", "kil"),
    ],
)
def test_a_mistake_in_a_case_file_is_shown_where_it_stands(tmp_path, text, place, message):
    file = write(tmp_path / "x.yaml", text)
    with pytest.raises(PolicyError) as error:
        read_cases(file)
    first = str(error.value).splitlines()[0]
    assert first.startswith(f"{file}:{place}: "), first
    assert message in first


def test_series_are_written_as_for_promtool():
    assert parse_values("3x2 _ 1+0.5x2 _x2 -1e3") == (3, 3, 3, None, 1, 1.5, 2, None, None, -1000)
    assert parse_values(7) == (7,)
    assert str(parse_values("NaN Inf -Inf")) == "(nan, inf, -inf)"
    for wrong in ("", "3x", "x3", "1+x3", "1e", "9" * 7 + "x9999999", "1x99999 1x99999", True, None):
        with pytest.raises(Malformed):
            parse_values(wrong)


# schema


def test_schema_prints_what_is_shipped():
    code, out, _ = sentinel("policy", "schema")
    assert (code, out) == (0, Path("policies/schema.json").read_text(encoding="utf-8"))
    assert json.loads(out)["$defs"]["Rule"]["properties"]["expr"]["type"] == "string"
