"""Which policy was applied to a run, by what its journal says: for the supervisor that goes on by it, and for whoever answers or
shows a run that nobody supervises, to which one may have been applied since its supervisor ended."""

from __future__ import annotations

from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError, RetryLater
from sentinel.journal.codec import decode_fact
from sentinel.journal.run_file import PolicyReference, RunFile
from sentinel.journal.store import Journal
from sentinel.model.facts import PolicyApplied, SupervisorTookOver
from sentinel.model.recorded import recorded_name
from sentinel.operator.applying import kept_path

KINDS = (recorded_name(PolicyApplied), recorded_name(SupervisorTookOver))


def find_applied(run_dir: Path, known: RunFile | None) -> PolicyReference | None:
    """The one that somebody has applied and that is still in force; None where there is none. By the journal; run.json may be
    older, where a supervisor was killed between the two or none has started since, and stands in where the journal cannot be
    read just now."""
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
