"""`sentinel checkpoints prune`: what could be spared, and its deletion: by the supervisor that has the run, or, where nobody
supervises it and nothing trains, by this process, which takes the run for as long."""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sentinel.actions.runner import Handler, carry_out
from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.errors import UsageError
from sentinel.journal.answering import answering
from sentinel.journal.lost_history import refuse_no_journal
from sentinel.journal.session import RunSession, take_run
from sentinel.model.actions import Action, PruneCheckpoint, ReadAnchor
from sentinel.model.events import ActionFailed, Event
from sentinel.model.facts import Fact, Noted, RequestAnswered
from sentinel.model.operator_requests import PruneCheckpoints
from sentinel.model.readings import RequestReading
from sentinel.operator.answers import is_supervised
from sentinel.operator.requests import ask
from sentinel.plan.retention import choose_anchor
from sentinel.plan.sparing import choose_spared, keep_of
from sentinel.report.checkpoints import SIZES, amount_words, read_reported_progress
from sentinel.report.masked import run_masking
from sentinel.report.reading import read_run
from sentinel.report.run_policy import read_policy
from sentinel.report.tables import text_table
from sentinel.run_files.stream import read_newest_step
from sentinel.telemetry.anchors import prune_sound, read_anchor


@dataclass(frozen=True, slots=True)
class Pruned:
    """What came of the request. `left`: sentences about what could not be deleted."""

    granted: bool
    words: str
    left: tuple[str, ...] = ()


def read_sparing(run_dir: Path, keep: int | None) -> dict[str, Any]:
    """Every checkpoint with the word over it, and what deleting the spared ones gives back. Changes nothing.

    `bytes`: what its files take alone: a file that has another name elsewhere, as a sealed checkpoint's may, gives nothing back.
    Raises UsageError, JournalError.
    """
    run = read_run(run_dir)
    policy, missing = read_policy(run_dir)
    if policy is None:
        raise UsageError(f"{run_dir}: what a rollback may need is not known: {missing}")
    attempt = run.state.attempt
    newest = read_newest_step(run_dir, attempt.attempt) if attempt is not None else None
    keep = keep_of(policy) if keep is None else keep
    reported = read_reported_progress(run_dir, run.state)
    judged = choose_spared(run.state, policy, keep, newest, reported)
    then = choose_spared(run.state, policy, keep, newest, reported, as_if_read=True)
    anchor = choose_anchor(judged, then)
    first = "" if anchor is None else f"; if that of step {anchor.step}, which is read whole first, holds"
    rows: list[dict[str, Any]] = [
        {
            "step": one.checkpoint.step,
            "path": one.checkpoint.path,
            "goes": one.prune,
            "why": f"{one.reason}{first}" if one.prune and not now.prune else one.reason,
            "bytes": measure(run_dir / one.checkpoint.path) if one.prune else None,
        }
        for now, one in zip(judged, judged if anchor is None else then, strict=True)
    ]
    back = sum(row["bytes"] or 0 for row in rows)
    return {"run": run.state.run_id, "keep": keep, "gives_back_bytes": back, "checkpoints": rows}


def sparing_text(document: dict[str, Any]) -> str:
    if not document["checkpoints"]:
        return "no checkpoint is on record"
    rows = [
        (row["step"], amount_words(row["bytes"], SIZES), "goes" if row["goes"] else "stays", row["why"])
        for row in document["checkpoints"]
    ]
    goes = sum(row["goes"] for row in document["checkpoints"])
    back = amount_words(document["gives_back_bytes"], SIZES)
    end = f"{goes} of {len(rows)} can go, which gives back {back}" if goes else "none can go"
    return f"{text_table(('step', 'gives back', '', 'why'), rows)}\n{end}"


def measure(folder: Path) -> int:
    """Bytes on the disk that only this folder's names hold."""
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    for place, _, names in os.walk(folder):
        for name in names:
            status = os.lstat(os.path.join(place, name))
            yield status.st_blocks * 512 if status.st_nlink == 1 else 0


def prune_run(run_dir: Path, keep: int) -> Pruned:
    """Have them deleted. Raises as `ask`, and as `take_run` does."""
    if is_supervised(run_dir):
        answer = ask(run_dir, PruneCheckpoints(keep))
        return Pruned(answer.granted, answer.words)
    refuse_no_journal(run_dir)
    with answering(run_dir), take_run(run_dir) as session:
        return _prune_unattended(run_dir, session, keep)


def _prune_unattended(run_dir: Path, session: RunSession, keep: int) -> Pruned:
    policy, missing = read_policy(run_dir)
    if policy is None:
        raise UsageError(f"{run_dir}: what a rollback may need is not known: {missing}")
    engine, clock = Engine(policy, masking=run_masking(run_dir)), SystemClock(session.journal.last_at_s())
    engine.restore(session.journal.read_entries())

    def handle(event: Event) -> tuple[Fact, ...]:
        now_s = clock.now_s()
        facts = engine.handle(now_s, event)
        if facts:
            session.journal.append(now_s, facts, session.epoch)
        return facts

    by = f"{getpass.getuser()}@{socket.gethostname()}"
    facts = handle(RequestReading(uuid.uuid4().hex[:12], by, PruneCheckpoints(keep)))
    answer = next(fact for fact in facts if isinstance(fact, RequestAnswered))
    handlers: dict[type[Action], Handler] = {
        PruneCheckpoint: cast(Handler, lambda action: prune_sound(run_dir, action)),
        ReadAnchor: cast(Handler, lambda action: read_anchor(run_dir, action)),
    }
    words, left = [answer.answer], list[str]()
    while due := [one for one in engine.state.pending.values() if isinstance(one, (PruneCheckpoint, ReadAnchor))]:
        action = due[0]
        outcome = carry_out(handlers, action)
        facts = handle(outcome)
        if isinstance(action, ReadAnchor):
            held = f"the checkpoint of step {action.step} was read whole and holds"
            gone = ", ".join(str(one.step) for one in engine.state.pending.values() if isinstance(one, PruneCheckpoint))
            notes = [fact.reason for fact in facts if isinstance(fact, Noted)] or [held]
            words += [*notes, f"deleted: the checkpoints of steps {gone}"] if gone else notes
            left += [] if gone else notes
        elif isinstance(outcome, ActionFailed):
            left.append(f"the checkpoint of step {action.step} stays: {outcome.reason}")
            words.append(left[-1])
    return Pruned(answer.granted, "; ".join(words), tuple(left))
