"""Which policy a supervisor goes by when it starts, and when it begins anew.

Where nobody has applied one: the file that the command line names, else the run's own, as it reads now. Where somebody has, that
one stays, as it was applied: a unit that is restarted names the same file as before, and undoes nothing. A command line that
names another file than before is a new word, and wins. So does the file that was applied itself where the command line names
that one: a restart is at least a reload.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError, PolicyError, RetryLater
from sentinel.journal.codec import decode_fact
from sentinel.journal.run_file import PolicyReference, RunFile
from sentinel.journal.store import Journal
from sentinel.model.facts import PolicyApplied, SupervisorTookOver
from sentinel.model.recorded import recorded_name
from sentinel.operator.applying import kept_path
from sentinel.policy_files.loading import read_policy_file, shipped_policy_path
from sentinel.supervisor.run_request import RunRequest, policy_of

KINDS = (recorded_name(PolicyApplied), recorded_name(SupervisorTookOver))


@dataclass(frozen=True, slots=True)
class InForce:
    """`path`: what is read. `applied`: how run.json names it, where it was applied; None: it follows from the path. `remark`: for
    whoever may expect another."""

    path: Path
    applied: PolicyReference | None = None
    remark: str = ""


def find_in_force(request: RunRequest, run_dir: Path, known: RunFile | None) -> InForce:
    """Raises PolicyError where a file that is to be in force cannot be read."""
    applied = _find_applied(run_dir, known)
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


def _find_applied(run_dir: Path, known: RunFile | None) -> PolicyReference | None:
    """By the journal; run.json may be older, where a supervisor was killed between the two, and stands in where the journal
    cannot be read just now."""
    by_file = known.policy if known is not None and known.policy.source else None
    if not (path := run_dir / JOURNAL_NAME).exists():
        return by_file
    try:
        with Journal.open(path, read_only=True) as journal:
            return _newest_applied(run_dir, journal)
    except (JournalError, RetryLater):
        return by_file


def _newest_applied(run_dir: Path, journal: Journal) -> PolicyReference | None:
    found: PolicyReference | None = None
    for kind, body in journal.read_kinds(KINDS):
        match decode_fact(kind, body):
            case PolicyApplied() as fact:
                kept = str(kept_path(run_dir, fact.digest))
                found = PolicyReference(kept, fact.digest, fact.name, fact.path, fact.named, fact.named_digest)
            case SupervisorTookOver(policy_digest=digest) if found is not None and digest != found.digest:
                found = None
    return found
