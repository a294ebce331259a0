"""Planted mistakes: each file under mistakes/ reads well and cannot work, and the checker says so at the right place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.policy_files.check import check_files

HERE = Path(__file__).parent / "mistakes"
# File: (line:column, severity, path, part of the message, part of the remedy).
MISTAKES = {
    "bad_expression": ("13:23", "error", "spec.rules[1].expr", "'&' is no sign of expressions", "write '&&'"),
    "capability": ("14:9", "warning", "spec.playbooks.numeric[0].lr", "cannot change settings while it runs", "add a rollback"),
    "contradiction": ("14:9", "error", "spec.playbooks.numeric[0].resume", "a rung can do only one", "remove one"),
    "deeper_than_kept": ("17:20", "error", "spec.playbooks.numeric[2].rollback.further", "goes back 400 steps", "keep 5"),
    "inhibits_itself": ("9:41", "error", "spec.paging.inhibit[0].hold", "pages about GpuFault would wait for each other",
                        "let one of them page"),
    "loop_for_ever": ("21:5", "error", "spec.budget.without_progress", "a loop could run for ever", "write at most 20"),
    "muted_rule": ("9:71", "error", "spec.paging.mute[0].rules[0]", "no rule has the alert 'Stragler'", "'Straggler'"),
    "no_last_resort": ("15:9", "error", "spec.playbooks.numeric[1]", "nobody is called", "end the playbook with 'page"),
    "no_such_playbook": ("10:7", "error", "spec.rules[0].playbook", "no playbook 'numerical'", "did you mean 'numeric'?"),
    "two_triggers": ("12:7", "error", "spec.rules[1]", "both 'on' and 'expr'", "two rules"),
    "unknown_metric": ("13:20", "warning", "spec.rules[1].expr", "'grad_nrom' is no metric", "did you mean 'grad_norm'?"),
    "unknown_zone": ("9:24", "error", "spec.paging.mute[0].timezone", "'Europe/Berlim' is no timezone", "'Europe/Berlin'"),
    "unreachable_rung": ("17:9", "error", "spec.playbooks.numeric[2]", "never reached", "move this rung before the page"),
    "windows_without_end": ("10:9", "error", "spec.paging.mute[1]", "nights and days never end together", "leave a gap"),
    "window_too_long": ("15:19", "error", "spec.rules[1].expr", "longer than is kept", "write at most '10000 steps'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_shown_where_it_stands_with_its_remedy(name: str) -> None:
    place, severity, path, message, remedy = MISTAKES[name]
    report = check_files([str(HERE / f"{name}.yaml")], capabilities="skip")
    first = report.files[0].problems[0]
    assert (f"{first.line}:{first.column}", first.severity, first.path) == (place, severity, path)
    assert message in first.message
    assert remedy in first.remedy
    assert report.ok is (severity == "warning")
    warned = "warning: " if severity == "warning" else ""
    assert f"{name}.yaml:{place}: {warned}{path}: " in report.text


def test_every_planted_mistake_is_asked_about() -> None:
    assert {path.stem for path in HERE.glob("*.yaml")} == set(MISTAKES)


@pytest.mark.parametrize("name", [name for name in MISTAKES if name not in ("unreachable_rung",)])
def test_a_planted_mistake_is_the_only_one_of_its_file(name: str) -> None:
    (file,) = check_files([str(HERE / f"{name}.yaml")], capabilities="skip").files
    assert len(file.problems) == 1
