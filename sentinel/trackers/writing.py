"""A run written into one tracker, a bounded piece at a time: attempts in the order of their launches, each with its rows.

How far that is stands in a small file, so any process goes on where the one before was killed. What is told twice, the tracker
has once (it knows its runs by their keys), but for the rows of one piece.

    writing = TrackedRun(run_dir, target)
    while writing.advance(): ...    # and again later, while the run lives
    writing.close()
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import stream_path
from sentinel.client.strict_json import dumps, loads
from sentinel.journal.run_file import find_run_file
from sentinel.model.incidents import Incident
from sentinel.model.readings import Receipt, StepReading
from sentinel.report.journal_fold import JournalFold
from sentinel.report.lineage import Branch
from sentinel.report.masked import run_masking
from sentinel.run_files.rising_steps import RisingSteps
from sentinel.run_files.stream import StreamPieces, read_receipt
from sentinel.run_files.stream_lines import parse_line
from sentinel.trackers.contract import AttemptRun, End, Fork, Tracker
from sentinel.trackers.registry import Target

FOLDER = "trackers"
VERSION = 1
ROWS_PER_CALL = 500
ENDS: Mapping[str, End] = {"finished": "finished", "unobserved": "finished", "stopped": "stopped"}  # any other failed
_NOT_IN_KEYS = re.compile(r"[^\w\-]+", re.ASCII)
KEY_NAME_CHARS_MAX = 40  # W&B's keys end at 128 characters


def tracker_folder(run_dir: Path) -> Path:
    return run_dir / FOLDER


def place_path(run_dir: Path, target: Target) -> Path:
    """The file that says how far a target has the run: another project is another target."""
    digest = hashlib.sha256(repr((target.row.name, target.settings)).encode()).hexdigest()[:8]
    return tracker_folder(run_dir) / f"{target.row.name}-{digest}.json"


@dataclass(slots=True)
class AttemptPosition:
    """How far one attempt is. taken: bytes of its stream. summary: what its tracker was last told of it as a whole."""

    taken: int = 0
    step: int = -1
    is_over: bool = False
    summary: str = ""


class TrackedRun:
    """Raises UsageError for what is no run. `advance` raises TrackerError, OSError and JournalError; make a new one then, and it
    goes on."""

    def __init__(self, run_dir: Path, target: Target) -> None:
        self._run_dir = run_dir
        self._place = place_path(run_dir, target)
        self._reached = _recall(self._place)
        self._journal = JournalFold(run_dir)
        self._journal.catch_up()
        self._tracker: Tracker = target.open(tracker_folder(run_dir))
        self._open: AttemptRun | None = None
        self._steps = RisingSteps()  # of the open attempt
        self._stream: StreamPieces | None = None
        self._is_written = False

    @property
    def has_ended(self) -> bool:
        """The run is over: nothing will come any more."""
        return bool(self._journal.state.ended)

    @property
    def summary(self) -> str:
        """For a person: what the tracker has, and where to look."""
        newest = max(self._reached, default=0)
        step = max([0, *(reached.step for reached in self._reached.values())])
        words = f"{len(self._reached)} attempt(s), up to step {step}" if newest else "no attempt yet"
        return f"{words}; {self._tracker.where()}" if self._is_written else f"{words}; nothing new"

    def advance(self) -> bool:
        """Write the next piece; whether there is more at once."""
        self._journal.catch_up()
        branches = self._journal.lineage.branches()
        for branch in branches:
            if not self._is_over(branch.attempt):
                has_more = self._write(branch)
                return has_more or self._is_over(branch.attempt)  # then the next attempt, or what is said at the end
        self._tell_all(branches)
        if self.has_ended and self._is_written:
            self._tracker.end(self._key(), ENDS.get(self._journal.state.ended, "failed"))
        return False

    def close(self) -> None:
        """Leave the open attempt to whoever goes on with it."""
        if self._open is not None:
            self._tracker.close("going on")
            self._open, self._stream = None, None
        self._remember()

    def _is_over(self, attempt: int) -> bool:
        """Its run is written to the end."""
        reached = self._reached.get(attempt)
        return reached is not None and reached.is_over

    def _write(self, branch: Branch) -> bool:
        number, is_over = branch.attempt, bool(branch.outcome)
        receipt = read_receipt(self._run_dir, number)
        if receipt is None and not is_over:
            return False  # its configuration is not known yet
        if self._open is None or self._stream is None:
            self._begin(branch, receipt)
        assert self._stream is not None
        reached = self._reached[number]
        piece = self._stream.read(is_over)
        self._log(piece.lines, reached)
        reached.taken = self._stream.taken
        if is_over and not piece.has_more:
            self._tell(branch)
            self._tracker.close(ENDS.get(branch.outcome, "failed"))
            self._open, self._stream = None, None
            reached.is_over = True
        elif not piece.has_more:
            self._tell(branch)
        self._remember()
        return piece.has_more

    def _begin(self, branch: Branch, receipt: Receipt | None) -> None:
        number = branch.attempt
        run = self._describe(branch, receipt, is_known=number in self._reached)
        self._tracker.open(run)
        self._is_written = True
        reached = self._reached.setdefault(number, AttemptPosition())
        self._steps = RisingSteps(reached.step, after=branch.resumed_step or -1)  # a row of the step resumed from is the parent's
        self._open, self._stream = run, StreamPieces(stream_path(self._run_dir, number), reached.taken)

    def _log(self, lines: list[bytes], reached: AttemptPosition) -> None:
        rows: list[StepReading] = []
        for line in lines:
            try:
                reading = parse_line(line, 0)
            except ValueError:
                continue  # telemetry tells of damaged lines
            if isinstance(reading, StepReading) and (row := self._steps.take(reading)) is not None:
                rows.append(row)
                reached.step = row.step
        for first in range(0, len(rows), ROWS_PER_CALL):
            self._tracker.log(rows[first : first + ROWS_PER_CALL])

    # -- what is said beside the rows ---------------------------------------------------------------------------------

    def _describe(self, branch: Branch, receipt: Receipt | None, is_known: bool = True) -> AttemptRun:
        state, file = self._journal.state, find_run_file(self._run_dir)
        config: dict[str, Any] = {
            "run": state.run_id,
            "attempt": branch.attempt,
            "launched": branch.why,
            "resumed_step": branch.resumed_step,
            "parent_attempt": branch.parent,
            "settings": branch.settings,
            "without_nodes": branch.exclude_nodes,
            "runs_other_than_before": branch.environment_changes,
            "command": list(file.command) if file is not None else [],
            "policy": file.policy.name if file is not None else "",
            "world_size": receipt.world_size if receipt is not None else None,
            "tokens_per_step": receipt.tokens_per_step if receipt is not None else None,
        }
        fork = None if branch.parent is None else Fork(self._key(branch.parent), branch.resumed_step)
        config = run_masking(self._run_dir).document(config)
        return AttemptRun(self._key(branch.attempt), self._key(), state.run_id, branch.attempt, config, fork, is_known)

    def _key(self, attempt: int | None = None) -> str:
        """Of the run, or of one of its attempts. Two runs of one name began at different times."""
        state = self._journal.state
        began = hashlib.sha256(f"{state.run_id} {state.created_s!r}".encode()).hexdigest()[:8]
        name = _NOT_IN_KEYS.sub("-", state.run_id)[:KEY_NAME_CHARS_MAX].strip("-") or "run"
        return f"{name}-{began}" if attempt is None else f"{name}-{began}-{attempt:04d}"

    def _tell(self, branch: Branch) -> None:
        """What is known of an attempt as a whole, where that is news."""
        reached = self._reached[branch.attempt]
        facts = {
            "outcome": branch.outcome or "has not ended",
            "end_reason": branch.end_reason,
            "survives_to": branch.survives_to if branch.outcome else None,
            "incidents": [_incident_line(one) for one in self._journal.state.incidents if one.attempt == branch.attempt],
        }
        words = dumps(facts)
        if words != reached.summary:
            run = self._open or self._describe(branch, None)
            known = {name: value for name, value in facts.items() if value not in (None, "", [])}
            self._tracker.tell(run, run_masking(self._run_dir).document(known))
            reached.summary = words

    def _tell_all(self, branches: list[Branch]) -> None:
        """A later attempt changes what of an earlier one survives, and incidents go on after the attempt that raised them."""
        for branch in branches:
            self._tell(branch)
        self._remember()

    def _remember(self) -> None:
        document = {
            "v": VERSION,
            "attempts": {str(number): [at.taken, at.step, at.is_over, at.summary] for number, at in self._reached.items()},
        }
        write_atomically(self._place, dumps(document).encode(), durable=False)


def _incident_line(incident: Incident) -> str:
    where = f" at step {incident.onset_step}" if incident.onset_step is not None else ""
    return f"incident {incident.id}: {incident.kind}{where}: {incident.state}: {incident.verdict or incident.reason}"


def _recall(path: Path) -> dict[int, AttemptPosition]:
    """What the file says; nothing where it cannot be read: then everything is written once more, into the same runs."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        noted = loads(read_regular(path))
        if noted["v"] == VERSION:
            return {
                int(number): AttemptPosition(int(taken), int(step), bool(is_over), str(summary))
                for number, (taken, step, is_over, summary) in noted["attempts"].items()
            }
    return {}
