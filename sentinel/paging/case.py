"""A page with its case: what a person woken at 3 a.m. reads in a minute, made of the run's state and the stream around the onset.

    title      demo: spike since step 379
    text       an opening sentence; what broke; what follows, and when; what waiting costs; commands that answer it (the first
               screen of a phone ends about here); what was tried; values and a small plot; where to read on

It is made of the state's data; a sentence of the engine's is never taken apart. What cannot be read on the disk is left out, and
a bug here costs the case and not the page.
"""

from __future__ import annotations

import os
import shlex
import socket
import textwrap
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from sentinel.channels.notice import TEXT_CHARS_MAX, TITLE_CHARS_MAX, Notice, dedup_key
from sentinel.channels.reach import where_it_leads
from sentinel.client.masking import Masking
from sentinel.client.run_layout import incident_report_path
from sentinel.curves.blocks import draw_plot
from sentinel.model.actions import SendPage
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState
from sentinel.paging import case_words
from sentinel.paging.case_answers import AnswerCommand, answers, asks
from sentinel.paging.plain_text import one_line, plain
from sentinel.paging.runbook import RUNBOOK, runbook_place
from sentinel.plan.gpus import gpus_of
from sentinel.policy.quiet_hours import was_held_words
from sentinel.policy.schema_paging import Paging
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.stream import read_steps, read_world_size

ENGINE_CHARS_MAX = 4000
SECTION_CHARS_MAX = 6000
FACT_CHARS_MAX = 200
LINE_CHARS_MAX = 1000
BEFORE_STEPS, BEHIND_STEPS = 120, 40
INDENT, WIDTH = 8, 92
METRIC_OF = {  # of journals whose incidents do not name theirs
    Kind.LOSS_SCALE_COLLAPSE: "loss_scale", Kind.GENERALISATION: "val_loss", Kind.SLOWDOWN: "step_time_s",
}


def build_notice(run_dir: Path, state: RunState, action: SendPage, paging: Paging, wall_s: float) -> Notice:
    """What is delivered for `action`. Reads a bounded piece of one stream; never raises."""
    incident = next((one for one in reversed(state.incidents) if one.id == action.incident), None)
    run = state.run_id or run_dir.name
    links = _links(run_dir, state, incident, action, paging)
    typed = _guarded_answers(run_dir, state, incident, action)
    try:
        body = _text(run_dir, state, incident, action, paging, wall_s, typed)
    except Exception as bug:  # noqa: BLE001 - whatever is wrong with the case, the page must go out
        body = f"{action.text}\n\n(the case could not be drawn up: {type(bug).__name__}: {bug})"
    masking = Masking.of(os.environ)
    return Notice(
        stage=action.stage,
        key=action.key,
        dedup_key=dedup_key(run, action.incident),
        run=run,
        incident=action.incident,
        severity=action.severity,
        title=one_line(masking.text(_title(run, incident, action)), TITLE_CHARS_MAX),
        text=_cut(plain(masking.text(body)), TEXT_CHARS_MAX),
        at_s=wall_s,
        by=one_line(action.by, FACT_CHARS_MAX),
        facts={name: one_line(masking.text(value), FACT_CHARS_MAX) for name, value in _facts(state, incident).items()},
        labels={name: one_line(masking.text(value), FACT_CHARS_MAX) for name, value in (incident.labels if incident else ())},
        answers=tuple(answer.command for answer in typed),
        asks=asks(incident, action.stage),
        links=links,
        began=int(state.created_s),
    )


def _title(run: str, incident: Incident | None, action: SendPage) -> str:
    if incident is None or action.stage == "trigger":
        return action.title
    about = f"{run}: {incident.kind} {case_words.where(incident)}"
    by = f" by {action.by}" if action.by else ""
    words = {"update": "Changed", "acknowledge": f"Seen{by}", "resolve": f"Resolved{by}", "message": "Repaired"}
    return f"{words[action.stage]}: {about}"


def _opening(state: RunState, incident: Incident | None, action: SendPage) -> str:
    raised = incident.page if incident is not None else None
    is_well = incident is not None and incident.state is IncidentState.RECOVERED
    verdict = incident.verdict if incident is not None and is_well else ""
    match action.stage:
        case "update":
            return "This page has changed: it stands as follows."
        case "acknowledge":
            return f"Acknowledged by {action.by or 'somebody'}: it is not repeated."
        case "resolve" if raised is not None and raised.is_open:
            return "Resolved: what was acknowledged is over, and another call follows."
        case "resolve" if raised is not None:
            by = f" (by {raised.resolved_by})" if raised.resolved_by else ""
            return f"Resolved: {_cut(raised.resolved, LINE_CHARS_MAX)}{by}."
        case "resolve":
            over = "It is over" + (f", says {action.by}" if action.by else "")
            return f"{over}{': ' + verdict if verdict else '.'}"
        case "message":
            return f"Nobody is needed: it was repaired{': ' + verdict if verdict else '.'}"
    if incident is not None and incident.awaits_approval:
        return "A remedy waits for your word."
    if incident is not None and incident.state is IncidentState.EXHAUSTED:
        return case_words.NOTICE if incident.kind is Kind.LOG_MATCH else "Sentinel can do no more here: a person must decide."
    return "The run has failed." if state.ended == "failed" else "A person is needed."


def _text(
    run_dir: Path, state: RunState, incident: Incident | None, action: SendPage, paging: Paging, wall_s: float,
    typed: Sequence[AnswerCommand],
) -> str:  # fmt: skip
    attempt = state.attempt
    ranks = read_world_size(run_dir, attempt.attempt) if attempt is not None else None
    width = max((len(answer.command) for answer in typed), default=0)
    sections = [_section("BROKE", [_cut("\n".join(_broke(run_dir, incident, action)), ENGINE_CHARS_MAX)])]
    sections.append(_section("NEXT", case_words.follows(state, incident, wall_s)))
    gpus = gpus_of(state, read_standings(run_dir).gpus_in_use).now
    waiting = case_words.cost(state, incident, wall_s, ranks or case_words.ranks_of(attempt), gpus)
    sections.append(_section("COST", waiting))
    asked = [f"{answer.command.ljust(width)}  {answer.what}" for answer in typed]
    sections.append(_section("ANSWER", [f"on {socket.gethostname()}:", *asked] if asked else [], is_copied=True))
    if incident is not None:
        sections.append(_section("TRIED", case_words.tried(incident) or ["nothing: no remedy applied"]))
        sections.append(_section("VALUES", [*case_words.values(incident), *case_words.evidence(incident)]))
        sections.append(_section("", _plot(run_dir, incident)) if action.stage in ("trigger", "update") else "")
    sections.append(_section("READ", _reading(run_dir, state, incident, action, paging), is_copied=True))
    waited = was_held_words(incident.page) if incident is not None and incident.page is not None else ""
    head = f"{_opening(state, incident, action)}{f' It was {waited}.' if waited else ''}\n\n"
    return head + "\n\n".join(section for section in sections if section)


def _broke(run_dir: Path, incident: Incident | None, action: SendPage) -> list[str]:
    """What broke, and why a person is needed now. The engine's own text where the journal holds it only as sentences: what it
    says of tries and of what follows then stands there twice."""
    if incident is not None:
        what, raised = case_words.what(incident), incident.page
        if action.stage == "message":
            return [what, f"now: {incident.verdict}"] if incident.verdict else [what]
        if raised is not None and raised.reason:
            return [what, *raised.notes, f"now: {raised.reason}"]
    return [action.text.replace("RUN_DIR", shlex.quote(str(run_dir.absolute())))]


def _section(label: str, lines: Sequence[str], is_copied: bool = False) -> str:
    """A label, and its lines beside it. `is_copied`: commands and addresses, which are never broken."""
    flat = [_cut(part, LINE_CHARS_MAX) for line in lines for part in _cut(line, SECTION_CHARS_MAX).split("\n") if part.strip()]
    wrapped = flat if is_copied else [row for line in flat for row in _wrapped(line)]
    return "\n".join(f"{label if number == 0 else '':<{INDENT}}{row}" for number, row in enumerate(wrapped))


def _wrapped(line: str) -> list[str]:
    """Sentences are broken where a mail or a pager would break them badly."""
    if len(line) <= WIDTH:
        return [line]
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _plot(run_dir: Path, incident: Incident) -> list[str]:
    """The judged metric around the onset; nothing where it cannot be read."""
    onset = incident.onset_step
    first = max(0, (onset if onset is not None else incident.break_step) - BEFORE_STEPS)
    last = max(incident.detected_step, onset or 0) + BEHIND_STEPS
    names = dict.fromkeys([judged_metric(incident), "loss"])
    rows = read_steps(run_dir, incident.attempt, first, last, names.__contains__)
    for name in names:
        points = [(step, metrics[name]) for step, metrics in rows if name in metrics]
        lines = draw_plot(name, points, onset)
        if lines:
            return lines
    return []


def judged_metric(incident: Incident) -> str:
    """The metric an incident is about."""
    band = incident.band.metric if incident.band is not None else None
    return incident.metric or METRIC_OF.get(incident.kind) or band or "loss"


def _facts(state: RunState, incident: Incident | None) -> dict[str, str]:
    """Short name → short value, those that are known."""
    attempt = state.attempt
    known: dict[str, object] = {"run state": state.label, "policy": state.policy_name, "host": socket.gethostname()}
    if attempt is not None:
        known["attempt"] = attempt.attempt
    if incident is not None:
        known |= {
            "kind": str(incident.kind), "alert": incident.alert, "state": str(incident.state),
            "onset step": incident.onset_step, "break step": incident.break_step, "attempt": incident.attempt,
            "rank": incident.blamed_rank, "node": incident.blamed_node,
            "metric": judged_metric(incident) if incident.value else "",
            "value": incident.value, "baseline": incident.baseline, "acknowledged by": incident.acknowledged_by,
        }  # fmt: skip
    return {name: str(value) for name, value in known.items() if value is not None and value != ""}


def _links(run_dir: Path, state: RunState, incident: Incident | None, action: SendPage, paging: Paging) -> dict[str, str]:
    """Name → URL. What lies in a file only is named in the text. The page knows a run by its directory's name and its begin."""
    found: dict[str, str] = {}
    written = _runbook_of(incident)
    if written.startswith(("https://", "http://")) and " " not in written:
        found["runbook"] = written
    elif paging.runbook_url is not None:
        found["runbook"] = runbook_place(str(incident.kind), paging.runbook_url) if incident is not None else paging.runbook_url
    if paging.run_url is not None:
        base, name = paging.run_url.rstrip("/"), quote(run_dir.absolute().name, safe="", errors="replace")
        began = f"began={int(state.created_s)}"
        found["page"] = f"{base}/#run={name}&{began}"
        found["report"] = f"{base}/runs/{name}/incidents/{action.incident}/report?{began}"
    return found


def _runbook_of(incident: Incident | None) -> str:
    """Where the rule's author sends the reader; empty where nothing is known of it, or it is the shipped file."""
    written = incident.page.runbook_url if incident is not None and incident.page is not None else ""
    return "" if written.partition("#")[0] == RUNBOOK.name else written


def _reading(run_dir: Path, state: RunState, incident: Incident | None, action: SendPage, paging: Paging) -> list[str]:
    """The report's file is named where its link leads no further: the file is still there when sentinel has ended."""
    links, host = _links(run_dir, state, incident, action, paging), socket.gethostname()
    is_here = bool(where_it_leads(links.get("page", ""), host))
    file = str(incident_report_path(run_dir.absolute(), action.incident))
    section = str(incident.kind) if incident is not None else ""
    lines = [f"runbook: {links.get('runbook') or _runbook_of(incident) or runbook_place(section, None)}"]
    lines.append(f"report:  {file if is_here else links.get('report', file)}")
    if "page" in links:
        lines.append(f"page:    {links['page']}{where_it_leads(links['page'], host)}")
    return lines


def _guarded_answers(run_dir: Path, state: RunState, incident: Incident | None, action: SendPage) -> list[AnswerCommand]:
    try:
        return answers(run_dir, state, incident, action.stage)
    except Exception:  # noqa: BLE001 - without its commands the page is still a page
        return []


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 2]} …"
