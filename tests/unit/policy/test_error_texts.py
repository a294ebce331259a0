"""Every mistake in a policy file prints its place, the line, a caret and the remedy, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.errors import PolicyError
from sentinel.policy_files.loading import load_policy
from tests.unit.policy.policies_in_words import GOOD


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Writes a file, loads it, and returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def load(old: str, new: str, text: str = GOOD) -> str:
        assert old in text
        Path("x.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(PolicyError) as error:
            load_policy("x.yaml")
        return str(error.value)

    return load


@pytest.mark.parametrize(
    ("old", "new", "printed"),
    [
        (
            "    for: 2 steps", "    for: 2 stepz",
            """\
x.yaml:10:5: spec.rules[0].for: '2 stepz' is not a number of steps or a duration
      for: 2 stepz
      ^
  remedy: write it as '2 steps' or '30s'""",
        ),
        (
            "    playbook:", "    playbok:",
            """\
x.yaml:12:5: spec.rules[0].playbok: unknown key 'playbok'
      playbok: numeric
      ^
  remedy: did you mean 'playbook'? known here: alert, on, expr, for, keep_firing_for, on_nonfinite, labels, annotations, playbook""",  # noqa: E501 - as printed
        ),
        (
            "- alert: Spike", "- alart: Spike",
            """\
x.yaml:8:5: spec.rules[0].alart: unknown key 'alart'
    - alart: Spike
      ^
  remedy: did you mean 'alert'? known here: alert, on, expr, for, keep_firing_for, on_nonfinite, labels, annotations, playbook""",
        ),
        (
            "{z: 8}", "{z: '8'}",
            """\
x.yaml:6:13: spec.detectors.spike.z: '8' is not a number
      spike: {z: '8'}
              ^
  remedy: write a plain number, without quotes or unit""",
        ),
        (
            "spike: {z: 8}", "slowdown: {factor: 0.9x}",
            """\
x.yaml:6:16: spec.detectors.slowdown.factor: '0.9x' is no more than usual: every healthy run would be found
      slowdown: {factor: 0.9x}
                 ^
  remedy: write at least '1.2x'""",
        ),
        (
            "spike: {z: 8}", "stale_checkpoint: {max_age: 6}",
            """\
x.yaml:6:24: spec.detectors.stale_checkpoint.max_age: 6 has no unit; a duration was expected
      stale_checkpoint: {max_age: 6}
                         ^
  remedy: write it as '30s', '5m' or '2h'""",
        ),
        (
            "severity: warning", "severity: warn",
            """\
x.yaml:11:14: spec.rules[0].labels.severity: 'warn' is not known here
      labels: {severity: warn}
               ^
  remedy: did you mean 'warning'? one of: info, warning, critical""",
        ),
        (
            "    for: 2 steps", "    for: 2 steps\n    for: 3 steps",
            """\
x.yaml:11:5: spec.rules[0].for: 'for' is written twice
      for: 3 steps
      ^
  remedy: it stands on line 10 already; keep one""",
        ),
        (
            "on: spike", "on: *spike",
            """\
x.yaml:9:9: spec.rules[0].on: '*spike' is an alias
      on: *spike
          ^
  remedy: write the value out; aliases are not allowed""",
        ),
        (
            "{name: x}", "&m {name: x}",
            """\
x.yaml:3:11: metadata: '&m' is an anchor
  metadata: &m {name: x}
            ^
  remedy: remove it; anchors and aliases are not allowed""",
        ),
        (
            "on: spike", "on: !!str spike",
            """\
x.yaml:9:9: spec.rules[0].on: 'tag:yaml.org,2002:str' is a tag
      on: !!str spike
          ^
  remedy: remove it; tags are not allowed""",
        ),
        (
            "on: spike", "on:",
            """\
x.yaml:9:5: spec.rules[0].on: 'on' has no value
      on:
      ^
  remedy: write a value, or remove the line""",
        ),
        (
            "before_onset: 100 steps", "before_onset: 100",
            """\
x.yaml:15:18: spec.playbooks.numeric[0].rollback.before_onset: 100 has no unit; a number of steps was expected
      - rollback: {before_onset: 100}
                   ^
  remedy: write it as '200 steps'""",
        ),
        (
            "    on: spike\n", "    expr: loss = 3\n",
            """\
x.yaml:9:16: spec.rules[0].expr: '=' is no sign of expressions
      expr: loss = 3
                 ^
  remedy: write '==' to compare""",
        ),
        (
            "    on: spike\n", "    on: spike\n    expr: loss > 3\n",
            """\
x.yaml:8:5: spec.rules[0]: the rule has both 'on' and 'expr'
    - alert: Spike
      ^
  remedy: write on: <finding>, or expr: <condition over metrics>; two rules where you want both""",
        ),
        (
            "playbook: numeric", "playbook: numerical",
            """\
x.yaml:12:5: spec.rules[0].playbook: there is no playbook 'numerical'
      playbook: numerical
      ^
  remedy: did you mean 'numeric'? playbooks here: numeric""",
        ),
        (
            "    - page: {severity: critical}\n      then: stop_now\n", "",
            """\
x.yaml:15:7: spec.playbooks.numeric[0]: no last resort: when this rung fails, nobody is called
      - rollback: {before_onset: 100 steps}
        ^
  remedy: end the playbook with 'page: {severity: critical}' and 'then: stop_now'""",
        ),
        (
            "metadata: {name: x}\n", "",
            """\
x.yaml:1:1: metadata: 'metadata' is missing
  apiVersion: sentinel/v1
  ^
  remedy: add 'metadata:' here""",
        ),
        (
            "spec:\n", "spec:\n  paging: {routes: [{pager: {}}]}\n",
            """\
x.yaml:5:21: spec.paging.routes[0]: pager is no channel
    paging: {routes: [{pager: {}}]}
                      ^
  remedy: did you mean 'pagerduty'? write one of terminal, pagerduty, alertmanager, slack, teams, webhook, email, command, \
apprise, such as 'terminal: {}'""",
        ),
        (
            "spec:\n", "spec:\n  paging: {routes: [{slack: {webhook: 'https://hooks.example/x'}}]}\n",
            """\
x.yaml:5:30: spec.paging.routes[0].slack.webhook: a secret never stands in a policy itself
    paging: {routes: [{slack: {webhook: …
                               ^
  remedy: write where it lies: {env: NAME} or {file: PATH}""",
        ),
        (
            "spec:\n", "spec:\n  paging: {routes: [{slack: {webhook: {env: https://hooks.example/x}, x: 1}}]}\n",
            """\
x.yaml:5:30: spec.paging.routes[0].slack.webhook: what stands at env is not the name of a variable
    paging: {routes: [{slack: {webhook: …
                               ^
  remedy: write {env: PAGE_KEY}, say, and put the secret into that variable of sentinel's
x.yaml:5:71: spec.paging.routes[0].slack.x: unknown key 'x'
    paging: {routes: [{slack: {webhook: …
  remedy: known here: name, after, severity, messages, webhook, token, channel, signing_secret, people, url""",
        ),
        (
            "    spike: {z: 8}", "    spike: {z: 8\n  rules: 3",
            """\
x.yaml:7:8: document: not YAML: did not find expected ',' or '}'
    rules: 3
         ^
  remedy: check indentation, quotes, brackets and colons""",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_shown_where_it_stands(refused, old, new, printed):
    assert refused(old, new) == printed


@pytest.mark.parametrize("number", ["0x" + "f" * 20_000, "0o" + "7" * 20_000, "9" * 20_000])
def test_a_number_that_cannot_be_written_out_is_refused_where_it_stands(refused, number):
    """Python shows no whole number of more than 4300 digits, and reads a hexadecimal or octal one of any length."""
    first, *_, last = refused("{z: 8}", f"{{z: {number}}}").splitlines()
    assert first == f"x.yaml:6:16: spec.detectors.spike.z: a number of {len(number)} characters"
    assert last == "  remedy: write a shorter one"


def test_all_problems_are_listed_in_the_order_of_the_file(refused):
    printed = refused("{z: 8}", "{z: 8, zz: 1}", GOOD.replace("then: stop_now", "then: stop"))
    heads = [line.split(": ", 1)[0] for line in printed.splitlines() if line.startswith("x.yaml")]
    assert heads == ["x.yaml:6:19", "x.yaml:17:7"]


def test_after_twenty_problems_only_their_number(refused):
    printed = refused("{z: 8}", "{" + ", ".join(f"unknown{i}: 1" for i in range(30)) + "}")
    assert printed.splitlines()[-1] == "x.yaml: and 10 more"


def test_a_very_long_line_is_cut_around_the_caret(refused):
    printed = refused("{z: 8}", "{z: 8" + " " * 400 + ", oops: 1}").splitlines()
    assert len(printed[1]) <= 112
    assert printed[1][printed[2].index("^") :].startswith("oops")
