"""The commands that only look at a run: the terminal view, its logs, its events, its chronicle. Parse and print."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import LOOK, RunDir

LOOK_S = 0.25
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until the run ends or Ctrl-C.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (top, logs, events, chronicle):
        app.command(command.__name__, rich_help_panel=LOOK)(command)


def top(run_dir: RunDir, once: Annotated[bool, typer.Option("--once", help="Print it once, as lines.")] = False) -> None:
    """The run on the terminal, four times a second: curves, incident, ranks, GPUs, checkpoints, pages, what happened. `q` leaves.

    It only looks: any number of them, from any machine that sees the directory. Without a terminal it prints once.
    """
    from sentinel.cli.top import show_top

    _until_interrupted(lambda: show_top(run_dir, once))


def logs(
    run_dir: RunDir,
    rank: Annotated[list[int] | None, typer.Option(help="Only of this rank; may be given again.", min=0, metavar="N")] = None,
    attempt: Annotated[int | None, typer.Option(help="Of this attempt instead of the newest.", min=0, metavar="N")] = None,
    follow: Follow = False,
    tail: Annotated[int, typer.Option(help="Lines of the end of each log.", min=0, metavar="N")] = 100,
) -> None:
    """What ranks and launcher printed, with whose line it is; `-f` goes on, through relaunches too.

    Colours and control characters are taken out. Of a log that was cut while it grew, what was cut is said.
    """
    from sentinel.report.logs import LogQuery, read_logs

    def show() -> None:
        for read in read_logs(LogQuery(run_dir, tuple(rank or ()), attempt, tail, follow), _pause()):
            print(f"[sentinel] {read.text}" if read.is_note else read.text, flush=follow)

    _until_interrupted(show)


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

    def show() -> None:
        for entry, state in read_events(run_dir, since, incident, follow, _pause()):
            line = masked_json(event_document(entry, state), masking) if as_json else event_line(entry, state)
            if line is not None:
                print(line, flush=follow)

    _until_interrupted(show)


def chronicle(
    run_dir: RunDir, out: Annotated[Path | None, typer.Option(help="Write it to this file.", metavar="FILE")] = None
) -> None:
    """The run's logbook in Markdown, as teams keep it by hand: day by day, what broke, what was done, what came of it.

    Made from journal and streams, the same each time. The supervisor leaves one as RUN_DIR/chronicle.md when it ends.
    """
    from sentinel.report.chronicle.write import chronicle_text, write_chronicle

    if out is None:
        print(chronicle_text(run_dir), end="")
    else:
        print(write_chronicle(run_dir, out))


def _pause() -> Callable[[], None]:
    from sentinel.clock import SystemClock

    clock, never = SystemClock(), threading.Event()

    def pause() -> None:
        clock.wait(never, LOOK_S)

    return pause


def _until_interrupted(show: Callable[[], None]) -> None:
    """Ctrl-C is how a person leaves what goes on: no error, and no traceback."""
    try:
        show()
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
