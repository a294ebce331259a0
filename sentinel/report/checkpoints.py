"""`sentinel checkpoints`: every checkpoint of a run with the word for how far it is trusted, and one looked at closely.

The words come from the journal alone (`plan/trust.py`); sizes, and the policy (its probation, and what it keeps), are read from
files, and a file that cannot be read costs that column and nothing more. Only `verify` reads the checkpoints themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentinel.checkpoints.files import list_entries, read_size, step_of_name
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.errors import GiveUp, UsageError
from sentinel.model.saved import SavedValues
from sentinel.model.state import RunState
from sentinel.plan.ahead import NOTHING_REPORTED, ReportedProgress, newest_seen
from sentinel.plan.checkpoint_validation import judge_numbers
from sentinel.plan.retention import judge_retention, rule_of, why_not_now
from sentinel.plan.trust import Trust, judge_trust
from sentinel.policy.schema import Policy
from sentinel.report.reading import read_run
from sentinel.report.run_dirs import check_run_dir
from sentinel.report.run_policy import read_policy
from sentinel.report.tables import text_table
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.heartbeats import read_ranks
from sentinel.run_files.stream import read_newest_step
from sentinel.telemetry.saved_numbers import verify_saved

SIZES = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("bytes", 1.0))
AGES = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def read_trust(run_dir: Path) -> dict[str, Any]:
    """The document of `sentinel checkpoints list --json`. `probation_steps` null, and `missing` says why: the policy cannot be
    read, and nothing can be called proven. `retain` null: sentinel deletes none. `kept` of a checkpoint: why it is not deleted.
    Raises UsageError, JournalError."""
    run = read_run(run_dir)
    attempt = run.state.attempt
    newest = read_newest_step(run_dir, attempt.attempt) if attempt is not None else None
    return trust_document(run_dir, run.state, run.now_s, newest)


def trust_document(run_dir: Path, state: RunState, now_s: float, newest: int | None) -> dict[str, Any]:
    """As `read_trust`, for whoever knows the state already. `newest`: the newest step of the stream."""
    policy, missing = read_policy(run_dir)
    probation = policy.spec.probation.steps if policy is not None else None
    trusts = judge_trust(state, probation, newest, read_reported_progress(run_dir, state))
    retain = policy.spec.checkpoints.retain if policy is not None else None
    kept = _kept(state, policy, trusts, newest_seen(state, newest)) if policy is not None else {}
    return {
        "run": state.run_id,
        "probation_steps": probation,
        "missing": missing,
        "retain": {"last": retain.last, "every": retain.every_steps} if retain is not None else None,
        "checkpoints": [_document(run_dir, trust, now_s, kept) for trust in trusts],
    }


def trust_text(document: dict[str, Any]) -> str:
    """A table, oldest first; what was moved aside stands above. Of those that were deleted only how many, and the last."""
    there = [c for c in document["checkpoints"] if c["trust"] != "pruned"]
    gone = [c for c in document["checkpoints"] if c["trust"] == "pruned"]
    note = f"\n{len(gone)} deleted, the last of step {gone[-1]['step']}: {gone[-1]['why']}" if gone else ""
    note += f"\nnothing can be called proven: {document['missing']}" if document["missing"] else ""
    if not there:
        return f"no checkpoint was committed yet{note}"
    kept = document["retain"] is not None
    rows = [
        (
            c["step"], amount_words(c["age_s"], AGES), amount_words(c["bytes"], SIZES), c["trust"], c["why"],
            *((c["kept"],) if kept else ()),
        )
        for c in there
    ]  # fmt: skip
    return text_table(("step", "age", "size", "trust", "why", *(("kept",) if kept else ())), rows) + note


def verify_steps(run_dir: Path, steps: Sequence[int]) -> list[dict[str, Any]]:
    """Look at every byte and the numbers of these checkpoints (empty: of all), changing nothing. One whose manifest is gone or
    cannot be read is one, too: only a look closer than a list's tells that. The documents of `sentinel
    checkpoints verify --json`: `ok` is null for one that cannot be read now; `numbers` is hold, wrong or unknown. UsageError for
    a step without a checkpoint."""
    check_run_dir(run_dir)
    try:
        found = {step: name for name in list_entries(run_dir) if (step := step_of_name(name)) is not None}
    except OSError as error:
        raise UsageError(f"{run_dir}/checkpoints: cannot be read: {error.strerror}; try again when it can") from error
    unknown = [step for step in steps if step not in found]
    if unknown:
        there = ", ".join(map(str, sorted(found))) or "none"
        raise UsageError(f"{run_dir}: there is no checkpoint of step {unknown[0]}; there are: {there}")
    return [_verified(run_dir, step, f"{CHECKPOINTS}/{found[step]}") for step in steps or sorted(found)]


def verified_text(documents: Sequence[dict[str, Any]]) -> str:
    return "\n".join(f"step {d['step']}: {_verdict_word(d)}: {d['why']}" for d in documents) or "there is no checkpoint"


def _verdict_word(document: dict[str, Any]) -> str:
    if document["ok"] and document["numbers"] == "unknown":
        return "bytes hold, numbers unknown"
    return {True: "holds", False: "DAMAGED", None: "unknown"}[document["ok"]]


def _verified(run_dir: Path, step: int, path: str) -> dict[str, Any]:
    unseen = {"step": step, "path": path, "numbers": "unknown", "values": None}
    try:
        saved = verify_saved(run_dir, run_dir / path)
    except GiveUp as damage:
        return unseen | {"ok": False, "why": str(damage)}
    except OSError as error:
        return unseen | {"ok": None, "why": f"it cannot be read now: {error.strerror}"}
    verdict = judge_numbers(saved)
    numbers = "unknown" if not verdict.is_known else "wrong" if verdict.evidence else "hold"
    seen = {"ok": not verdict.evidence, "numbers": numbers, "why": verdict.reason}
    return unseen | seen | {"values": _values(saved.values) if saved.values is not None else None}


def _values(values: SavedValues) -> dict[str, Any]:
    return {
        "files": values.files,
        "counted": values.values,
        "nan": sum(bad.nan for bad in values.bad),
        "infinite": sum(bad.infinite for bad in values.bad),
        "tensors": [
            {"file": bad.file, "tensor": bad.name, "values": bad.values, "nan": bad.nan, "infinite": bad.infinite}
            for bad in values.bad
        ],
        "more_tensors": values.more_bad,
        "not_counted": list(values.unread),
    }


def read_reported_progress(run_dir: Path, state: RunState) -> ReportedProgress:
    """What the heartbeats of the newest attempt tell, and what its supervisor last knew of its lines."""
    if state.attempt is None:
        return NOTHING_REPORTED
    beats, standings = read_ranks(run_dir, state.attempt.attempt), read_standings(run_dir)
    line_steps = standings.step_times.steps_seen_at_once if standings.attempt == state.attempt.attempt else 1
    return ReportedProgress(max((beat.step for beat in beats), default=0), line_steps)


def _kept(state: RunState, policy: Policy, trusts: Sequence[Trust], seen_step: int | None) -> dict[str, str]:
    """Why each checkpoint that lies there is not deleted, by path; empty where sentinel deletes none."""
    rule, attempt = rule_of(policy), state.attempt
    if rule is None or attempt is None:
        return {}
    waits = why_not_now(state) or "goes when the next one is committed"
    judged = judge_retention(trusts, rule, attempt.resumed_step, seen_step)
    return {r.checkpoint.path: f"for now ({waits}): {r.reason}" if r.prune else r.reason for r in judged}


def _document(run_dir: Path, trust: Trust, now_s: float, kept: dict[str, str]) -> dict[str, Any]:
    found, is_there = trust.checkpoint, trust.word not in ("quarantined", "pruned")
    return {
        "step": found.step,
        "path": found.path,
        "attempt": found.attempt,
        "digest": found.digest,
        "age_s": None if found.committed_s is None else round(max(0.0, now_s - found.committed_s), 3),
        "bytes": read_size(run_dir / found.path) if is_there else None,
        "trust": trust.word,
        "why": trust.reason,
        "kept": kept.get(found.path) if is_there else None,
    }


def amount_words(value: float | None, units: Sequence[tuple[str, float]]) -> str | None:
    """In the largest unit of which there is one: 1.5 GiB, 3 h."""
    if value is None:
        return None
    name, size = next(((name, size) for name, size in units if value >= size), units[-1])
    amount = value / size
    return f"{amount:.0f} {name}" if amount >= 100.0 else f"{amount:.3g} {name}"
