"""Facts in a person's words: one line for what matters, nothing for the rest. Both views speak these words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, NamedTuple, assert_never

from sentinel.client.settings import SETTINGS
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.amounts import lost_words, time_words
from sentinel.model.incidents import CLOSED, FOR_A_PERSON, Incident, IncidentState, Outcome, blamed_words
from sentinel.model.node_checks import NodeVerdicts
from sentinel.model.paging import PageHold
from sentinel.model.recorded import recorded_name
from sentinel.model.state import RunState
from sentinel.plan.environment import compare_commands
from sentinel.plan.node_check import describe_verdicts
from sentinel.plan.proving import SKIP
from sentinel.policy.quiet_hours import hold_words

Tone = Literal["plain", "quiet", "good", "warn", "bad"]

# Other notes are for the journal.
_NOTES_SHOWN = (
    "policy",
    "adoption", "resume", "launcher", "rollback", "stop", "wish", "checkpoints", "pages", "deadline", "signal", f.ABOUT_SOURCE,
)  # fmt: skip

_CLOSED_TONES: dict[IncidentState, Tone] = {
    IncidentState.RECOVERED: "good", IncidentState.EXHAUSTED: "bad", IncidentState.UNKNOWN: "warn",
}  # fmt: skip


class Line(NamedTuple):
    """`is_part`: it belongs to the line before it, and is shown indented below it."""

    words: str
    tone: Tone = "plain"
    is_part: bool = False

    @property
    def text(self) -> str:
        return f"  - {self.words}" if self.is_part else self.words


def describe(fact: f.Fact, at_s: float, state: RunState) -> Line | None:
    """The line for a fact at session time `at_s`; None for what only the journal needs. `state` is as of now, not of then."""
    match fact:
        case f.RunCreated() | f.SupervisorTookOver() | f.RunEnded() | f.Held() | f.StopAsked() | f.CommandChanged():
            return _of_run(fact, state)
        case f.JournalSalvaged() | f.RunRestored():
            return _of_history(fact)
        case f.AttemptLaunched() | f.ReceiptSeen() | f.FirstStep() | f.AttemptEnded() | f.CheckpointCondemned():
            return _of_attempt(fact, at_s, state)
        case f.SettingObserved(proof=proof):
            return Line(f"attempt {fact.attempt}: {proof.words}: {fact.reason}", "plain" if proof.is_proven else "warn")
        case f.FindingRecorded() | f.IncidentOpened() | f.RungTaken() | f.RungJudged() | f.IncidentMoved() | f.PlaybookChanged():
            return _of_incident(fact, state)
        case f.NumbersMissing() | f.NodeExcluded() | f.AttemptUnseen() | f.EngineTrouble() | f.NodesChecked():
            return _of_what_is_missing(fact)
        case f.SettingLapsed() | f.LapseJudged() | f.ArgumentsRefused():
            return _of_setting(fact)
        case f.EnvironmentRead():
            return _of_environment(fact)
        case f.BlameFound() | f.Diagnosed():
            return _of_cause(fact)
        case f.Attributed():
            return Line(f"incident {fact.incident} attribution: {fact.attribution.reason}", "warn")
        case f.Restored() | f.StepsLost() | f.GaveUp():
            return _of_recovery(fact, at_s, state)
        case f.ActionDecided(action=action):
            if isinstance(action, (a.PruneCheckpoint, a.SendPage)):
                return Line(action_words(action), "quiet")
            return None if isinstance(action, a.StartAttempt) else Line(action_words(action), is_part=True)
        case f.ActionAbandoned():
            return Line(f"given up: {fact.key}: {without_excerpts(fact.reason)}", "bad", is_part=True)
        case f.PlanDropped():
            return Line(f"plan dropped: {fact.reason}", "warn", is_part=True)
        case f.RequestAnswered() | f.ApprovalAsked() | f.OverridesAnswered():
            return _of_request(fact)
        case f.PageRaised() | f.PageHeld() | f.PageResolved() | f.LogMatched():
            return _of_telling(fact, at_s)
        case f.SourceChanged():
            word = "sees again" if fact.ok else "is blind"
            return Line(f"{fact.source} {word}{': ' + fact.reason if fact.reason else ''}", "plain" if fact.ok else "warn")
        case f.Noted():
            return Line(f"{fact.about}: {fact.reason}", "quiet") if fact.about in _NOTES_SHOWN else None
        case (
            f.JournalAdopted()
            | f.PolicyApplied()  # the answer to whoever asked says it
            | f.ActionConfirmed()
            | f.CheckpointCommitted()
            | f.CheckpointVerified()
            | f.CheckpointsQuarantined()
            | f.AttemptStopping()
            | f.PlanAdopted()
            | f.BudgetRefilled()
            | f.InspectionLaunched()
            | f.ProbationKept()
            | f.NodeBlamed()  # its incident says it
        ):
            return None
        case _:
            assert_never(fact)


def _of_cause(fact: f.BlameFound | f.Diagnosed) -> Line:
    if isinstance(fact, f.BlameFound):
        return Line(f"incident {fact.incident} is blamed on {blamed_words(fact.rank, fact.node)}: {fact.reason}", "warn")
    found = fact.diagnosis
    return Line(f"incident {fact.incident} diagnosis: {found.cause}: {found.reason}", "warn")


def _of_setting(fact: f.SettingLapsed | f.LapseJudged | f.ArgumentsRefused) -> Line:
    if isinstance(fact, f.ArgumentsRefused):
        return Line(refused_words(fact), "warn")
    if isinstance(fact, f.SettingLapsed):
        return Line(f"setting lapses: {fact.reason}")
    return Line(f"lapse {fact.outcome}: {fact.reason}", "good" if fact.outcome == "proven" else "warn")


def action_words(action: a.Action) -> str:
    """What an action does, as in 'now: …': its own phrase, or more where a field decides."""
    match action:
        case a.StartAttempt():
            source = f"from the checkpoint of step {action.resume.step}" if action.resume else "from scratch"
            return f"{action.words} {source}"
        case a.RequestStop():
            how = {"stop_now": "at once", "stop_after_checkpoint": "after a checkpoint"}.get(action.request, action.request)
            return f"{action.words} {how}"
        case a.SendPage():
            return page_words(action)
        case _:
            return action.words


def _of_what_is_missing(
    fact: f.NumbersMissing | f.NodeExcluded | f.AttemptUnseen | f.EngineTrouble | f.NodesChecked,
) -> Line:
    if isinstance(fact, f.NodesChecked):
        return _of_checks(fact)
    if isinstance(fact, (f.AttemptUnseen, f.EngineTrouble)):
        return _of_elsewhere(fact)
    if isinstance(fact, f.NumbersMissing):
        return Line(missing_words(fact), "warn")
    return Line(f"node {fact.node} is left out from now on: {fact.reason}", "warn")


def _of_checks(fact: f.NodesChecked) -> Line:
    tone: Tone = "bad" if fact.sick else "warn" if fact.unknown or fact.trouble else "plain"
    return Line(f"nodes checked: {checked_words(fact)}", tone)


def checked_words(fact: f.NodesChecked) -> str:
    """`2 healthy, 1 sick (n3: …)`."""
    return describe_verdicts(NodeVerdicts(fact.healthy, fact.sick, fact.unknown, fact.trouble))


def _of_elsewhere(fact: f.AttemptUnseen | f.EngineTrouble) -> Line:
    if isinstance(fact, f.AttemptUnseen):
        return Line(f"attempt {fact.attempt} is unseen: {fact.reason}; nothing is started beside it", "warn")
    times = f", {fact.times} times in a row" if fact.times > 1 else ""
    again = "is launched again" if fact.is_launched else "is started again"
    return Line(f"attempt {fact.attempt} was not started{times}: {fact.line}; it {again} in {time_words(fact.pause_s)}", "warn")


def refused_words(fact: f.ArgumentsRefused) -> str:
    """`attempt 3: the trainer refuses --clip 0.3: train.py: error: …; it is not given the clipping norm any more`."""
    keys = " nor the ".join("samples to skip" if key == SKIP else SETTINGS[key].label for key in fact.keys)
    flags = ", ".join(fact.flags)
    return f"attempt {fact.attempt}: the trainer refuses {flags} ({fact.line}); it is not given the {keys} any more"


def missing_words(fact: f.NumbersMissing) -> str:
    """`attempt 3: the numbers of steps 40 to 52 are missing: …`."""
    steps = f"step {fact.first_step}" if fact.first_step == fact.last_step else f"steps {fact.first_step} to {fact.last_step}"
    lines = "1 line" if fact.lines == 1 else f"{fact.lines} lines"
    span = f" within {time_words(max(0.0, fact.last_s - fact.first_s))}" if fact.first_s else ""
    why = f": {fact.reason} ({fact.error})" if fact.error else ": the trainer could not write them in time"
    whose = f"attempt {fact.attempt}: the numbers of {steps} are missing"
    return f"{whose}; the trainer lost {lines} of {fact.file}{span}{why}. What they would have shown is not known"


def _of_history(fact: f.JournalSalvaged | f.RunRestored) -> Line:
    """Entries before it are gone, or are not known."""
    if isinstance(fact, f.JournalSalvaged):
        lost = "an unknown number of" if fact.lost is None else str(fact.lost)
        return Line(f"the journal was salvaged: {lost} entries are lost; what was damaged is kept in {fact.kept_in}", "warn")
    steps = ", ".join(map(str, fact.steps)) or "none"
    return Line(f"the run was restored on {fact.host} from its mirror at {fact.mirror}; checkpoints: {steps}", "warn")


def _of_run(
    fact: f.RunCreated | f.SupervisorTookOver | f.RunEnded | f.Held | f.StopAsked | f.CommandChanged, state: RunState
) -> Line | None:
    match fact:
        case f.CommandChanged():
            return Line(f"{compare_commands(fact.before, fact.command)}; from the next launch on", "warn")
        case f.RunCreated():
            mode = ", observe only" if fact.observe_only else ""
            return Line(f"run {fact.run_id}: policy {fact.policy_name}{mode}")
        case f.SupervisorTookOver():
            if fact.epoch <= 1:
                return None
            return Line(f"run {state.run_id}: taken over by supervisor {fact.epoch} (pid {fact.pid}), policy {fact.policy_name}")
        case f.StopAsked():
            return Line(f"stop asked for by {fact.by}{'; the next start goes on' if fact.resumes else ''}", "warn")
        case f.Held():
            return Line(f"HELD for a person: {fact.reason}", "bad")
        case f.RunEnded():
            tone: Tone = "good" if fact.outcome == "finished" else "bad" if fact.outcome == "failed" else "warn"
            return Line(f"run {fact.outcome}: {fact.reason}", tone)


def _of_environment(fact: f.EnvironmentRead) -> Line | None:
    """A change is told as a finding, and by policy; here is what could not be read."""
    if not fact.unknown or fact.environment is None:
        return None
    return Line(f"attempt {fact.attempt}: what it runs is not wholly known: {'; '.join(fact.unknown)}", "quiet")


def _of_attempt(
    fact: f.AttemptLaunched | f.ReceiptSeen | f.FirstStep | f.AttemptEnded | f.CheckpointCondemned, at_s: float, state: RunState
) -> Line:
    match fact:
        case f.AttemptLaunched():
            source = f"from the checkpoint of step {fact.resume.step}" if fact.resume else "from scratch"
            return Line(f"attempt {fact.attempt} launched {source}")
        case f.ReceiptSeen():
            ranks = "1 rank" if fact.world_size == 1 else f"{fact.world_size} ranks"
            proofs = "".join(f"; {proof.words}" for proof in fact.proofs)
            return Line(f"attempt {fact.attempt} receipt: {ranks}, stands at step {fact.resumed_step}{proofs}")
        case f.FirstStep():
            launched_s = next((x.launched_s for x in state.attempts if x.attempt == fact.attempt), at_s)
            return Line(f"attempt {fact.attempt} first step: {fact.step}, {time_words(at_s - launched_s)} after the launch")
        case f.AttemptEnded():
            tone: Tone = "plain" if fact.outcome in ("finished", "stopped", "killed") else "warn"
            words = f"attempt {fact.attempt} {fact.outcome} at step {fact.last_step}"
            is_shown = any(i.reason == fact.reason for i in state.incidents)  # by the incident it opened
            return Line(words if is_shown else f"{words}: {fact.reason}", tone)
        case f.CheckpointCondemned():
            return Line(f"checkpoint of step {fact.step} will not be used: {fact.reason}", "warn")


def _opens(fact: f.FindingRecorded, state: RunState) -> bool:
    """Whether an incident opened with this finding, and has not just gained it. `state` may be of then, or of later."""
    incident = next((i for i in state.incidents if i.id == fact.became), None)
    if incident is None:
        return fact.became == state.next_incident
    found = fact.finding
    began = (incident.kind, incident.attempt, incident.detected_step, incident.metric)
    return began == (found.kind, found.attempt, found.detected_step, found.metric or "")


def _of_incident(
    fact: f.FindingRecorded | f.IncidentOpened | f.RungTaken | f.RungJudged | f.IncidentMoved | f.PlaybookChanged, state: RunState
) -> Line | None:
    match fact:
        case f.PlaybookChanged():
            return Line(f"incident {fact.incident}, under the policy applied: {fact.reason}", "warn")
        case f.FindingRecorded():
            found = fact.finding
            if not _opens(fact, state):
                tone: Tone = "quiet" if found.severity == "info" else "plain"
                return Line(f"finding {found.kind} ({found.severity}): {found.reason}; {fact.reason}", tone)
            return None  # the incident it opens says the same
        case f.IncidentOpened():
            i = fact.incident
            onset = f"onset step {i.onset_step}, seen at step {i.detected_step}" if i.onset_step else f"at step {i.detected_step}"
            return Line(f"INCIDENT {i.id} {i.kind} ({i.severity}), {onset}: {i.reason}", "bad")
        case f.RungTaken():
            return Line(f"incident {fact.incident} rung {fact.remedy.rung + 1}: {fact.remedy.reason}", "warn")
        case f.RungJudged():
            tone = "good" if fact.outcome is Outcome.WORKED else "warn"
            return Line(f"incident {fact.incident} remedy {fact.outcome}: {fact.reason}", tone)
        case f.IncidentMoved():
            if fact.to is IncidentState.OPEN:
                return None  # the judgement before it says why
            word = _moved_word(fact, state)
            tone = _CLOSED_TONES.get(fact.to, "plain")
            return Line(f"incident {fact.incident} {word}: {fact.reason}", tone)


def _incident(number: int, state: RunState) -> Incident | None:
    return next((one for one in state.incidents if one.id == number), None)


def _moved_word(fact: f.IncidentMoved, state: RunState) -> str:
    """Loud where it is closed. `state` may be of then, or of later."""
    incident = _incident(fact.incident, state)
    if fact.to is IncidentState.EXHAUSTED and incident is not None and not incident.had_repairs:
        return FOR_A_PERSON.upper()
    return fact.to.words.upper() if fact.to in CLOSED else fact.to.words


def _of_recovery(fact: f.Restored | f.StepsLost | f.GaveUp, at_s: float, state: RunState) -> Line | None:
    match fact:
        case f.Restored():
            found = _incident(fact.incident, state)
            if found is None:
                return None
            after = f"{time_words(max(0.0, at_s - found.visible_s))} after the fault showed"
            return Line(f"incident {fact.incident}: new ground at step {fact.step}, {after}", "good")
        case f.StepsLost():
            return Line(f"{lost_words(fact.steps, fact.unseen)} will be trained again", "quiet", is_part=True)
        case f.GaveUp():
            words = {"stop_now": "training stops", "hold": "training is held", "keep_training": "training goes on"}
            then = words.get(fact.then, fact.then)
            found = _incident(fact.incident, state)
            if found is None or found.verdict != fact.reason:
                return Line(f"incident {fact.incident}: out of remedies ({fact.reason}); {then}", "bad")
            # the line before it, of the incident that closed, has the reason
            return Line(f"incident {fact.incident}: {'out of remedies; ' if found.had_repairs else ''}{then}", "bad")


def _of_telling(fact: f.PageRaised | f.PageHeld | f.PageResolved | f.LogMatched, at_s: float) -> Line:
    match fact:
        case f.LogMatched():
            where = f" on rank {fact.rank}" if fact.rank is not None else ""
            return Line(f"{fact.name} found in a log{where} at step {fact.step}: {fact.line}", "warn")
        case f.PageHeld() if not fact.routes:
            return Line(f"incident {fact.incident}: its page waits no more", "warn")
        case f.PageHeld():
            hold = PageHold(fact.routes, at_s, fact.windows, fact.until_s, fact.timezone, fact.incidents)
            return Line(f"incident {fact.incident}: its page on {', '.join(fact.routes)}: {hold_words(hold)}", "warn")
        case f.PageRaised():
            word = "A PERSON IS NEEDED" if fact.anew else "the page says something else now"
            return Line(f"incident {fact.incident}: {word} ({fact.severity}): {fact.title}", "bad" if fact.anew else "warn")
        case f.PageResolved():
            by = f" (by {fact.by})" if fact.by else ""
            return Line(f"incident {fact.incident}: its page is resolved: {fact.reason}{by}", "good")


def without_excerpts(text: str) -> str:
    """What `policy check` says of a file, on one line: each line of the file that has a caret below it is left out, with that."""
    lines = [line.strip() for line in text.splitlines()]
    return "; ".join(line for line, below in zip(lines, [*lines[1:], ""], strict=True) if line not in ("", "^") and below != "^")


def _of_request(fact: f.RequestAnswered | f.ApprovalAsked | f.OverridesAnswered) -> Line | None:
    match fact:
        case f.RequestAnswered(wish=w.Remark(text=text)):
            return Line(f"note by {fact.by}: {text}")
        case f.RequestAnswered():
            word = "granted" if fact.granted else "refused"
            return Line(
                f"{fact.by} asked to {request_words(fact.wish)}: {word}: {without_excerpts(fact.answer)}",
                "warn" if fact.granted else "quiet",
            )
        case f.ApprovalAsked():
            return Line(f"incident {fact.incident} WAITS for a person: rung {fact.rung + 1} would: {fact.reason}", "bad")
        case f.OverridesAnswered():
            in_force = f"settings {fact.id} are in force from step {fact.step}"
            return Line(in_force, "quiet", is_part=True) if not fact.not_in_force else None


def clock_words(seconds: float) -> str:
    """Elapsed time: 3:07, 1:03:07."""
    whole = max(0, int(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def utc_words(at_s: float) -> str:
    """Session time as wall time, which it is but for a clock that was set back: `2026-11-20 15:54:00Z`."""
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"Unix second {at_s:.0f}"


def page_words(action: a.SendPage) -> str:
    """What is sent, as in 'now: …'."""
    on = f" on {action.route}" if action.route else ""
    match action.stage:
        case "trigger":
            return f"page a person{on} ({action.severity}): {action.title}"
        case "update":
            return f"bring the page of incident {action.incident} up to date{on}"
        case "acknowledge":
            return f"tell{on} that incident {action.incident} is acknowledged"
        case "resolve":
            return f"tell{on} that incident {action.incident} needs nobody any more"
        case "message":
            return f"tell{on}: {action.title}"


def request_words(request: w.OperatorRequest) -> str:
    """What was asked, as in 'asked to …'."""
    match request:
        case w.PauseRun() | w.ResumeRun() | w.HoldRun():
            return recorded_name(type(request)).lower()
        case w.RollBack():
            return f"roll back to step {request.to_step}"
        case w.LeaveOut():
            return f"leave out samples {request.samples.start}..{request.samples.end}"
        case w.ChangeSettings():
            return f"change {', '.join(request.keys)}"
        case w.Readmit():
            return f"readmit node {request.node}{' without a check' if request.force else ''}"
        case w.PruneCheckpoints():
            return f"delete the checkpoints that nobody needs, but for the newest {request.keep}"
        case w.Remark():
            return f"note: {request.text}"
        case w.ApplyPolicy():
            return f"apply the policy {request.path}{f' ({request.note})' if request.note else ''}"
        case w.Approve() | w.Deny():
            of = f"rung {request.rung + 1} of " if request.rung is not None else ""
            return f"{recorded_name(type(request)).lower()} {of}incident {request.incident}"
        case w.Acknowledge() | w.Resolve():
            return f"{recorded_name(type(request)).lower()} incident {request.incident}"
        case _:
            assert_never(request)
