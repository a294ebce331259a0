"""Policies that extend others, as files: which file is meant, where errors are shown, what the digest covers."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.errors import PolicyError
from sentinel.policy_files.check import check_files
from sentinel.policy_files.explain import Assumed, explain, explain_rules, explain_text
from sentinel.policy_files.loading import (
    FILES_MAX,
    load_policy,
    policy_digest,
    read_policy_file,
    shipped_policies,
    shipped_policy_path,
)
from tests.unit.policy.policies_in_words import GOOD

HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\n"
DEFAULT = shipped_policy_path("default")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str, head: str = HEAD) -> Path:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(head + text, encoding="utf-8")
    return Path(name)


def refused(path: Path | str = "mine.yaml") -> list[str]:
    with pytest.raises(PolicyError) as error:
        load_policy(path)
    return str(error.value).splitlines()


# which file


def test_five_lines_over_the_default():
    policy = load_policy(write("mine.yaml", "extends: default\nspec: {mode: observe}\n"))
    assert policy.spec == load_policy(DEFAULT).spec.model_copy(update={"mode": "observe"})
    assert (policy.metadata.name, policy.metadata.description, policy.extends) == ("mine", "", "default")


def test_a_base_is_looked_for_beside_the_file_that_names_it(monkeypatch):
    write("team/base.yaml", "extends: ../root.yaml\nspec: {mode: observe}\n")
    write("root.yaml", "extends: default\nspec: {budget: {without_progress: 2}}\n")
    child = write("team/mine.yaml", "extends: base.yaml\nspec: {}\n").absolute()
    monkeypatch.chdir("/")
    read = read_policy_file(child)
    assert (read.policy.spec.mode, read.policy.spec.budget.without_progress) == ("observe", 2)
    assert [os.path.realpath(path) for path in read.bases] == [
        os.path.realpath(path) for path in (child.parent / "base.yaml", child.parent.parent / "root.yaml", DEFAULT)
    ]


def test_a_shipped_name_is_the_shipped_policy_whatever_lies_where_sentinel_is_started(folder, monkeypatch):
    child = write("team/mine.yaml", "extends: default\nspec: {}\n").absolute()
    write("default.yaml", "spec: 3\n")
    write("default", "spec: 3\n")
    assert len(load_policy(child).spec.rules) == 26
    write("team/default", GOOD, head="")
    assert [rule.alert for rule in load_policy(child).spec.rules] == ["Spike"], "a file beside it is nearer"


def test_spec_may_be_left_out_and_apiversion_kind_and_metadata_may_not():
    assert load_policy(write("mine.yaml", "extends: default\n")).spec == load_policy(DEFAULT).spec
    write("mine.yaml", "extends: default\n", head="kind: RemediationPolicy\n")
    lines = refused()
    assert "mine.yaml:1:1: apiVersion: 'apiVersion' is missing" in lines
    assert "mine.yaml:1:1: metadata: 'metadata' is missing" in lines


# what cannot be extended


def test_an_unknown_base_names_the_nearest_and_all_shipped_ones():
    write("mine.yaml", "extends: defualt\nspec: {}\n")
    assert refused() == [
        "mine.yaml:4:1: extends: 'defualt' is neither a shipped policy nor a file: there is no defualt",
        "  extends: defualt",
        "  ^",
        f"  remedy: did you mean 'default'? shipped policies: {', '.join(shipped_policies())}",
    ]


def test_an_ending_that_was_left_out_is_named():
    write("base.yaml", "extends: default\nspec: {}\n")
    write("mine.yaml", "extends: base\nspec: {}\n")
    assert refused()[-1] == "  remedy: did you mean 'base.yaml'?"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("team", "'team' (team): this is a directory, not a policy file"),
        ("''", "'' (.): this is a directory, not a policy file"),
        ("/dev/null", "'/dev/null' (/dev/null): this is not a regular file"),
        ("empty.yaml", "'empty.yaml' (empty.yaml): the file is empty"),
        ("latin.yaml", "'latin.yaml' (latin.yaml): line 1 is not UTF-8 text (byte 3)"),
        ("mine.yaml/x", "'mine.yaml/x' is neither a shipped policy nor a file: there is no mine.yaml/x"),
        ('"a\\0b"', "is neither a shipped policy nor a file"),
        ("x" * 300, "cannot be read: File name too long"),
        ("[default, demo]", "a list is not a policy"),
        ("3", "3 is not a policy"),
    ],
)
def test_what_is_no_policy_is_refused_where_it_is_named(value, message):
    Path("team").mkdir()
    Path("empty.yaml").touch()
    Path("latin.yaml").write_bytes(b"a: \xff\n")
    write("mine.yaml", f"extends: {value}\nspec: {{}}\n")
    lines = refused()
    assert lines[0].startswith("mine.yaml:4:1: extends: ")
    assert message in lines[0]
    assert lines[-1].startswith("  remedy: ")
    assert sum(" remedy: " in line for line in lines) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_base_outside_permission():
    write("base.yaml", "spec: {rules: []}\n").chmod(0)
    write("mine.yaml", "extends: base.yaml\nspec: {}\n")
    assert "'base.yaml' (base.yaml): cannot be read: Permission denied" in refused()[0]


def test_a_base_that_may_not_be_read(monkeypatch):
    write("base.yaml", "spec: {rules: []}\n")
    write("mine.yaml", "extends: base.yaml\nspec: {}\n")
    opened = Path.open

    def denied(self, *words, **more):
        if self.name == "base.yaml":
            raise PermissionError(13, "Permission denied")
        return opened(self, *words, **more)

    monkeypatch.setattr(Path, "open", denied)
    assert "mine.yaml:4:1: extends: 'base.yaml' (base.yaml): cannot be read: Permission denied" in refused()[0]


def test_a_circle_is_named():
    write("mine.yaml", "extends: mine.yaml\n")
    assert "extends: a circle: mine.yaml extends mine.yaml" in refused()[0]
    write("mine.yaml", "extends: a.yaml\n")
    write("a.yaml", "extends: ./team/b.yaml\nspec: {}\n")
    write("team/b.yaml", "extends: ../a.yaml\nspec: {}\n")
    lines = refused()
    assert lines[0] == "team/b.yaml:4:1: extends: a circle: a.yaml extends b.yaml extends a.yaml"
    assert lines[-1] == "  extended by: mine.yaml"


def test_a_chain_is_bounded():
    for number in range(FILES_MAX - 2):
        write(f"{number}.yaml", f"extends: {number + 1}.yaml\nspec: {{}}\n")
    write(f"{FILES_MAX - 2}.yaml", "extends: default\nspec: {}\n")
    assert load_policy("0.yaml").metadata.name == "mine"
    write("mine.yaml", "extends: 0.yaml\n")
    assert f"more than {FILES_MAX} policies, each extending the next" in refused()[0]


@pytest.mark.parametrize(
    ("head", "body", "first"),
    [
        (
            HEAD.replace("v1", "v2"),
            "spec: {}\n",
            "base.yaml:1:1: apiVersion: 'sentinel/v2' is not 'sentinel/v1', the only value here",
        ),
        (HEAD.replace("Remediation", "Drill"), "spec: {}\n", "base.yaml:2:1: kind: 'DrillPolicy' is not 'RemediationPolicy'"),
        (HEAD, "spec: {}\nspecs: {}\n", "base.yaml:5:1: specs: unknown key 'specs'"),
        (HEAD, "spec: 3\n", "base.yaml:4:1: spec: 3 is not a mapping"),
        (HEAD, "extends: [a]\nspec: {}\n", "base.yaml:4:1: extends: a list is not a policy"),
        (HEAD, "remove: [rules.A]\nspec: {}\n", "base.yaml:4:1: remove: there is nothing to remove from"),
        ("", "words\n", "base.yaml:1:1: document: 'words' is not a mapping"),
        ("", "a: [\n", "base.yaml:2:1: document: not YAML"),
        ("", "a: &x 1\n", "base.yaml:1:4: a: '&x' is an anchor"),
        (HEAD, "spec: {rules: [{alert: A}, {alert: A}]}\n", "base.yaml:4:28: spec.rules[1]: 'A' stands here twice"),
    ],
)
def test_a_base_that_is_no_policy_is_shown_in_its_own_file(head, body, first):
    write("base.yaml", body, head)
    write("mine.yaml", "extends: base.yaml\nspec: {mode: observe}\n")
    lines = refused()
    assert lines[0].startswith(first)
    assert lines[-1] == "  extended by: mine.yaml"


def test_remove_without_a_base():
    write("mine.yaml", "remove: [rules.Spike]\nspec: {rules: []}\n")
    assert refused()[0] == "mine.yaml:4:1: remove: there is nothing to remove from: this policy extends no other"


# where an error is shown


def test_a_wrong_value_is_shown_in_the_file_in_which_it_stands():
    write("base.yaml", "extends: default\nspec:\n  rules:\n  - {alert: Drift, labels: {severity: warn}}\n")
    write("mine.yaml", "extends: base.yaml\nspec:\n  detectors:\n    spike: {z: '8'}\n")
    assert refused() == [
        "mine.yaml:7:13: spec.detectors.spike.z: '8' is not a number",
        "      spike: {z: '8'}",
        "              ^",
        "  remedy: write a plain number, without quotes or unit",
        "base.yaml:7:29: spec.rules[0].labels.severity: 'warn' is not known here",
        "    - {alert: Drift, labels: {severity: warn}}",
        "                              ^",
        "  remedy: did you mean 'warning'? one of: info, warning, critical",
        "  extended by: mine.yaml",
    ]


def test_a_wrong_value_that_is_replaced_does_no_harm():
    write("base.yaml", "extends: default\nspec: {detectors: {spike: {z: '8'}}}\n")
    assert load_policy(write("mine.yaml", "extends: base.yaml\nspec: {detectors: {spike: {z: 9}}}\n")).spec.detectors.spike.z == 9


def test_the_caret_finds_a_character_of_an_expression_in_a_base():
    write("base.yaml", "extends: default\nspec:\n  rules:\n  - {alert: Mine, expr: loss = 3, labels: {severity: info}}\n")
    write("mine.yaml", "extends: base.yaml\nspec: {rules: [{alert: Spike, for: 3 steps}]}\n")
    assert refused()[0] == "base.yaml:7:30: spec.rules[0].expr: '=' is no sign of expressions"


COMBINED = [
    (
        "spec: {detectors: {spike: {level: 300 steps}}}", "5:28: spec.detectors.spike.level",
        "the level (300 steps) must be shorter than the window (200 steps); it extends 'default'",
    ),
    (
        "spec: {detectors: {spike: {window: 10 steps}}}", "5:28: spec.detectors.spike.window",
        "the level (20 steps) must be shorter than the window (10 steps) (spec.detectors.spike.level of 'default', {default}:",
    ),
    (
        "spec: {budget: {restarts: 2 per 1h}}", "5:17: spec.budget.restarts",
        "3 is never reached: restarts are cut to 2 per period first, so a loop could run for ever (spec.budget.without_progress",
    ),
    (
        "spec: {rules: [{alert: Spike, playbook: numerix}]}", "5:31: spec.rules[0].playbook",
        "there is no playbook 'numerix'; it extends 'default'",
    ),
    (
        "spec: {rules: [{alert: Mine, on: spike, playbook: tell}]}", "5:30: spec.rules[0].on",
        "never reached: 'Spike' ({default}:59) already takes every 'spike'",
    ),
    ("remove: [playbooks.hardware]", "5:10: remove[0]", "there is no playbook 'hardware' (spec.rules[21].playbook of 'default'"),
    ("remove: [paging.routes.terminal]", "5:10: remove[0]", "a page would reach nobody (spec.paging.routes of 'default'"),
    ("remove: [rules.Spik]", "5:10: remove[0]", "there is no 'rules.Spik' to remove"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "place", "message"), COMBINED)
def test_what_is_wrong_only_together_is_shown_where_the_child_wrote_it(body, place, message):
    write("mine.yaml", f"extends: default\n{body}\n")
    first = refused()[0]
    assert first.startswith(f"mine.yaml:{place}: ")
    assert message.replace("{default}", str(DEFAULT)) in first
    write(
        "grandchild.yaml",
        "extends: mine.yaml\nspec: {mode: observe, rules: [{alert: Aside, expr: loss > 9, labels: {severity: info}}]}\n",
    )
    lines = refused("grandchild.yaml")
    assert lines[0].startswith(f"mine.yaml:{place}: "), "and there, too, when another extends it"
    assert lines[-1] == "  extended by: grandchild.yaml"


def test_a_warning_is_shown_where_the_child_caused_it():
    read = read_policy_file(write("mine.yaml", "extends: default\nspec: {mode: observe, detectors: {hang: off}}\n"))
    (warning,) = read.warnings
    assert (warning.file, warning.line, warning.column, warning.path) == ("", 5, 35, "spec.detectors.hang")
    assert "'hang' is never found, because the detector 'hang' is switched off (spec.rules[11].on of 'default'" in warning.message
    assert read.print_warnings().startswith("mine.yaml:5:35: warning: spec.detectors.hang: ")


def test_a_warning_about_what_was_removed_is_shown_at_the_removal():
    body = "extends: default\nremove: [rules.StaleCheckpoint, rules.TooGood]\nspec: {rules: [{alert: Spike, for: 3 steps}]}\n"
    (warning,) = read_policy_file(write("mine.yaml", body)).warnings
    assert (warning.path, warning.line, warning.column) == ("remove[1]", 5, 33)
    assert warning.message.startswith("no rule is on 'too_good'")


def test_a_rule_that_misses_something_by_one_word_of_the_child_is_shown_at_that_word():
    write("mine.yaml", "extends: default\nspec: {rules: [{alert: Plateau, labels: {severity: critical}}]}\n")
    assert refused()[0].startswith("mine.yaml:5:42: spec.rules[0].labels.severity: 'Plateau' is critical but has no playbook")


def test_an_unused_playbook_of_the_base_is_a_question_about_the_rules_that_left_it():
    write("mine.yaml", "extends: palm-540b\nspec: {rules: [{alert: Crash, playbook: call}, {alert: Hang, playbook: call}]}\n")
    (warning,) = read_policy_file("mine.yaml").warnings
    assert (warning.line, warning.file) == (5, "")
    assert "no rule uses this playbook (spec.playbooks.restart of 'palm-540b'" in warning.message


def test_a_missing_capability_in_a_rung_of_the_base_is_shown_there():
    write("mine.yaml", "extends: default\nspec: {mode: observe}\n")
    found = [one for one in read_policy_file("mine.yaml", {"live_overrides"}).warnings if "cannot skip samples" in one.message]
    assert found
    assert {Path(one.file).name for one in found} == {"default.yaml"}


def test_the_example_of_the_language_page_loads_without_a_warning():
    page = DEFAULT.with_name("README.md").read_text(encoding="utf-8").split("This is a whole policy:\n\n")[1]
    lines = itertools.takewhile(lambda line: line.startswith("    "), page.splitlines())
    read = read_policy_file(write("mine.yaml", textwrap.dedent("\n".join(lines)), head=""))
    assert read.warnings == ()
    rules = {rule.alert: rule for rule in read.policy.spec.rules}
    assert (rules["GpuFault"].playbook, "StaleCheckpoint" in rules, list(rules)[-1]) == ("restart", False, "Jump")


# digest


def test_a_policy_that_extends_none_has_the_digest_of_its_bytes():
    path = write("mine.yaml", GOOD, head="# extends: nothing\n")
    assert policy_digest(path) == read_policy_file(path).digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_digest_covers_every_file_of_the_chain():
    base = write("base.yaml", "extends: default\nspec: {mode: observe}\n")
    path = write("mine.yaml", "extends: base.yaml\nspec: {}\n")
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (path, base, DEFAULT)]
    assert policy_digest(path) == read_policy_file(path).digest == hashlib.sha256("\n".join(digests).encode()).hexdigest()
    before = policy_digest(path)
    write("base.yaml", "extends: default\nspec: {mode: act}\n")
    assert policy_digest(path) != before


def test_a_broken_file_has_the_digest_of_its_bytes_and_one_without_its_base_none():
    path = write("mine.yaml", "extends: base.yaml\nextends: base.yaml\n")
    assert policy_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(PolicyError, match="neither a shipped policy nor a file"):
        policy_digest(write("mine.yaml", "extends: base.yaml\n"))


# what a reference is relative to


def test_a_relative_reference_starts_at_the_file_that_names_it(folder):
    write("team/base.yaml", "extends: default\nspec: {detectors: {behind_reference: {reference: run/log.csv}}}\n")
    child = write("mine.yaml", "extends: team/base.yaml\nspec: {detectors: {behind_reference: {ratio: 0.2}}}\n")
    assert load_policy(child).spec.detectors.behind_reference.reference == str(folder / "team" / "run" / "log.csv")
    own = write("own.yaml", "extends: team/base.yaml\nspec: {detectors: {behind_reference: {reference: other.csv}}}\n")
    assert load_policy(own).spec.detectors.behind_reference.reference == "other.csv"
    beside = write("team/mine.yaml", "extends: base.yaml\n")
    assert load_policy(beside).spec.detectors.behind_reference.reference == "run/log.csv"
    assert load_policy(write("off.yaml", "extends: default\nspec: {detectors: {behind_reference: off}}\n"))


# check, explain, show


def sentinel(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


def test_check_says_what_is_extended_and_json_which_file_a_problem_is_in():
    write("mine.yaml", "extends: base.yaml\n")
    write("base.yaml", "extends: default\nspec: {}\n")
    assert check_files(["mine.yaml"]).text.endswith("; mode act; extends base.yaml")
    write("base.yaml", "extends: default\nspec: {mode: watch}\n")
    code, out = sentinel("policy", "check", "--json", "mine.yaml")
    ((problem,),) = [file["problems"] for file in json.loads(out)]
    assert (code, problem["file"], problem["line"], problem["path"]) == (2, "base.yaml", 5, "spec.mode")


def test_explain_says_what_is_extended():
    policy = load_policy(write("mine.yaml", "extends: default\nspec: {mode: observe}\n"))
    explained = explain(policy, "spike", Assumed())
    assert explain_rules(policy).startswith("policy mine (extends default): ")
    assert explain_text(explained).startswith("policy mine (extends default), finding spike\n")
    assert explained.document["extends"] == "default"
    assert "extends" not in explain(load_policy(DEFAULT), "spike", Assumed()).document


@pytest.mark.parametrize("name", shipped_policies())
def test_what_show_prints_is_the_same_policy_and_stands_on_its_own(name):
    code, out = sentinel("policy", "show", name)
    assert code == 0
    assert "extends:" not in out
    Path("shown.yaml").write_text(out, encoding="utf-8")
    shown, shipped = load_policy("shown.yaml"), load_policy(shipped_policy_path(name))
    assert (shown.metadata, shown.spec, shown.extends) == (shipped.metadata, shipped.spec, None)


def test_show_names_the_files_and_refuses_what_check_refuses():
    write("mine.yaml", "extends: default\nspec: {mode: observe}\n")
    assert sentinel("policy", "show", "mine.yaml")[1].splitlines()[0] == f"# mine.yaml over {DEFAULT}"
    write("mine.yaml", "extends: default\nspec: {mode: obsrve}\n")
    with pytest.raises(PolicyError, match="did you mean 'observe'"):
        CliRunner().invoke(app, ["policy", "show", "mine.yaml"], catch_exceptions=False)
