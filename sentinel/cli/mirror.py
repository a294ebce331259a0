"""`sentinel mirror …` and `sentinel restore`: a run's copy off its machine, and the way back. Parse and print."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentinel.cli.options import Json, RunDir

if TYPE_CHECKING:
    from sentinel.mirrors.restoring import RestoredRun

mirror_app = typer.Typer(no_args_is_help=True, help="The run's mirror off this machine: push it, look at it, read it back.")
To = Annotated[
    str | None,
    typer.Option("--to", help="Where to, in the place of run.json's: a directory or an address.", metavar="TO[,option=value,…]"),
]


@mirror_app.command()
def push(
    run_dir: RunDir,
    to: To = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until this is interrupted.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Begin a new mirror where the one before is gone.")] = False,
    until_eof: Annotated[bool, typer.Option("--until-eof", hidden=True, help="As a supervisor's helper.")] = False,
) -> None:
    """Push what is new of a run to its mirror: journal, streams, and the newest checkpoint if it is due.

    `sentinel run --mirror` does it for a living run. Exit codes: 0 all of it is there, 1 it is not, and why is said, 2 usage.
    """
    from sentinel.mirrors.command import push as push_run
    from sentinel.mirrors.settings import parse_mirror
    from sentinel.report.run_dirs import check_run_dir

    check_run_dir(run_dir)
    asked = None if to is None else parse_mirror("--to", to)
    is_there = push_run(run_dir.absolute(), asked, follow, until_eof, anew, lambda words: print(words, flush=True))
    raise typer.Exit(0 if is_there else 1)


@mirror_app.command()
def status(run_dir: RunDir, as_json: Json = False) -> None:
    """What of the run is where, how far it is behind, and the last error. Exit codes: 0 all is well, 1 it is not, 2 usage."""
    from sentinel.client.strict_json import dumps
    from sentinel.mirrors.telling import mirror_document, mirror_text
    from sentinel.report.run_dirs import check_run_dir

    check_run_dir(run_dir)
    document = mirror_document(run_dir)
    print(dumps(document) if as_json else mirror_text(document))
    raise typer.Exit(0 if document["ok"] else 1)


@mirror_app.command()
def verify(run_dir: RunDir, to: To = None, as_json: Json = False) -> None:
    """Read the whole mirror back and compare every byte with its digest. What does not hold is sent anew by the next push.

    Costs as much reading as the mirror is large. Exit codes: 0 all of it holds, 1 something does not, or cannot be read, 2 usage.
    """
    from sentinel.client.strict_json import dumps
    from sentinel.mirrors.settings import parse_mirror
    from sentinel.mirrors.stores import MirrorError
    from sentinel.mirrors.verifying import verify_mirror
    from sentinel.report.run_dirs import check_run_dir

    check_run_dir(run_dir)
    try:
        lines, is_whole = verify_mirror(run_dir.absolute(), None if to is None else parse_mirror("--to", to))
    except MirrorError as error:
        lines, is_whole = [str(error)], False
    print(dumps({"ok": is_whole, "told": lines}) if as_json else "\n".join(lines))
    raise typer.Exit(0 if is_whole else 1)


def restore(
    run_dir: Annotated[Path, typer.Argument(help="Where the run is to live; not there yet, or empty.", metavar="RUN_DIR")],
    place: Annotated[str, typer.Option("--from", help="The mirror: a directory or an address.", metavar="MIRROR")],
    checkpoint: Annotated[str, typer.Option(help="Which checkpoint comes along: a step, newest or none.")] = "newest",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fetch and compare everything, and keep nothing of it.")] = False,
) -> None:
    """Bring a run back from its mirror; `sentinel run --run-dir RUN_DIR` then goes on with it. Its first machine must be dead.

    Exit codes: 0 restored, 1 the mirror did not give it (the same command goes on), 2 usage.
    """
    from sentinel.mirrors.restoring import restore as restore_run
    from sentinel.mirrors.stores import MirrorError

    try:
        done = restore_run(place, run_dir, checkpoint, dry_run)
    except (MirrorError, OSError) as error:
        print(f"sentinel: {run_dir}: not restored: {error}; the same command goes on", file=sys.stderr)
        raise typer.Exit(1) from None
    print("\n".join(_restored(run_dir, done, dry_run)))


def _restored(run_dir: Path, done: RestoredRun, dry_run: bool) -> list[str]:
    when = datetime.fromtimestamp(done.journal.wall_s).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    step = f"the checkpoint of step {done.checkpoint.step}" if done.checkpoint is not None else "no checkpoint"
    lines = [
        f"run {done.record.run}, mirrored from {done.record.host}: the mirror ends at fact {done.journal.entries}, {when}; "
        "what was decided after that is unknown",
        f"{step} and {done.files} files {'hold' if dry_run else 'came along'}",
    ]
    lines += [f"not whole on the mirror: {line}" for line in done.wrong]
    lines += [f"not on this machine: {line}" for line in done.missing]
    if dry_run:
        return [*lines, "nothing was kept (--dry-run)"]
    return [*lines, f"make sure that {done.record.host} does not train any more, then: sentinel run --run-dir {run_dir}"]
