"""The commands that only look at a run: the terminal view, its logs, its events, its chronicle. Parse and print."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import LOOK, Json, RunDir, dump
from sentinel.errors import UsageError

LOOK_S = 0.25
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until the run ends or Ctrl-C.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (top, logs, events, chronicle):
        app.command(command.__name__, rich_help_panel=LOOK)(command)


def top(
    run_dir: RunDir,
    once: Annotated[bool, typer.Option("--once", help="Print it once, as lines.")] = False,
    as_json: Json = False,
) -> None:
    """The run on the terminal, four times a second: curves, incident, ranks, GPUs, checkpoints, pages, what happened. `q` leaves.

    It only looks: any number of them, from any machine that sees the directory. Without a terminal it prints once.
    """
    from sentinel.cli.top import read_top, show_top

    if as_json:
        print(dump(read_top(run_dir)))
    else:
        show_top(run_dir, once)


def logs(
    run_dir: RunDir,
    rank: Annotated[list[int] | None, typer.Option(help="Only of this rank; may be given again.", min=0, metavar="N")] = None,
    attempt: Annotated[int | None, typer.Option(help="Of this attempt instead of the newest.", min=0, metavar="N")] = None,
    follow: Follow = False,
    tail: Annotated[int, typer.Option(help="Lines of the end of each log.", min=0, metavar="N")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line: attempt, of, rank, line; or note.")] = False,
) -> None:
    """What ranks and launcher printed, with whose line it is; `-f` goes on, through relaunches too.

    Colours and control characters are taken out. Of a log that was cut while it grew, what was cut is said.
    """
    from sentinel.report.logs import LogQuery, read_logs
    from sentinel.report.masked import environment_masking

    masking = environment_masking()
    for read in read_logs(LogQuery(run_dir, tuple(rank or ()), attempt, tail, follow), _pause()):
        words = f"[sentinel] {read.text}" if read.is_note else read.text
        print(dump(read.document, masking) if as_json else words, flush=follow)


def events(
    run_dir: RunDir,
    follow: Follow = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every entry of the journal, one JSON object a line.")] = False,
    since: Annotated[int, typer.Option(help="Only what was written behind this entry.", min=0, metavar="SEQ")] = 0,
    incident: Annotated[int | None, typer.Option(help="Only what is about this incident.", min=1, metavar="N")] = None,
) -> None:
    """What happened and what was decided, from the journal, in words: time of the run, UTC, sentence."""
    from sentinel.report.events import event_document, event_line, read_events
    from sentinel.report.masked import environment_masking, masked_json

    masking = environment_masking()

    for entry, state in read_events(run_dir, since, incident, follow, _pause()):
        line = masked_json(event_document(entry, state), masking) if as_json else event_line(entry, state)
        if line is not None:
            print(line, flush=follow)


def chronicle(
    run_dir: RunDir,
    out: Annotated[Path | None, typer.Option(help="Write it to this file.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON document: its lines, day by day.")] = False,
) -> None:
    """The run's logbook in Markdown, as teams keep it by hand: day by day, what broke, what was done, what came of it.

    Made from journal and streams, the same each time. The supervisor leaves one as RUN_DIR/chronicle.md when it ends.
    """
    from sentinel.report.chronicle.write import chronicle_document, chronicle_text, write_chronicle

    if as_json and out is not None:
        raise UsageError("--json prints, and --out writes Markdown: leave one of them out")
    if as_json:
        print(dump(chronicle_document(run_dir)))
    elif out is None:
        print(chronicle_text(run_dir), end="")
    else:
        print(write_chronicle(run_dir, out))


def _pause() -> Callable[[], None]:
    from sentinel.clock import SystemClock

    clock, never = SystemClock(), threading.Event()

    def pause() -> None:
        clock.wait(never, LOOK_S)

    return pause
