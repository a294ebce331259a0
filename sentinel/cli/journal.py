"""`sentinel journal …`: whether a run's journal is whole, and how a run goes on when it is not. Parse and print."""

from __future__ import annotations

from typing import Annotated

import typer

from sentinel.cli.options import Json, RunDir
from sentinel.errors import UsageError

journal_app = typer.Typer(no_args_is_help=True, help="The run's journal: whether it is whole, and what to do when it is not.")


@journal_app.command()
def verify(run_dir: RunDir, as_json: Json = False) -> None:
    """Read every entry and compare it with the chain of digests, journal.head, the lease and the attempts. Changes nothing.

    Exit codes: 0 whole, 1 not whole, or it cannot be told, 2 usage.
    """
    from sentinel.client.strict_json import dumps
    from sentinel.journal.salvage import verify_journal
    from sentinel.report.run_dirs import check_run_dir

    check_run_dir(run_dir)
    found = verify_journal(run_dir)
    is_whole = not found.wrong and found.whole is not None
    if as_json:
        print(dumps({"entries": found.entries, "whole": found.whole, "wrong": list(found.wrong), "ok": is_whole}))
    elif found.wrong:
        print("\n".join([*found.wrong, f"the first {found.whole or 0} entries are as they were written"]))
    elif found.whole is None:
        print(f"{found.entries} entries, written before entries had digests: unknown, until `sentinel run` adopts them")
    else:
        print(f"{found.entries} entries, all as they were written")
    raise typer.Exit(0 if is_whole else 1)


@journal_app.command()
def salvage(
    run_dir: RunDir,
    copy: Annotated[
        str | None, typer.Option("--from", help="Another copy of the journal: a file, its directory, or the run's mirror.")
    ] = None,
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help="Go on without the entries that are in no copy.")] = False,
) -> None:
    """Make a new journal of the entries that are whole, and keep the damaged files beside it. `sentinel run` then goes on.

    Refused while a supervisor or an attempt lives. Nothing but the journal is changed.
    """
    from sentinel.mirrors.fetching import journal_copy
    from sentinel.mirrors.stores import MirrorError
    from sentinel.operator.salvaging import salvage as salvage_run

    try:
        with journal_copy(copy) as path:
            done = salvage_run(run_dir.absolute(), path, accept_loss)
    except MirrorError as error:
        raise UsageError(f"--from {copy}: {error}") from None
    lost = "none is lost" if done.lost == 0 else "how many are lost is unknown" if done.lost is None else f"{done.lost} are lost"
    print(f"{done.entries} entries of {done.source} were taken over, {lost}; the files as they were are in {done.kept_in}")
