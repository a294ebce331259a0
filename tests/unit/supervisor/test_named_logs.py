"""Which log files, beside those of ranks and launcher, a policy's patterns are looked for in, and that each launch notes how long
they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.errors import RetryLater
from sentinel.journal.lease import Lease
from sentinel.journal.run_file import PolicyReference, RunFile
from sentinel.journal.run_lock import RunLock
from sentinel.model.actions import StartAttempt
from sentinel.model.attempts import AttemptSpec, SettingsInForce
from sentinel.policy_files.loading import read_policy_file
from sentinel.supervisor.handlers import build_handlers
from sentinel.supervisor.ruled import rule_run
from sentinel.supervisor.run_request import RunRequest
from sentinel.telemetry.named_logs import NOTED_NAME

HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\nextends: default\nspec:\n"
PROFILE = """apiVersion: sentinel/v1
kind: TrainerProfile
metadata: {name: mine}
spec:
  metrics: {from: file, path: [out/*.txt, "out/**/events.out.tfevents.*"]}
"""


def named(folder: Path, spec: str, trainer: str | None = None) -> tuple[str, ...]:
    policy = folder / "mine.yaml"
    policy.write_text(HEAD + spec)
    request = RunRequest(folder / "run", str(policy), ("sh",), "/work[1]", trainer=trainer)
    return rule_run(request, request.run_dir, 0.0).named_logs


def test_those_of_the_policy_count_from_where_the_command_starts_and_those_of_the_profile_follow(tmp_path: Path) -> None:
    spec = "  run: {log_files: [logs/*.log, /var/log/nv.log]}\n  logs: [{match: link down}]\n"
    assert named(tmp_path, spec) == ("/work[[]1]/logs/*.log", "/var/log/nv.log")
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    assert named(tmp_path, spec, str(profile))[2:] == ("/work[[]1]/out/*.txt",), "and no event files"
    assert named(tmp_path, "  mode: act\n", str(profile)) == (), "there is nothing to look for"


def test_files_in_which_nothing_is_looked_for_are_asked_about_and_a_path_is_one_line(tmp_path: Path) -> None:
    policy = tmp_path / "mine.yaml"
    policy.write_text(f"{HEAD}  run: {{log_files: [train.log]}}\n")
    assert "spec.run.log_files: nothing is looked for in these files" in read_policy_file(policy, set()).print_warnings()


def test_a_launch_notes_first_how_long_they_are(tmp_path: Path) -> None:
    """The launcher refuses here: what stood before was noted all the same."""
    log = tmp_path / "train.log"
    log.write_text("of attempt 1\n")
    run = RunFile("r", ("true",), "/", PolicyReference("default.yaml", "d", "default"), "local", "2026-11-20T00:00:00+00:00")
    noted: list[Any] = []

    class Refusing:
        def ensure_started(self, spec: AttemptSpec) -> Any:
            noted.append(json.loads((tmp_path / NOTED_NAME).read_text()))
            raise RetryLater("not now", 1.0)

    launcher: Any = Refusing()
    with RunLock.acquire(tmp_path) as lock:
        lease = Lease.publish(lock, 1)
        handlers = build_handlers(tmp_path, launcher, lease, run, lambda page: "", frozenset(), named_logs=(str(log),))
        with pytest.raises(RetryLater):
            handlers[StartAttempt](StartAttempt("start/2", 2, None, SettingsInForce()))
    assert [(one["attempt"], one["files"][str(log)]["size"]) for one in noted] == [(2, len("of attempt 1\n"))]
