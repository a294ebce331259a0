"""A policy that is applied to a live run: real supervisor, real trainer process, the real commands and signals."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from sentinel.model import facts as f
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for

STEPS = 1500  # two minutes at least, until it may hurry

QUIET = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: NAME}
extends: demo
spec:
  budget: {interventions: COUNT per 24h}
"""


def policy(path: Path, name: str, count: int = 3) -> Path:
    path.write_text(QUIET.replace("NAME", name).replace("COUNT", str(count)))
    return path


def apply(run: Supervised, *words: str) -> tuple[int, str]:
    done = run_sentinel("policy", "apply", *words, str(run.run_dir))
    return done.returncode, (done.stdout + done.stderr).strip()


def facts(run: Supervised, kind: type) -> list[object]:
    return [entry.fact for entry in run.facts() if isinstance(entry.fact, kind)]


def supervisors(run: Supervised) -> list[str]:
    """The policy of each session, by name."""
    return [fact.policy_name for fact in facts(run, f.SupervisorTookOver)]  # type: ignore[attr-defined]


def test_a_person_applies_a_policy_and_a_restart_undoes_nothing(tmp_path: Path) -> None:
    unit = policy(tmp_path / "unit.yaml", "unit")
    fix = policy(tmp_path / "fix.yaml", "fix", 5)
    run = Supervised(tmp_path / "run", double(STEPS, 0.1, hurried=True), policy=str(unit)).start()
    wait_for("thirty steps", lambda: run.last_step(1) > 30)

    bad = tmp_path / "bad.yaml"
    bad.write_text(fix.read_text().replace("interventions", "intervention"))
    code, words = apply(run, str(bad))
    assert code == 2
    assert words == run_sentinel("policy", "check", str(bad)).stderr.strip(), "the very sentences of policy check"
    assert facts(run, f.RequestAnswered) == [], "nothing was asked"

    code, words = apply(run, "--dry-run", str(fix))
    assert (code, words.splitlines()[1:]) == (0, ["budget:", "  interventions: 3 per 24h, now 5 per 24h"])
    assert supervisors(run) == ["unit"], "nothing was changed"

    code, words = apply(run, str(fix), "--note", "a calmer night")
    assert code == 0, words
    assert "policy fix (sha256 " in words
    assert "is in force from the next decision on, in the place of unit" in words
    wait_for("the new session", lambda: supervisors(run) == ["unit", "fix"])
    fix.unlink()  # what was applied lies in the run directory
    trained = run.last_step(1)
    wait_for("it trains on", lambda: run.last_step(1) > trained)
    status = run.status()
    assert (status["policy"], status["policy_applied"]["note"], status["attempt"]) == ("fix", "a calmer night", 1)
    (applied,) = facts(run, f.PolicyApplied)
    assert applied.before == "unit"  # type: ignore[attr-defined]
    assert applied.named == str(unit)  # type: ignore[attr-defined]

    run.kill()
    run.start()
    wait_for("the restarted supervisor", lambda: len(supervisors(run)) == 3)
    assert supervisors(run)[2] == "fix", "its command line names the policy before, and undoes nothing"
    assert "stays in force; --policy" in run.log

    code, words = apply(run, str(unit))
    assert code == 0, words
    code, words = apply(run, str(unit))
    assert code == 0
    assert words.endswith("is in force already")
    (run.run_dir / "hurry").touch()
    assert run.wait() == 0, run.log
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    assert run.attempts() == [1], "nothing was launched again"
    code, words = apply(run, str(unit))
    assert (code, words) == (1, "refused: the run has finished: nothing is decided about it any more")


def test_sighup_reads_the_file_anew(tmp_path: Path) -> None:
    unit = policy(tmp_path / "unit.yaml", "unit")
    run = Supervised(tmp_path / "run", double(STEPS, 0.1, hurried=True), policy=str(unit)).start()
    wait_for("thirty steps", lambda: run.last_step(1) > 30)
    assert run.child is not None

    def answers() -> list[tuple[str, bool, str]]:
        found = facts(run, f.RequestAnswered)
        return [(fact.by, fact.granted, fact.answer) for fact in found]  # type: ignore[attr-defined]

    def hang_up(count: int) -> tuple[str, bool, str]:
        assert run.child is not None
        run.child.send_signal(signal.SIGHUP)
        return wait_for("the answer", lambda: answers()[count - 1] if len(answers()) == count else None)  # type: ignore[no-any-return]

    assert hang_up(1)[1:] == (True, answers()[0][2])
    assert answers()[0][2].endswith("is in force already")
    unit.write_text("spec: {")
    by, granted, words = hang_up(2)
    assert (by, granted) == ("SIGHUP", False)
    assert "The policy in force stays: unit" in words
    policy(unit, "unit", 7)
    assert "is in force from the next decision on" in hang_up(3)[2]
    wait_for("the new session", lambda: len(supervisors(run)) == 2)
    document = json.loads((run.run_dir / "run.json").read_text())
    assert document["policy"]["source"] == str(unit)
    (run.run_dir / "hurry").touch()
    assert run.wait() == 0, run.log
    assert run.attempts() == [1]


@pytest.mark.slow
def test_without_a_supervisor_it_is_in_force_from_the_next_start_on(tmp_path: Path) -> None:
    unit, fix = policy(tmp_path / "unit.yaml", "unit"), policy(tmp_path / "fix.yaml", "fix", 5)
    run = Supervised(tmp_path / "run", double(STEPS, 0.1, hurried=True), policy=str(unit)).start()
    wait_for("thirty steps", lambda: run.last_step(1) > 30)
    run.kill()
    code, words = apply(run, str(fix))
    assert code == 0, words
    assert run.status()["policy"] == "fix"
    run.start()
    wait_for("the restarted supervisor", lambda: len(supervisors(run)) == 2)
    assert supervisors(run) == ["unit", "fix"]
    (run.run_dir / "hurry").touch()
    assert run.wait() == 0, run.log
    assert run.attempts() == [1]


def test_killed_between_the_fact_and_its_effect_a_supervisor_goes_on_by_it(tmp_path: Path) -> None:
    unit, fix = policy(tmp_path / "unit.yaml", "unit"), policy(tmp_path / "fix.yaml", "fix", 5)
    run = Supervised(tmp_path / "run", double(STEPS, 0.1, hurried=True), policy=str(unit)).start("recorded:PolicyApplied")
    wait_for("thirty steps", lambda: run.last_step(1) > 30)
    code, words = apply(run, str(fix))
    assert code == 0, words
    assert run.wait() == -signal.SIGKILL
    assert json.loads((run.run_dir / "run.json").read_text())["policy"]["name"] == "unit", "killed before it was rewritten"
    run.start()
    wait_for("the restarted supervisor", lambda: len(supervisors(run)) == 2)
    assert supervisors(run) == ["unit", "fix"]
    (run.run_dir / "hurry").touch()
    assert run.wait() == 0, run.log
    assert os.path.isfile(run.run_dir / "run.json")
