"""RUN_DIR/report.md: what happened in a run, on one page, written at the end of every supervised run.

Everything in it comes from the journal (and the newest step of the streams), so it can be written again at any time.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.run_layout import JOURNAL_NAME, REPORT_NAME
from sentinel.engine.goodput import ACCOUNTS, account, surviving_steps
from sentinel.model.amounts import time_words
from sentinel.model.state import Attempt, RunState
from sentinel.report.cause import cause_of
from sentinel.report.cost import cost_document, cost_words
from sentinel.report.documents import incident_document, under_way_document, under_way_words
from sentinel.report.masked import run_masking
from sentinel.report.tables import markdown_table, rounded_parts
from sentinel.report.text import INCIDENT_HEADER, incident_row, incident_story
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.stream import read_last_metric

ACCOUNT_WORDS = {
    "training": "steps that survive",
    "checkpointing": "saves within them",
    "replay": "steps trained and thrown away",
    "detection": "from the last step before a failure until it was believed",
    "recovery": "from there to the next attempt's receipt",
    "waiting": "the first start-up, backoff, stopped or held",
}
ATTEMPT_HEADER = ("attempt", "from step", "last step", "kept up to", "launched at s", "ended", "why it was launched")


def write_report(run_dir: Path, state: RunState, now_s: float) -> Path:
    """Write the report of a run that stands at `state`; its path. Raises OSError."""
    path = run_dir / REPORT_NAME
    write_atomically(path, run_masking(run_dir).text(report_text(run_dir, state, now_s)).encode())
    return path


def leave_report(run_dir: Path, state: RunState, now_s: float) -> None:
    """A report that cannot be written (a full disk) does not change how the run ended."""
    try:
        write_report(run_dir, state, now_s)
    except OSError as error:
        print(f"{run_dir}: the report cannot be written: {error.strerror}", file=sys.stderr)


def report_text(run_dir: Path, state: RunState, now_s: float) -> str:
    incidents = [incident_document(incident) for incident in state.incidents]
    parts = [f"# Run {state.run_id}: {state.label}", _head(run_dir, state), "## Incidents"]
    parts.append(markdown_table(INCIDENT_HEADER, [incident_row(i) for i in incidents]) if incidents else "None.")
    parts += ["\n".join(["```", *incident_story(incident), "```"]) for incident in incidents]
    ledger = markdown_table(("account", "seconds", "what it is"), ledger_rows(state, now_s))
    parts += ["## Goodput", goodput_line(state, now_s), ledger, _cost_line(run_dir, state, now_s)]
    parts += ["## Attempts", markdown_table(ATTEMPT_HEADER, attempt_rows(state))]
    if state.archive.attempts:
        parts.append(f"{state.archive.attempts} earlier attempts are in the ledger above and no longer listed one by one.")
    return "\n\n".join(parts) + "\n"


def _cost_line(run_dir: Path, state: RunState, now_s: float) -> str:
    cost = cost_document(state, now_s, None, read_standings(run_dir).gpus_in_use, ())
    return f"Cost: {cost_words(cost)}."


def goodput_line(state: RunState, now_s: float) -> str:
    ledger = account(state, now_s)
    parts = rounded_parts(ledger.seconds)
    useful, whole = parts["training"], sum(parts.values())
    trained = f"{time_words(useful)} of surviving training in {time_words(whole)}"
    return f"Goodput {ledger.goodput_ratio:.1%}: {trained} since the first launch."


def ledger_rows(state: RunState, now_s: float) -> list[tuple[str, float, str]]:
    """Account, seconds, what it is; the last row is the whole, and exactly the sum of the rows above it."""
    parts = rounded_parts(account(state, now_s).seconds)
    rows = [(name, parts[name], ACCOUNT_WORDS[name]) for name in ACCOUNTS]
    return [*rows, ("whole", round(sum(parts.values()), 1), "wall time since the first launch")]


def attempt_rows(state: RunState) -> list[tuple[object, ...]]:
    """The lineage: what each attempt started from, how far it came, and how much of that the run stands on now."""
    keeps = surviving_steps(state.attempts)
    return [_attempt_row(attempt, keep, state.created_s) for attempt, keep in zip(state.attempts, keeps, strict=True)]


def _attempt_row(attempt: Attempt, keep: float, created_s: float) -> tuple[object, ...]:
    kept = min(keep, attempt.last_step)
    kept_words = int(kept) if kept > attempt.resumed_step else "nothing"
    return (
        attempt.attempt,
        attempt.resumed_step,
        attempt.last_step if attempt.is_over else None,
        kept_words if attempt.is_over else None,
        attempt.launched_s - created_s,
        f"{attempt.outcome}: {attempt.end_reason}" if attempt.is_over else "it lives",
        attempt.why,
    )


def final_evaluation(run_dir: Path, state: RunState) -> tuple[int, float] | None:
    """Step and value of the newest held-out loss of the newest attempt; None when it reported none."""
    attempt = state.attempt
    return read_last_metric(run_dir, attempt.attempt, "val_loss") if attempt is not None else None


def policy_in_words(state: RunState) -> str:
    """`fix (sha256 0123456789ab), applied by ada@desk in the place of default`."""
    words = f"{state.policy_name} (sha256 {state.policy_digest[:12]})"
    applied = state.applied
    return words if applied is None else f"{words}, applied by {applied.by} in the place of {applied.before}"


def _head(run_dir: Path, state: RunState) -> str:
    command = shlex.join(run_masking(run_dir).words(state.command))
    lines = [f"- command: `{command}`", f"- policy: {policy_in_words(state)}"]
    if state.observe_only:
        lines.append("- observe only: what sentinel would have done is recorded, nothing was done")
    if cause := cause_of(state):
        lines.append(f"- cause: {cause}")
    if state.end_reason and state.end_reason != cause:
        lines.append(f"- ended: {state.end_reason}")
    if (now := under_way_document(state)) is not None:
        lines.append(f"- now: {under_way_words(now)}")
    found = final_evaluation(run_dir, state)
    if found is not None:
        lines.append(f"- held-out loss: {found[1]:.4f} at step {found[0]}")
    lines.append(f"- journal: `{run_dir / JOURNAL_NAME}`")
    return "\n".join(lines)
