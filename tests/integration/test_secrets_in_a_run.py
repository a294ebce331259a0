"""A real run whose command, environment, logs and exceptions are full of secrets: they stand in the files that need them, and in
no other, and nobody is shown them."""

from __future__ import annotations

import grp
import json
import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised
from tests.unit.client.test_masking import SECRETS

# The files of a run directory that hold secrets unmasked, and why. Their modes protect them (SECURITY.md).
WHOLE = {
    "run.json": "the command, which a relaunch needs",
    "attempts/0001/spec.json": "the command that was launched",
    "attempts/0001/logs/launcher.out": "what the trainer prints goes into its log without a detour",
    "attempts/0001/logs/launcher.err": "as launcher.out",
}
TRAINER = """
import os, sys
from sentinel.client.session import Session
session = Session.from_environment()
session.start(resume_step=0, resume_digest=None, world_size=1, params=1, tokens_per_step=1, effective={})
session.step(1, loss=2.0)
session.event("remark", reason="cannot log in with " + os.environ["WANDB_API_KEY"])
print("using", sys.argv[2], flush=True)
error = ConnectionError("401 Unauthorized for https://ada:" + os.environ["DB_PASSWORD"] + "@host/x with " + sys.argv[2])
print("Traceback (most recent call last):", "ConnectionError: " + str(error), sep="\\n", file=sys.stderr, flush=True)
session.record_exit(1, error)
sys.exit(1)
"""
POLICY = {
    "apiVersion": "sentinel/v1", "kind": "RemediationPolicy", "metadata": {"name": "leaks"},
    "spec": {
        "rules": [{"alert": "Crash", "on": "crash", "labels": {"severity": "critical"}, "playbook": "stop"}],
        "playbooks": {"stop": [{"page": {"severity": "critical"}, "then": "stop_now"}]},
    },
}  # fmt: skip


OWN_GROUP = grp.getgrgid(os.getegid()).gr_name


@pytest.mark.parametrize(
    ("shared", "folder", "file"),
    [pytest.param((), 0o700, 0o600, marks=pytest.mark.slow), (("--share-with", OWN_GROUP), 0o2750, 0o640)],
)
def test_a_drawn_secret_is_in_no_file_but_those_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: tuple[str, ...], folder: int, file: int
) -> None:
    drawn: list[str] = []  # one run for all of them: it takes seconds

    @seed(1)
    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(SECRETS)
    def draw(value: str) -> None:
        drawn.append(value)

    draw()
    argued, listed, stored = sorted(set(drawn), key=len)[-3:]
    monkeypatch.setenv("WANDB_API_KEY", listed)
    monkeypatch.setenv("DB_PASSWORD", stored)
    (tmp_path / "train.py").write_text(TRAINER)
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    command = [sys.executable, str(tmp_path / "train.py"), "--api-key", argued]
    run = Supervised(tmp_path / "run", command, str(tmp_path / "policy.json"), ["--without", "skip", *shared]).start()
    assert run.wait() == 1, run.log
    made = [run.run_dir, *run.run_dir.rglob("*")]
    wide = {str(path): oct(path.stat().st_mode) for path in made if stat.S_IMODE(path.stat().st_mode) not in (folder, file)}
    assert not wide, "whatever the umask"
    secrets = [value.encode() for value in (argued, listed, stored)]
    files = {path.relative_to(run.run_dir).as_posix(): path.read_bytes() for path in run.run_dir.rglob("*") if path.is_file()}
    leaks = sorted(name for name, data in files.items() if any(secret in data for secret in secrets))
    assert set(leaks) <= set(WHOLE), leaks
    assert {"report.md", "chronicle.md", "sentinel.db"} <= set(files)
    assert b"401 Unauthorized" in files["sentinel.db"], "what went wrong is still said"
    assert argued.encode() in files["run.json"], "a relaunch needs it"
    shown = run.log
    for words in (("status", "--json"), ("incidents", "--json"), ("report",), ("logs",), ("events", "--json")):
        done = run_sentinel(words[0], str(run.run_dir), *words[1:], environ=os.environ)
        shown += done.stdout + done.stderr
    html = (run.run_dir / "report.html").read_text()
    assert not [value for value in (argued, listed, stored) if value in shown or value in html]
