"""The incident in a frame: what broke, what was chosen or is asked, what is being done now."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from sentinel.model.actions import StartAttempt
from sentinel.model.amounts import time_words
from sentinel.model.incidents import AwaitedApproval
from sentinel.model.state import UNSEEN
from sentinel.terminal.clean import clean
from sentinel.terminal.picture import Picture, shown_incident
from sentinel.terminal.words import action_words

COMMANDS_SHOWN = 2
_TONES = {"bad": "bold red", "warn": "yellow"}


def incident_rows(picture: Picture) -> list[RenderableType]:
    """Three lines: what, what was chosen, what is being done now; and what a person can type, where the run as a whole needs
    one."""
    state = picture.state
    incident = shown_incident(state)
    if incident is None:
        return [Text("none", "dim"), Text(""), _now(picture), *command_rows(picture)]
    what = Text(no_wrap=True, overflow="ellipsis")
    style = "green" if str(incident.state) == "recovered" else "bold red" if not incident.is_closed else "red"
    what.append(f"{incident.id} {incident.kind} {incident.stands}", style)
    what.append(f", onset step {incident.onset_step}" if incident.onset_step is not None else f", step {incident.detected_step}")
    what.append(clean(f": {incident.reason}"))
    last = incident.last_try
    chosen = Text(no_wrap=True, overflow="ellipsis")
    if incident.awaits_approval and not state.ended and incident.page is not None and incident.page.reason:
        chosen.append(clean(incident.page.reason), "bold red")
    elif picture.needs is not None and picture.needs["tried"] and picture.needs["incident"] == incident.id:
        chosen.append(clean(picture.needs["tried"]))
    elif last is not None:
        chosen.append(f"rung {last.remedy.rung + 1} ", "bold")
        chosen.append(clean(f"({last.outcome}) {last.remedy.reason}"))
    return [what, chosen, _now(picture), *command_rows(picture)]


def command_rows(picture: Picture) -> list[RenderableType]:
    """The likeliest commands that answer what the run needs."""
    answers = picture.needs["answers"][:COMMANDS_SHOWN] if picture.needs is not None else ()
    return [Text(f"do:  {clean(answer['command'])}", no_wrap=True, overflow="ellipsis") for answer in answers]


def _now(picture: Picture) -> Text:
    """What trains and what follows, where the run needs a person or nobody watches it; else what sentinel is doing."""
    state = picture.state
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("now: ", "bold")
    plan = state.plan
    needs = picture.needs
    if needs is not None:
        line.append(clean("; ".join([needs["trains"].rstrip("."), *needs["next"]])), _TONES[needs["tone"]])
        return line
    asking = next((one for one in state.open_incidents if one.awaits_approval and not state.ended), None)
    if asking is not None and asking.approval is not None:
        line.append(_asked(asking.id, asking.approval, picture.now_s), "bold red")
    elif state.label == UNSEEN:
        line.append(clean(f"waiting: {state.waits_for}"), "bold yellow")
    elif plan is not None:
        action = plan.actions[plan.next]
        wait_s = action.not_before_s - picture.now_s if isinstance(action, StartAttempt) else 0.0
        soon = f" in {time_words(wait_s)}" if wait_s > 0 else ""
        line.append(clean(f"{action_words(action)}{soon} ({plan.next + 1} of {len(plan.actions)})"), "yellow")
    elif state.pending:
        line.append(clean(action_words(next(iter(state.pending.values())))), "yellow")
    elif state.ended:
        is_failed = state.ended == "failed"
        line.append("nothing trains: it has failed, and waits for a person" if is_failed else clean(state.end_reason))
    elif state.held:
        line.append(clean(f"waiting for a person: {state.held}"), "bold red")
    elif any(str(i.state) == "probation" for i in state.incidents):
        line.append("watching whether the remedy works")
    elif state.open_incidents:
        line.append("watching whether it heals")
    elif picture.stall is not None:
        line.append("a hang is suspected; nothing is done before it is believed", "yellow")
    else:
        line.append("watching")
    return line


def _asked(incident: int, approval: AwaitedApproval, now_s: float) -> str:
    """The answer first: the end of a line may not be seen."""
    default = "taken" if approval.otherwise == "approve" else "passed over"
    left_s = max(0.0, approval.deadline_s - now_s)
    left = time_words(left_s)
    return f"sentinel approve {incident} RUN_DIR, or deny: rung {approval.rung + 1} is {default} in {left}"
