"""`sentinel report`: the HTML of a run or of one incident, and the files it is written to.

RUN_DIR/report.html                    the run with all its incidents
RUN_DIR/incidents/NNNN/report.html     one incident
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.run_layout import HTML_REPORT_NAME, incident_report_path
from sentinel.errors import UsageError
from sentinel.launcher.sample_text import CHECKED_OUT, trainer_of
from sentinel.model.amounts import time_words
from sentinel.model.incidents import Incident
from sentinel.paging.case_words import follows
from sentinel.paging.runbook import RUNBOOK
from sentinel.plan.gpus import gpus_of
from sentinel.policy.quiet_hours import hold_words
from sentinel.report.cause import cause_of
from sentinel.report.cost import cost_document, cost_words, forecast_document, forecast_words
from sentinel.report.documents import under_way_document, under_way_words
from sentinel.report.html.collected import Collected, collect
from sentinel.report.html.cost import cost_of, setting_rows
from sentinel.report.html.curves import incident_panels, run_panels
from sentinel.report.html.evidence import evidence_of, sample_texts
from sentinel.report.html.page import render
from sentinel.report.html.rows import journal_rows, page_rows
from sentinel.report.html.story import story, try_rows
from sentinel.report.lineage import Branch
from sentinel.report.masked import run_masking
from sentinel.report.reading import find_incident
from sentinel.report.settings import setting_text, settings_asked
from sentinel.report.summary import goodput_line, ledger_rows
from sentinel.run_files.stream import read_total_steps

DRAWN_MAX = 16  # incidents with a plot of their own in the report of a run: the newest
REASON_CHARS_MAX = 300  # of one reason there: the incident's own report has it whole
BRANCHES_MAX = 400


def report_command(run_dir: Path, number: int | None, out: Path | None, with_texts: bool = True) -> Path:
    """Write the report asked for; where it lies. `with_texts`: of guilty samples, which takes seconds.
    Raises UsageError, JournalError."""
    text = run_report(run_dir) if number is None else incident_report(run_dir, number, with_texts)
    path = out or (run_dir / HTML_REPORT_NAME if number is None else incident_report_path(run_dir, number))
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; name another place with --out FILE") from error
    return path


def incident_report(run_dir: Path, number: int, with_texts: bool = False) -> str:
    """The HTML. Raises UsageError, JournalError."""
    run = collect(run_dir, (number,))
    incident = find_incident(run_dir, run.state.incidents, number)
    stretch = run.stretches[number]
    entries = stretch.entries
    evidence = evidence_of(run_dir, incident)
    concerned = {incident.attempt, *(one.attempt for one in incident.tries)}
    values = {
        "incident": incident,
        "story": story(incident, run.state),
        "next": follows(run.state, incident, run.now_s) if not incident.is_closed else [],
        "panels": incident_panels(run, incident),
        "tries": try_rows(incident),
        "rows": journal_rows(entries, incident, run.state),
        "rows_before": len(stretch.first),
        "left_out": stretch.left_out,
        "told": page_rows(entries, incident),
        "held": hold_words(page.holds_back) if (page := incident.page) is not None and page.holds_back is not None else "",
        "cost": cost_of(incident, stretch, gpus_of(run.state, run.gpus_in_use), run.state.price),
        "settings": setting_rows(stretch),
        "evidence": evidence,
        "texts": sample_texts(run_dir, run.state, incident, evidence) if with_texts else (),
        "trainer": trainer_of(run.state.command) or CHECKED_OUT,
        "branches": [_branch(run, one) for one in run.branches if one.attempt in concerned or one is run.branches[-1]],
        "finding": stretch.finding,
    }
    return render("incident.html", _of_run(run) | values)


def run_report(run_dir: Path) -> str:
    """The HTML. Raises UsageError, JournalError."""
    run = collect(run_dir)
    panels, share = run_panels(run)
    newest = run.state.incidents[-DRAWN_MAX:]
    drawn = {one.id: incident_panels(run, one, only_judged=True) for one in newest}
    values = {
        "incidents": [_incident_data(run, one, drawn.get(one.id, [])) for one in reversed(run.state.incidents)],
        "panels": panels,
        "share": share,
        "goodput": goodput_line(run.state, run.now_s) if run.state.attempts else "Nothing was trained yet.",
        "ledger": ledger_rows(run.state, run.now_s) if run.state.attempts else [],
        **_costs(run),
        "branches": [_branch(run, branch) for branch in run.branches[-BRANCHES_MAX:]],
        "branches_left_out": max(0, len(run.branches) - BRANCHES_MAX),
        "settings": {name: setting_text(name, value) for name, value in settings_asked(run.state.overrides).items()},
        "command": shlex.join(run_masking(run_dir).words(run.state.command)),
    }
    return render("run.html", _of_run(run) | values)


def _costs(run: Collected) -> dict[str, str]:
    """What it cost, and until when it goes on; a run that has ended has no forecast."""
    attempt = run.state.attempt
    if attempt is None:
        return {"cost": "", "forecast": ""}
    until_s = run.last_s if run.state.ended else run.now_s
    cost = cost_document(run.state, until_s, None, run.gpus_in_use, ())
    total = read_total_steps(run.run_dir, attempt.attempt)
    forecast = forecast_document(run.state, until_s, run.branches[-1].last_step, total, cost)
    return {"cost": cost_words(cost), "forecast": "" if run.state.ended else forecast_words(forecast, cost["currency"])}


def _of_run(run: Collected) -> dict[str, Any]:
    state = run.state
    written = datetime.fromtimestamp(run.now_s, UTC)
    began = datetime.fromtimestamp(state.created_s, UTC)
    now = under_way_document(state)
    return {
        "run": state.run_id or run.run_dir.name,
        "run_dir": str(run.run_dir),
        "label": state.label,
        "state": state,
        "cause": cause_of(state),
        "now": "" if now is None else under_way_words(now),
        "written": written.strftime("%Y-%m-%d %H:%M UTC"),
        "began": began.strftime("%Y-%m-%d %H:%M UTC"),
        "lasted": time_words((run.last_s if state.ended else run.now_s) - state.created_s),
        "runbook": RUNBOOK.name,
    }


def _incident_data(run: Collected, incident: Incident, panels: list[Any]) -> dict[str, Any]:
    return {
        "incident": incident,
        "story": story(incident, run.state)[:6],
        "tries": try_rows(incident, REASON_CHARS_MAX)[-6:],
        "cost": cost_of(incident, run.stretches.get(incident.id), gpus_of(run.state, run.gpus_in_use), run.state.price),
        "panels": panels,
        "at": time_words(incident.visible_s - run.state.created_s),
    }


def _branch(run: Collected, branch: Branch) -> dict[str, Any]:
    """An attempt as a row: where it came from, what it trained, what of that survives."""
    newest = branch is run.branches[-1]
    kept = branch.last_step if newest else branch.survives_to
    origin = f"step {branch.resumed_step}" if branch.resumed_step else "scratch"
    origin += f" of attempt {branch.parent}" if branch.parent is not None else ""
    trained = f"{branch.first_step}..{branch.last_step}" if branch.first_step is not None else "no step"
    survives = "nothing" if kept is None else "all" if kept >= branch.last_step else f"up to {kept}"
    return {
        "attempt": branch.attempt, "origin": origin, "trained": trained, "survives": survives, "why": branch.why,
        "end": f"{branch.outcome}: {branch.end_reason}" if branch.outcome else "it lives",
        "is_kept": kept is not None,
    }  # fmt: skip
