"""The commands that answer a page, as a person types them on the machine where sentinel runs: those that make sense as the run
stands, with the run's real directory."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import RUN_FILE_NAME
from sentinel.client.strict_json import loads
from sentinel.errors import SentinelError
from sentinel.model.actions import Stage
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState
from sentinel.plan.rollback import choose_newest
from sentinel.policy_files.loading import shipped_policy_path

RUN_FILE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class AnswerCommand:
    command: str
    what: str


def answers(run_dir: Path, state: RunState, incident: Incident | None, stage: Stage) -> list[AnswerCommand]:
    """The likeliest first. Nothing is to be answered once it is over."""
    if stage in ("resolve", "message"):
        return []
    run = shlex.quote(str(run_dir.absolute()))
    found: list[AnswerCommand] = []
    number = incident.id if incident is not None else None
    if incident is not None and incident.awaits_approval and not state.ended:
        found.append(AnswerCommand(f"sentinel approve {number} {run}", "take the rung that waits"))
        found.append(AnswerCommand(f"sentinel deny {number} {run}", "pass it over"))
    if incident is not None and stage != "acknowledge" and not incident.acknowledged_by:
        found.append(AnswerCommand(f"sentinel ack {number} {run}", "you have seen it: it is not repeated"))
    found += _of_run(run_dir, run, state, incident)
    for node in [out.node for out in state.excluded if out.incident == number]:
        what = "when the node is mended: it is used again from the next launch on, after its check where the policy has one"
        found.append(AnswerCommand(f"sentinel uncordon {shlex.quote(node)} {run}", what))
    if incident is not None and incident.state in (IncidentState.EXHAUSTED, IncidentState.UNKNOWN):
        found.append(AnswerCommand(f"sentinel resolve {number} {run}", "you have taken it up: the page is closed"))
    if number is not None:
        found.append(AnswerCommand(f"sentinel incidents show {number} {run}", "the whole story"))
    return found


def _of_run(run_dir: Path, run: str, state: RunState, incident: Incident | None) -> list[AnswerCommand]:
    """What moves the run itself."""
    if state.ended == "finished":
        return []
    if state.ended or state.giving_up not in ("", "hold"):
        return [AnswerCommand(_start_again(run_dir, run, state), f"when the cause is mended: {_onward(state)}")]
    if state.held or state.giving_up == "hold":
        return [
            AnswerCommand(f"sentinel resume {run}", _onward(state)),
            AnswerCommand(f"sentinel stop {run}", "end the run"),
        ]
    if state.paused:
        return [AnswerCommand(f"sentinel resume {run}", "sentinel carries remedies out again")]
    if incident is None or incident.state is not IncidentState.EXHAUSTED or state.giving_up or state.observe_only:
        return []
    back = incident.limit_step
    found = [AnswerCommand(f"sentinel rollback --to {back - 1} {run}", "back to before the onset")] if back is not None else []
    return [*found, AnswerCommand(f"sentinel hold {run}", "stop training after a checkpoint, and wait for you")]


def _onward(state: RunState) -> str:
    """Where the next launch begins."""
    newest = choose_newest(state.checkpoints, state.open_incidents).checkpoint
    if newest is not None:
        return "go on from the newest good checkpoint"
    has_spoken = state.settable is not None or any(attempt.receipt_s is not None for attempt in state.attempts)
    if not has_spoken:  # it may have checkpoints of its own, and go on from them
        return "start it as its command says: sentinel knows no checkpoint of it"
    return "start from scratch: there is no good checkpoint"


def unwatched_answers(run_dir: Path, state: RunState, supervisor: str) -> list[AnswerCommand]:
    """Of a run that has not ended and whose supervisor is gone, stands still or cannot be seen."""
    run = shlex.quote(str(run_dir.absolute()))
    if supervisor == "gone":
        return [
            AnswerCommand(_start_again(run_dir, run, state), "watch it again: what still trains is adopted, else it is resumed"),
            AnswerCommand(f"sentinel stop {run}", "end the run"),
        ]
    if supervisor == "stuck":
        return [AnswerCommand(f"sentinel doctor {run}", "says what holds it up")]
    return [AnswerCommand(f"sentinel status {run}", "on the machine where it is supervised")]


def _start_again(run_dir: Path, run: str, state: RunState) -> str:
    policy = _policy_word(run_dir)
    return " ".join(
        ["sentinel run", *([f"--policy {policy}"] if policy else []), *(["--observe-only"] if state.observe_only else []),
         f"--run-dir {run}"]
    )  # fmt: skip


def _policy_word(run_dir: Path) -> str:
    """The policy as `--policy` takes it; empty where run.json does not say."""
    try:
        with open(run_dir / RUN_FILE_NAME, "rb", opener=regular) as file:
            policy = loads(file.read(RUN_FILE_BYTES_MAX))["policy"]
        path, name = str(policy["path"]), str(policy["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    try:
        if shipped_policy_path(name) == Path(path):
            return shlex.quote(name)
    except SentinelError:
        pass
    return shlex.quote(path)


def asks(incident: Incident | None, stage: Stage) -> dict[str, int | None]:
    """The same for a button: acknowledge, approve and deny, as far as they make sense now, with the rung that waits."""
    if incident is None or stage in ("resolve", "message"):
        return {}
    found: dict[str, int | None] = {}
    if stage != "acknowledge" and not incident.acknowledged_by:
        found["acknowledge"] = None
    if incident.awaits_approval and incident.approval is not None:
        found |= dict.fromkeys(("approve", "deny"), incident.approval.rung)
    return found
