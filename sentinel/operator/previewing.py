"""What another policy would change for a run: `sentinel policy apply --dry-run`. Nothing is asked and nothing is written, but for
what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.masking import Masking
from sentinel.clock import SystemClock
from sentinel.errors import PolicyError, UsageError
from sentinel.journal.run_file import find_run_file
from sentinel.model.incidents import Incident
from sentinel.model.state import RIGHTLY_ENDED, RunState
from sentinel.operator.applying import kept_path
from sentinel.plan.playbook_change import find_place
from sentinel.policy.quantities import show_duration
from sentinel.policy.schema import Policy
from sentinel.policy_files.difference import differences, differences_text
from sentinel.policy_files.loading import PolicyFile, policy_digest, read_policy_file, shipped_policy_path
from sentinel.report.reading import read_run
from sentinel.report.run_dirs import check_run_dir


@dataclass(frozen=True, slots=True)
class IncidentPreview:
    """What becomes of an open incident. `playbook` and `rung` (counted from 1; 0 is before the first) as they would be; both None
    where it goes on as it is."""

    incident: Incident
    playbook: str | None
    rung: int | None
    reason: str

    @property
    def words(self) -> str:
        return f"incident {self.incident.id} ({self.incident.kind}, {self.incident.stands}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Spent:
    """A limit of the new budget that is used up already."""

    what: str
    count: int
    limit: int
    period_s: float

    @property
    def words(self) -> str:
        within = show_duration(self.period_s)
        return f"budget: {self.count} {self.what} within {within} are spent already, of {self.limit}: the next one calls a person"


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be different. `refused`: why it could not be applied any more; empty where it could."""

    state: RunState
    after: PolicyFile
    found: tuple[tuple[str, tuple[str, ...]], ...] = ()
    refused: str = ""
    spent: tuple[Spent, ...] = ()
    incidents: tuple[IncidentPreview, ...] = ()

    @property
    def is_in_force(self) -> bool:
        return self.after.digest == self.state.policy_digest

    @property
    def text(self) -> str:
        state, name = self.state, self.after.policy.metadata.name
        if self.is_in_force:
            return f"{state.run_id}: policy {name} (sha256 {self.after.digest[:12]}) is in force already"
        head = f"{state.run_id}: goes by policy {state.policy_name} (sha256 {state.policy_digest[:12]})"
        would = f"under {name} (sha256 {self.after.digest[:12]}) "
        if not self.found:
            return f"{head}; {would}nothing would be different"
        lines = [f"{head}; {would}would be different", differences_text(self.found), *self._for_this_run()]
        return Masking().text("\n".join(lines))

    @property
    def document(self) -> dict[str, Any]:
        """For `--json`. What is different is words, by section; `policy show --json` has both policies whole."""
        state = self.state
        return {
            "run": state.run_id,
            "in_force": {"name": state.policy_name, "digest": state.policy_digest, "mode": _mode(state)},
            "policy": {
                "name": self.after.policy.metadata.name,
                "digest": self.after.digest,
                "mode": self.after.policy.spec.mode,
                "path": self.after.path,
            },
            "is_in_force": self.is_in_force,
            "refused": self.refused or None,
            "differences": {name: list(lines) for name, lines in self.found},
            "spent": [{"what": s.what, "count": s.count, "limit": s.limit, "period_s": s.period_s} for s in self.spent],
            "incidents": [
                {
                    "id": one.incident.id,
                    "kind": str(one.incident.kind),
                    "state": str(one.incident.state),
                    "playbook": one.playbook,
                    "rung": one.rung,
                    "reason": one.reason,
                }
                for one in self.incidents
            ],
        }

    def _for_this_run(self) -> Iterator[str]:
        if self.refused:
            yield self.refused
            return
        yield from (spent.words for spent in self.spent)
        yield from (one.words for one in self.incidents)
        before, after = _mode(self.state), self.after.policy.spec.mode
        if before == "observe" and after == "act":
            yield "the run is observed now; unless its command line says --observe-only, repairs would be carried out"
        if before == "act" and after == "observe":
            yield "the run would only be observed: no repair would be carried out"


def preview(run_dir: Path, after: PolicyFile) -> Preview:
    """Raises UsageError for what is not the directory of a run, JournalError where its journal cannot be read."""
    check_run_dir(run_dir)
    state = read_run(run_dir).state
    if after.digest == state.policy_digest:
        return Preview(state, after)
    found = differences(_in_force(run_dir, state), after)
    if not found:
        return Preview(state, after)
    if state.ended in RIGHTLY_ENDED:
        return Preview(state, after, found, f"the run has {RIGHTLY_ENDED[state.ended]}: it could not be applied any more")
    incidents = tuple(_place(incident, after.policy) for incident in state.open_incidents)
    return Preview(state, after, found, "", tuple(_spent(state, after.policy)), incidents)


def _mode(state: RunState) -> str:
    return "observe" if state.observe_only else "act"


def _in_force(run_dir: Path, state: RunState) -> PolicyFile:
    """As it was read when it came into force. Raises UsageError where its text is not to be had any more."""
    run = find_run_file(run_dir)
    own = shipped_policy_path(run.policy.path) if run is not None else None
    try:
        if (kept := kept_path(run_dir, state.policy_digest)).is_file():
            return read_policy_file(kept)
        if own is not None and policy_digest(own) == state.policy_digest:
            return read_policy_file(own)
    except PolicyError as error:
        raise UsageError(f"{run_dir}: the policy in force cannot be compared with: {error.message.splitlines()[0]}") from error
    raise UsageError(
        f"{run_dir}: the policy in force (sha256 {state.policy_digest[:12]}) cannot be compared with: its file {own} reads "
        "otherwise now, and there is no copy of it; `sentinel policy explain FILE` says what a policy does"
    )


def _place(incident: Incident, policy: Policy) -> IncidentPreview:
    place = find_place(incident, policy) if incident.playbook else None
    if place is None:
        return IncidentPreview(incident, None, None, "goes on as it is")
    return IncidentPreview(incident, place.playbook, place.rung + 1, place.reason)


def _spent(state: RunState, policy: Policy) -> Iterator[Spent]:
    """What was done already counts against the new budget, too."""
    now_s, budget = SystemClock().now_s(), policy.spec.budget
    for what, rate, stamps in (
        ("repairs", budget.interventions, state.interventions_s),
        ("restarts", budget.restarts, state.restarts_s),
    ):
        spent = sum(now_s - at_s < rate.period_s for at_s in stamps)
        if spent >= rate.count:
            yield Spent(what, spent, rate.count, rate.period_s)
