"""Which policy a supervisor goes by when it starts, and when it begins anew.

Where nobody has applied one: the file that the command line names, else the run's own, as it reads now. Where somebody has, that
one stays, as it was applied: a unit that is restarted names the same file as before, and undoes nothing. A command line that
names another file than before is a new word, and wins. So does the file that was applied itself where the command line names
that one: a restart is at least a reload.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sentinel.errors import PolicyError
from sentinel.journal.run_file import PolicyReference, RunFile
from sentinel.operator.applied import find_applied
from sentinel.policy_files.loading import read_policy_file, shipped_policy_path
from sentinel.supervisor.run_request import RunRequest, policy_of


@dataclass(frozen=True, slots=True)
class InForce:
    """`path`: what is read. `applied`: how run.json names it, where it was applied; None: it follows from the path. `remark`: for
    whoever may expect another."""

    path: Path
    applied: PolicyReference | None = None
    remark: str = ""


def find_in_force(request: RunRequest, run_dir: Path, known: RunFile | None) -> InForce:
    """Raises PolicyError where a file that is to be in force cannot be read."""
    applied = find_applied(run_dir, known)
    if applied is None or known is None:
        return InForce(policy_of(request, known))
    kept = Path(applied.path)
    stays = InForce(kept if kept.is_file() else Path(applied.source), applied, "")
    what = f"policy {applied.name} ({applied.source}), which was applied to this run"
    if request.policy is None:
        return stays
    named = shipped_policy_path(request.policy).absolute()
    if str(named) != applied.named and str(named) != applied.source:
        why = "the command line names another than before"
        return InForce(named, None, f"--policy {named} is in force, in the place of {what}: {why}")
    digest = _digest_of(named)
    if str(named) == applied.source:
        if digest == applied.digest:
            return stays
        if digest is None:
            return _with(stays, f"{what}, stays in force as it was: its file is no policy now")
        return InForce(named, None, f"--policy {named} was changed since it was applied: it is in force as it reads now")
    if digest == applied.named_digest:
        return _with(stays, f"{what}, stays in force; --policy {named} is what it has replaced")
    changed = "is no policy now" if digest is None else "was changed since"
    apply = f"to go by it: sentinel policy apply {named} {run_dir}"
    return _with(stays, f"{what}, stays in force; --policy {named}, which it replaced, {changed}, and is not in force; {apply}")


def _with(stays: InForce, remark: str) -> InForce:
    return InForce(stays.path, stays.applied, remark)


def _digest_of(path: Path) -> str | None:
    """None where no policy is to be had there."""
    try:
        return read_policy_file(path).digest
    except PolicyError:
        return None
