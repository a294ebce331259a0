"""Which policy a supervisor goes by when it is started again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sentinel.journal.run_file import PolicyReference, find_run_file, write_run_file
from sentinel.journal.session import take_run
from sentinel.model.facts import Fact, PolicyApplied, SupervisorTookOver
from sentinel.operator.applying import keep, kept_path, read_checked
from sentinel.supervisor.policy_in_force import InForce, find_in_force
from sentinel.supervisor.run_request import RunRequest
from tests.unit.told_run import write_run

TEXT = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: NAME}\nextends: demo\n"


@dataclass
class World:
    """A run whose unit names unit.yaml, and to which fix.yaml was applied."""

    run_dir: Path
    unit: Path
    fix: Path

    def in_force(self, policy: Path | None) -> InForce:
        request = RunRequest(self.run_dir, str(policy) if policy is not None else None, (), "/")
        return find_in_force(request, self.run_dir, find_run_file(self.run_dir))

    def record(self, *facts: Fact) -> None:
        with take_run(self.run_dir) as session:
            session.journal.append(session.journal.last_at_s() + 1.0, facts, session.epoch)

    @property
    def kept(self) -> Path:
        return kept_path(self.run_dir, read_checked(self.fix).digest)


def written(path: Path, name: str) -> Path:
    path.write_text(TEXT.replace("NAME", name))
    return path


@pytest.fixture
def world(tmp_path: Path) -> World:
    run_dir = write_run(tmp_path / "run", until=42)
    unit, fix = written(tmp_path / "unit.yaml", "unit"), written(tmp_path / "fix.yaml", "fix")
    known = find_run_file(run_dir)
    assert known is not None
    was, now = read_checked(unit), read_checked(fix)
    named = PolicyReference(str(unit), was.digest, "unit", named=str(unit), named_digest=was.digest)
    write_run_file(run_dir, replace(known, policy=named))
    keep(run_dir, now)
    made = World(run_dir, unit, fix)
    made.record(PolicyApplied("1", "ada", "", "fix", str(fix), now.digest, "unit", was.digest, str(unit), was.digest))
    return made


def test_a_unit_that_names_the_file_before_undoes_nothing_although_run_json_is_older(world: World) -> None:
    found = world.in_force(world.unit)
    assert found.path == world.kept
    assert found.applied is not None
    assert (found.applied.name, found.applied.source) == ("fix", str(world.fix))
    assert found.remark.endswith(f"stays in force; --policy {world.unit} is what it has replaced")
    assert world.in_force(None) == InForce(world.kept, found.applied)


def test_what_was_applied_stays_as_it_was_then(world: World) -> None:
    kept = world.kept
    world.fix.unlink()
    assert world.in_force(world.unit).path == kept
    assert "name: fix" in kept.read_text()


def test_a_file_before_that_was_changed_since_is_said_and_not_in_force(world: World) -> None:
    for text, words in ((TEXT.replace("NAME", "other"), "was changed since"), ("spec: {", "is no policy now")):
        world.unit.write_text(text)
        found = world.in_force(world.unit)
        assert found.path == world.kept
        assert f"{words}, and is not in force; to go by it: sentinel policy apply {world.unit} {world.run_dir}" in found.remark


def test_a_command_line_that_names_another_file_than_before_is_a_new_word(world: World) -> None:
    third = written(world.run_dir.parent / "third.yaml", "third")
    found = world.in_force(third)
    assert (found.path, found.applied) == (third, None)
    assert found.remark.endswith("the command line names another than before")


def test_a_command_line_that_names_what_was_applied_reads_it_as_it_is_now(world: World) -> None:
    assert world.in_force(world.fix).path == world.kept
    assert not world.in_force(world.fix).remark
    kept = world.kept
    world.fix.write_text("spec: {")
    assert world.in_force(world.fix).path == kept, "half an edit ends no supervision"
    written(world.fix, "newer")
    found = world.in_force(world.fix)
    assert (found.path, found.applied) == (world.fix, None)
    assert "was changed since it was applied: it is in force as it reads now" in found.remark


def test_a_supervisor_that_took_over_by_another_ends_it(world: World) -> None:
    world.record(SupervisorTookOver(9, "h", 1, "unit", read_checked(world.unit).digest, False))
    assert world.in_force(world.unit) == InForce(world.unit)
