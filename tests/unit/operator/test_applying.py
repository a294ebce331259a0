"""`sentinel policy apply`: what it says before it asks, and what it leaves in the run directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sentinel.cli.root import app
from sentinel.journal.run_file import find_run_file, write_run_file
from sentinel.journal.session import take_run
from sentinel.model import facts as f
from sentinel.model.state import RunState
from sentinel.operator.applying import keep, kept_path, read_checked
from sentinel.policy_files.loading import read_policy_file
from sentinel.report.reading import read_run
from tests.unit.told_run import write_run

HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: NAME}\nextends: demo\n"


def policy(folder: Path, name: str, spec: str = "spec: {}\n") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(HEAD.replace("NAME", name) + spec)
    return path


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Of a run that nobody supervises, which goes by unit.yaml."""
    made = write_run(tmp_path / "run", until=42)
    file = read_checked(policy(tmp_path, "unit"))
    known = find_run_file(made)
    assert known is not None
    write_run_file(made, replace(known, policy=replace(known.policy, path=file.path, digest=file.digest, name="unit")))
    with take_run(made) as session:
        at_s = session.journal.last_at_s() + 1.0
        session.journal.append(at_s, [f.SupervisorTookOver(session.epoch, "h", 1, "unit", file.digest, False)], session.epoch)
    return made


def apply(run_dir: Path, *words: object) -> Result:
    return CliRunner().invoke(app, ["policy", "apply", *map(str, words), str(run_dir)], terminal_width=200)


def state(run_dir: Path) -> RunState:
    return read_run(run_dir).state


def test_without_a_supervisor_it_is_recorded_for_the_next_start(run_dir: Path, tmp_path: Path) -> None:
    fix = policy(tmp_path, "fix", "spec: {budget: {interventions: 2 per 24h}}\n")
    done = apply(run_dir, fix, "--note", "a calmer night")
    assert done.exit_code == 0, done.output
    assert "policy fix (sha256 " in done.output
    found = state(run_dir)
    assert (found.policy_name, found.is_policy_new) == ("fix", True)
    assert found.applied is not None
    assert (found.applied.before, found.applied.note, found.applied.path) == ("unit", "a calmer night", str(fix))
    again = apply(run_dir, fix)
    assert (again.exit_code, "is in force already" in again.output) == (0, True)


def test_a_bad_policy_and_a_bad_note_are_refused_before_anything_is_asked(run_dir: Path, tmp_path: Path) -> None:
    before = sum(1 for _ in (run_dir / "policies").glob("*")) if (run_dir / "policies").exists() else 0
    bad = policy(tmp_path, "bad", "spec: {budget: {intervention: 2 per 24h}}\n")
    for words in ((bad,), (bad, "--dry-run"), (tmp_path / "none.yaml",), (policy(tmp_path, "ok"), "--note", "two\nlines")):
        done = apply(run_dir, *words)
        assert done.exit_code != 0, words
    assert state(run_dir).policy_name == "unit"
    assert (sum(1 for _ in (run_dir / "policies").glob("*")) if (run_dir / "policies").exists() else 0) == before


def test_a_dry_run_says_what_would_be_different_for_this_run_and_changes_nothing(run_dir: Path, tmp_path: Path) -> None:
    fix = policy(tmp_path, "fix", "spec: {mode: observe, budget: {interventions: 1 per 24h}}\n")
    done = apply(run_dir, fix, "--dry-run")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].endswith("would be different")
    assert lines[1:5] == ["mode:", "  act, now observe", "budget:", "  interventions: 12 per 288m, now 1 per 24h"]
    assert "the run would only be observed: no repair would be carried out" in lines
    assert any(line.startswith("incident ") for line in lines) == bool(state(run_dir).open_incidents)
    assert state(run_dir).policy_name == "unit"
    same = apply(run_dir, policy(tmp_path, "same", "# a remark\nspec: {}\n"), "--dry-run")
    assert same.output.rstrip().endswith("nothing would be different")
    assert apply(run_dir, tmp_path / "unit.yaml", "--dry-run").output.rstrip().endswith("is in force already")


def test_a_program_reads_the_same_of_a_dry_run(run_dir: Path, tmp_path: Path) -> None:
    call = "playbooks: {restart: [{page: {severity: info}}]}"
    fix = policy(tmp_path, "fix", f"spec: {{mode: observe, budget: {{interventions: 1 per 24h}}, {call}}}\n")
    done = apply(run_dir, fix, "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["run"] == state(run_dir).run_id
    assert (document["in_force"]["name"], document["policy"]["name"], document["is_in_force"]) == ("unit", "fix", False)
    assert (document["in_force"]["mode"], document["policy"]["mode"], document["refused"]) == ("act", "observe", None)
    assert document["differences"]["budget"] == ["interventions: 12 per 288m, now 1 per 24h"]
    assert [one["id"] for one in document["incidents"]] == [one.id for one in state(run_dir).open_incidents]
    assert all((one["playbook"], one["rung"]) == ("restart", 0) for one in document["incidents"] if one["kind"] == "crash")
    assert state(run_dir).policy_name == "unit"
    same = json.loads(apply(run_dir, tmp_path / "unit.yaml", "--dry-run", "--json").stdout)
    assert (same["is_in_force"], same["differences"]) == (True, {})
    refused = apply(run_dir, fix, "--json")
    assert refused.exit_code != 0
    assert state(run_dir).policy_name == "unit", "and nothing was asked"


def test_where_the_text_in_force_is_gone_it_says_so_and_compares_with_nothing_else(run_dir: Path, tmp_path: Path) -> None:
    policy(tmp_path, "unit", "spec: {mode: observe}\n")
    done = apply(run_dir, policy(tmp_path, "fix"), "--dry-run")
    assert done.exit_code != 0
    assert "cannot be compared with" in str(done.exception or done.output)


def test_the_copy_stands_on_its_own(tmp_path: Path) -> None:
    """Also where the policy names its reference run by a path from its own folder, and is given away."""
    log = tmp_path / "other.jsonl"
    log.write_text("".join(f'{{"step": {step}, "loss": 2.0}}\n' for step in range(1, 60)))
    mine = policy(tmp_path, "mine", "spec: {detectors: {behind_reference: {reference: other.jsonl}}}\n")
    run_dir = tmp_path / "run"
    read = read_checked(mine)
    kept = keep(run_dir, read)
    assert kept == kept_path(run_dir, read.digest)
    mine.unlink()
    copy = read_checked(kept)
    assert copy.policy.extends is None
    assert copy.policy.spec.detectors.behind_reference.reference == str(log)
    without = read.policy.spec.model_copy(update={"detectors": copy.policy.spec.detectors})
    assert read_policy_file(kept).policy.spec == without
