"""What another policy would change for a run: `sentinel policy apply --dry-run`. Nothing is asked and nothing is written, but for
what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentinel.client.masking import Masking
from sentinel.clock import SystemClock
from sentinel.errors import PolicyError, UsageError
from sentinel.journal.run_file import find_run_file
from sentinel.model.state import RIGHTLY_ENDED, RunState
from sentinel.operator.applying import kept_path
from sentinel.plan.playbook_change import find_place
from sentinel.policy.quantities import Rate, show_duration
from sentinel.policy.schema import Policy
from sentinel.policy_files.difference import differences, differences_text
from sentinel.policy_files.loading import PolicyFile, policy_digest, read_policy_file, shipped_policy_path
from sentinel.report.reading import read_run
from sentinel.report.run_dirs import check_run_dir


def preview(run_dir: Path, after: PolicyFile) -> str:
    """In words. Raises UsageError for what is not the directory of a run, JournalError where its journal cannot be read."""
    check_run_dir(run_dir)
    state = read_run(run_dir).state
    name = after.policy.metadata.name
    if after.digest == state.policy_digest:
        return f"{state.run_id}: policy {name} (sha256 {after.digest[:12]}) is in force already"
    before = _in_force(run_dir, state)
    found = differences(before, after)
    head = f"{state.run_id}: goes by policy {state.policy_name} (sha256 {state.policy_digest[:12]})"
    would = f"under {name} (sha256 {after.digest[:12]}) "
    if not found:
        return f"{head}; {would}nothing would be different"
    lines = [f"{head}; {would}would be different", differences_text(found), *_for_this_run(state, after.policy)]
    return Masking().text("\n".join(lines))


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


def _for_this_run(state: RunState, policy: Policy) -> Iterator[str]:
    if state.ended in RIGHTLY_ENDED:
        yield f"the run has {RIGHTLY_ENDED[state.ended]}: it could not be applied any more"
        return
    yield from _spent(state, policy)
    for incident in state.open_incidents:
        place = find_place(incident, policy) if incident.playbook else None
        words = "goes on as it is" if place is None else place.reason
        yield f"incident {incident.id} ({incident.kind}, {incident.state}): {words}"
    if state.observe_only and policy.spec.mode == "act":
        yield "the run is observed now; unless its command line says --observe-only, repairs would be carried out"
    if not state.observe_only and policy.spec.mode == "observe":
        yield "the run would only be observed: no repair would be carried out"


def _spent(state: RunState, policy: Policy) -> Iterator[str]:
    """What was done already counts against the new budget, too."""
    now_s, budget = SystemClock().now_s(), policy.spec.budget
    for what, rate, stamps in (
        ("repairs", budget.interventions, state.interventions_s),
        ("restarts", budget.restarts, state.restarts_s),
    ):
        spent = sum(now_s - at_s < rate.period_s for at_s in stamps)
        if spent >= rate.count:
            yield f"budget: {spent} {what} within {_period(rate)} are spent already, of {rate.count}: the next one calls a person"


def _period(rate: Rate) -> str:
    return show_duration(rate.period_s)
