"""`sentinel trainers …` and `--trainer` of the policy commands: what a profile can do, and what is wrong with one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app, main
from sentinel.policy_files.schema_json import policy_json_schema_text
from sentinel.trainers.describe import what_it_can
from sentinel.trainers.loading import load_profile, shipped_profiles

MISTAKEN = """apiVersion: sentinel/v1
kind: TrainerProfile
metadata: {name: mine}
spec:
  metrics: {from: outputs}
  checkpoints: {path: out, pattern: "step-{step}"}
"""


def told(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_shipped_profile_is_listed_with_what_it_can() -> None:
    rows = {row["name"]: row for row in json.loads(told("trainers", "list", "--json"))}
    assert tuple(sorted(rows)) == shipped_profiles()
    assert rows["megatron"]["skips"]
    assert rows["megatron"]["rolls_back"]
    assert rows["hf-trainer"]["settings"] == ["clip_norm", "checkpoint_interval", "data_seed", "precision"]
    assert not rows["exit-only"]["rolls_back"]
    assert rows["exit-only"]["restarts"]
    text = told("trainers", "list")
    assert all(f"{name}: " in text for name in rows)


def test_what_is_shown_is_a_profile_with_its_options_filled_in(tmp_path: Path) -> None:
    asked = "hf-trainer:root_flag=--out,keep=7"
    shown = told("trainers", "show", asked)
    assert "$" not in shown
    file = tmp_path / "mine.yaml"
    file.write_text(shown)
    assert load_profile(str(file)).spec == load_profile(asked).spec


def test_an_option_that_nobody_gave_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    head = "apiVersion: sentinel/v1\nkind: TrainerProfile\nmetadata: {name: mine}\n"
    file.write_text(head + "spec:\n  metrics: {from: file, path: $place/log.csv}\n")
    assert "needs the option place, as in mine:place=…" in what_it_can(load_profile(str(file)))


def test_a_trainer_that_goes_on_by_itself_is_rolled_back_by_moving_newer_checkpoints_aside(tmp_path: Path) -> None:
    head = "apiVersion: sentinel/v1\nkind: TrainerProfile\nmetadata: {name: mine}\n"
    places = "spec:\n  checkpoints: {root: [--out], pattern: 'save-{step}'}\n  resume: {arguments: "
    by_itself = "; newer ones are moved aside, and it has to go on from the newest by itself"
    for arguments, ending in (("[]", by_itself), ("[--go-on]", "")):
        file = tmp_path / "mine.yaml"
        file.write_text(f"{head}{places}{arguments}}}\n")
        assert f"rolled back: by checkpoints save-{{step}} below --out{ending}" in what_it_can(load_profile(str(file)))


def test_a_mistaken_profile_is_refused_with_line_caret_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MISTAKEN)
    done = CliRunner().invoke(app, ["trainers", "check", "megatron", str(file)])
    assert done.exit_code == 2
    assert f"{file}:5:13: spec.metrics.from: " in done.stderr
    assert "^" in done.stderr
    assert "did you mean 'output'?" in done.stderr
    (fine, wrong) = json.loads(CliRunner().invoke(app, ["trainers", "check", "megatron", str(file), "--json"]).stdout)
    assert fine["ok"]
    assert not wrong["ok"]
    assert wrong["problems"][0]["line"] == 5


@pytest.mark.parametrize("name", shipped_profiles())
def test_the_schema_knows_every_key_of_the_shipped_profiles(name: str) -> None:
    schema = json.loads(told("trainers", "schema"))
    assert schema["$schema"].endswith("2020-12/schema")
    known = schema["$defs"]["ProfileSpec"]["properties"]
    spec = load_profile(name).model_dump(by_alias=True)["spec"]
    assert set(spec) <= set(known)
    assert known["data"]["description"].startswith("by step:")


def test_explain_shows_the_rungs_that_are_left_under_a_profile() -> None:
    explained = json.loads(told("policy", "explain", "default", "--finding", "spike", "--trainer", "hf-trainer", "--json"))
    assert explained["trainer"] == "hf-trainer"
    passed_over = {rung["rung"]: [one["needs"] for one in rung["passed_over"]] for rung in explained["rungs"]}
    assert passed_over["wait"] == []
    assert passed_over["page"] == []
    assert passed_over["rollback + skip + lr"] == ["skip", "setting lr_scale"]
    text = told("policy", "explain", "default", "--finding", "spike", "--trainer", "hf-trainer")
    assert "passed over: the trainer cannot skip samples" in text
    assert "takes up to 0;" in text
    assert "passed over" not in told("policy", "explain", "default", "--finding", "spike", "--trainer", "megatron")


def test_explain_does_not_assume_checkpoints_that_a_profile_does_not_have() -> None:
    text = told("policy", "explain", "default", "--finding", "crash", "--trainer", "exit-only")
    assert "no checkpoint, 512 samples" in text
    assert "start from scratch" in text


def test_check_warns_of_a_setting_that_the_profile_has_no_argument_for() -> None:
    text = told("policy", "check", "default", "--trainer", "hf-trainer")
    assert "the trainer cannot be given the learning rate: its profile has no argument for it" in text
    assert "cannot be given" not in told("policy", "check", "default", "--trainer", "megatron")


@pytest.mark.parametrize(
    "words",
    [
        ["trainers", "show", "megatorn"],
        ["trainers", "check", "no-such-profile.yaml"],
        ["policy", "explain", "default", "--trainer", "megatron"],
        ["policy", "check", "default", "--trainer", "megatron", "--capabilities", "skip"],
        ["policy", "check", "default", "--trainer", "megatron:rot=x"],
    ],
    ids=" ".join,
)
def test_a_wrong_word_ends_with_2_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sentinel", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capfd.readouterr().err.strip()


def test_the_schema_of_policies_is_the_same_beside_that_of_profiles() -> None:
    """Both languages have a `Spec`; the one takes no description from the other."""
    told("trainers", "schema")
    assert policy_json_schema_text() == (Path(__file__).resolve().parents[3] / "policies/schema.json").read_text()
