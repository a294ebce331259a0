"""A policy that leaves many findings without a rule asks its author once, and names them all."""

from __future__ import annotations

from pathlib import Path

from sentinel.policy_files.check import check_files
from sentinel.policy_files.loading import read_policy_file

HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\n"


def written(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + body, encoding="utf-8")
    return path


def test_a_policy_without_rules_is_asked_once_about_all_that_nothing_is_done_about(tmp_path: Path) -> None:
    path = written(tmp_path, "spec:\n  rules: []\n")
    (warning,) = read_policy_file(path).warnings
    assert (warning.line, warning.column, warning.path) == (5, 3, "spec.rules")
    kinds = ("non_finite", "spike", "loss_scale_collapse", "drift", "divergence", "too_good", "hang", "crash", "broken_job")
    named = ", ".join(f"'{kind}'" for kind in kinds)
    assert warning.message == f"no rule is on {named}: what the detectors find is recorded, and nothing is done"
    assert "begin the file with `extends: default`" in warning.remedy
    assert warning.remedy.count("crash: off") == 1, "one detector makes two of them"
    report = check_files([str(path)])
    assert (report.ok, report.text.count("warning:")) == (True, 1)


def test_what_two_lines_of_a_policy_cause_is_asked_at_each(tmp_path: Path) -> None:
    body = "extends: default\nremove: [rules.Crash, rules.TooGood]\n"
    one, other = read_policy_file(written(tmp_path, body)).warnings
    assert {one.path, other.path} == {"remove[0]", "remove[1]"}
    assert one.message.startswith("no rule is on '")
    assert "', '" not in one.message + other.message
