"""`sentinel chronicle`: the logbook of a run as a page of Markdown; and RUN_DIR/chronicle.md, which the supervisor leaves behind.

The same journal and streams give the same page. Quiet days are one line together; of a day with more incidents than anybody reads
one by one, those that sentinel repaired alone are a table.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.masking import Masking
from sentinel.client.run_layout import CHRONICLE_NAME
from sentinel.engine.goodput import account
from sentinel.errors import SentinelError, UsageError
from sentinel.model import facts as f
from sentinel.report.cause import cause_of
from sentinel.report.chronicle.gathering import DAY_S, Day, Gathered, Moment, gather
from sentinel.report.chronicle.lines import moment_lines
from sentinel.report.chronicle.plain import code, plain
from sentinel.report.chronicle.stories import Story, many, outcome_words, story_lines
from sentinel.report.cost import cost_document, cost_words
from sentinel.report.journal_fold import JournalFold
from sentinel.report.lineage import Branch
from sentinel.report.masked import run_masking
from sentinel.report.schedule import schedule_rows
from sentinel.report.summary import policy_in_words
from sentinel.report.tables import markdown_table, rounded_parts
from sentinel.run_files.detector_standings import read_standings
from sentinel.terminal.words import utc_words

INCIDENTS_LISTED_MAX = 8  # of one day one by one; of more the repaired ones are a table
CONDEMNED_LISTED = 3


def chronicle_text(run_dir: Path) -> str:
    """Raises UsageError for what is no run, JournalError for a damaged journal."""
    fold, masking = JournalFold(run_dir), run_masking(run_dir)
    found = gather(fold.read())
    if not found.seq:
        raise UsageError(f"{run_dir}: nothing is recorded yet; look again in a moment")
    branches = {branch.attempt: branch for branch in fold.lineage.branches()}
    days = [day for _, day in sorted(found.days.items())]
    parts = [f"# Chronicle of {plain(found.state.run_id)}", _head(found, masking, read_standings(run_dir).gpus_in_use)]
    if len(days) > 1:
        parts += ["## Day by day", markdown_table(DAY_HEADER, [_day_row(day) for day in days if not _is_quiet(day)])]
    for is_quiet, group in groupby(days, key=_is_quiet):
        some = list(group)
        parts += [_quiet_days(some)] if is_quiet else [_day_text(run_dir, found, branches, day) for day in some]
    return masking.text("\n\n".join([*parts, _foot(found, fold)]) + "\n")


def chronicle_document(run_dir: Path) -> dict[str, Any]:
    """As `sentinel chronicle --json` prints it: the days on which anything happened, each with its figures and what has a line.
    Raises as `chronicle_text`."""
    text = chronicle_text(run_dir)
    fold = JournalFold(run_dir)
    found = gather(fold.read())
    branches = {branch.attempt: branch for branch in fold.lineage.branches()}
    days = [_day_document(run_dir, found, branches, day) for _, day in sorted(found.days.items())]
    return {"run": found.state.run_id, "state": found.state.label, "seq": found.seq, "days": days, "markdown": text}


def _day_document(run_dir: Path, found: Gathered, branches: dict[int, Branch], day: Day) -> dict[str, Any]:
    lines = [(moment, _incident_lines(run_dir, found, branches, moment)) for moment in day.moments]
    return {
        "day": _date(day.number),
        "first_step": day.first_step,
        "last_step": day.last_step,
        "goodput": round(day.training_s / day.whole_s, 4) if day.whole_s > 0 else None,
        "counts": dict(day.counts),
        "moments": [{"at_s": moment.at_s, "step": moment.step, "lines": texts} for moment, texts in lines if texts],
    }


def write_chronicle(run_dir: Path, path: Path) -> str:
    """Write it to `path`; a sentence about it. Raises UsageError where that cannot be written."""
    text = chronicle_text(run_dir)
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; choose another --out") from error
    return f"{path}: {text.count(chr(10))} lines"


def leave_chronicle(run_dir: Path) -> None:
    """Beside the report, when a supervisor ends. One that cannot be written does not change how the run ended."""
    try:
        write_chronicle(run_dir, run_dir / CHRONICLE_NAME)
        return
    except (SentinelError, OSError) as error:
        why = str(error)
    except Exception as bug:  # noqa: BLE001 - a bug here may cost the logbook, and neither the exit status nor a word about it
        why = f"{type(bug).__name__}: {bug}"
    with suppress(OSError, ValueError):
        print(f"{run_dir}: the chronicle cannot be written: {why}", file=sys.stderr)


DAY_HEADER = ("day", "steps", "attempts", "incidents", "pages", "goodput")


def _head(found: Gathered, masking: Masking, gpus_in_use: int | None) -> str:
    state, read = found.state, found.environment
    mode = ", observe only" if state.observe_only else ""
    why = plain(cause_of(state) or state.end_reason)
    stands = f"{state.label}: {why}" if state.ended else f"{state.label} as of the last entry"
    lines = [
        f"Written from the journal up to entry {found.seq} ({utc_words(found.last_s)}) and the streams. Times are UTC.",
        f"- begun: {utc_words(found.first_s)}",
        f"- stands: {stands}",
        f"- command: {code(shlex.join(masking.words(state.command)))}",
        f"- policy: {plain(policy_in_words(state))}{mode}",
    ]
    if read is not None:
        libraries = dict(read.distributions or ())
        words = [read.interpreter] if read.interpreter else []
        words += [f"{name} {libraries[name]}" for name in ("torch", "numpy", "transformers") if name in libraries]
        words += [f"{len(read.code)} source files"] if read.code is not None else []
        lines.append(f"- ran at first: {plain(', '.join(words))}")
    called = sum(story.called_s is not None for story in found.stories.values())
    repaired = sum(str(story.state) == "recovered" for story in found.stories.values())
    incidents = many(len(found.stories), "incident")
    lines.append(f"- {many(found.attempts, 'attempt')}, {incidents}: {repaired} recovered, for {called} a person was called")
    lines.append(f"- goodput: {account(found.state, found.last_s).goodput_ratio:.1%}")
    cost = cost_document(state, found.last_s, None, gpus_in_use, ())
    lines += [f"- cost: {cost_words(cost)}"] if cost["total"]["gpu_hours"] else []
    return lines[0] + "\n\n" + "\n".join(lines[1:])


def _day_text(run_dir: Path, found: Gathered, branches: dict[int, Branch], day: Day) -> str:
    incidents = [moment for moment in day.moments if moment.story is not None]
    is_busy = len(incidents) > INCIDENTS_LISTED_MAX
    folded = [moment for moment in incidents if is_busy and moment.story is not None and not moment.story.needed_a_person]
    lines: list[str] = []
    for moment in day.moments:
        if moment in folded or (is_busy and isinstance(moment.fact, f.AttemptLaunched)):
            continue
        head, *below = _incident_lines(run_dir, found, branches, moment) or [""]
        if head:
            lines.append(f"- {_clock(moment.at_s)} · step {moment.step} · {head}")
            lines += [f"  - {line}" for line in below]
    parts = [f"## {_date(day.number)}: {_day_words(day)}", "\n".join(lines)]
    if folded:
        rows = [_folded_row(moment) for moment in folded]
        parts += [f"{many(len(folded), 'incident')} that sentinel repaired alone:", markdown_table(FOLDED_HEADER, rows)]
    return "\n\n".join(part for part in [*parts, _counts(day, is_busy)] if part)


def _incident_lines(run_dir: Path, found: Gathered, branches: dict[int, Branch], moment: Moment) -> list[str]:
    story = moment.story
    if story is None:
        return moment_lines(run_dir, found, branches, moment)
    opened = story.opened
    onset = f", onset step {opened.onset_step}" if opened.onset_step is not None else ""
    head = f"**Incident {opened.id}: {plain(str(opened.kind))}** ({opened.severity}){onset}: {outcome_words(story)}"
    return [head, *story_lines(story, utc_words)]


FOLDED_HEADER = ("time", "step", "incident", "remedies", "outcome")


def _folded_row(moment: Moment) -> tuple[object, ...]:
    story: Story | None = moment.story
    assert story is not None, "only incidents are folded"
    name = f"{story.opened.id} {story.opened.kind}"
    return (_clock(moment.at_s), moment.step, name, plain(story.remedies), outcome_words(story))


def _quiet_days(days: Sequence[Day]) -> str:
    first, last = days[0], days[-1]
    when = _date(first.number) if len(days) == 1 else f"{_date(first.number)} to {_date(last.number)}"
    saved = sum(day.counts["checkpoints"] for day in days)
    whole = sum(day.whole_s for day in days)
    share = f", goodput {sum(day.training_s for day in days) / whole:.0%}" if whole > 0 else ""
    trained = f"step {last.last_step}" if first.first_step == last.last_step else f"steps {first.first_step} to {last.last_step}"
    return f"## {when}: quiet\n\n{trained}, {many(saved, 'checkpoint')}{share}."


def _is_quiet(day: Day) -> bool:
    return not day.moments and not day.counts["blind"] and not day.counts["condemned"]


def _day_row(day: Day) -> tuple[object, ...]:
    attempts = sum(isinstance(moment.fact, f.AttemptLaunched) for moment in day.moments)
    steps = f"{day.first_step} to {day.last_step}"
    return (_date(day.number), steps, attempts or None, day.counts["incidents"] or None, day.counts["pages"] or None, _share(day))


def _day_words(day: Day) -> str:
    incidents = day.counts["incidents"]
    words = [f"steps {day.first_step} to {day.last_step}"]
    words += [many(incidents, "incident")] if incidents else []
    words += [f"goodput {_share(day)}"] if day.whole_s > 0 else []
    return ", ".join(words)


def _share(day: Day) -> str | None:
    return f"{day.training_s / day.whole_s:.0%}" if day.whole_s > 0 else None


def _counts(day: Day, is_busy: bool) -> str:
    """What had no line of its own."""
    counts, words = day.counts, []
    attempts = sum(isinstance(moment.fact, f.AttemptLaunched) for moment in day.moments)
    words += [f"{many(attempts, 'attempt')} launched (`sentinel lineage` has each)"] if is_busy and attempts else []
    words += [f"{many(counts['checkpoints'], 'checkpoint')} committed"] if counts["checkpoints"] else []
    words += [f"{counts['pruned']} deleted as the policy asks"] if counts["pruned"] else []
    words += [f"checkpoints moved to quarantine {many(counts['quarantines'], 'time')}"] if counts["quarantines"] else []
    if counts["condemned"]:
        reasons = "; ".join(plain(words) for words in day.condemned[:CONDEMNED_LISTED])
        reasons += "; …" if counts["condemned"] > CONDEMNED_LISTED else ""
        words.append(f"{counts['condemned']} not to be used any more ({reasons})")
    words += [f"{many(counts['findings'], 'finding')} that opened nothing"] if counts["findings"] else []
    words += [f"a source went blind {many(counts['blind'], 'time')}"] if counts["blind"] else []
    return f"Besides: {', '.join(words)}." if words else ""


def _foot(found: Gathered, fold: JournalFold) -> str:
    ledger = account(found.state, found.last_s)
    seconds = rounded_parts(ledger.seconds)
    rows = [(name, value, f"{value / ledger.total_s:.1%}" if ledger.total_s > 0 else None) for name, value in seconds.items()]
    parts = ["## What the time went into", markdown_table(("account", "seconds", "share"), rows)]
    cost = schedule_rows(fold.schedule.document(fold.lineage.branches(), None))
    parts += ["\n".join(f"- {what}: {plain(words)}" for what, words in cost)] if cost else []
    return "\n\n".join(parts)


def _date(number: int) -> str:
    return utc_words(number * DAY_S)[:10]


def _clock(at_s: float) -> str:
    return utc_words(at_s)[11:19]
