"""`sentinel checkpoints …`: how far each is trusted, a close look at one, and room made by deleting some. Parse and print."""

from __future__ import annotations

from typing import Annotated

import typer

from sentinel.cli.options import Json, RunDir, RunDirAnywhere, show

checkpoints_app = typer.Typer(no_args_is_help=True, help="The run's checkpoints: how far each is trusted, and why.")


@checkpoints_app.command("list")
def list_(run_dir: RunDir, as_json: Json = False) -> None:
    """Every checkpoint with its step, age, size, and one word for how far it is trusted, with the reason.

    candidate: committed, not verified yet. verified: every byte and its numbers held. proven: the run trained a probation's
    length beyond it, healthy. suspect: after an onset, or what resumed from it failed. damaged. quarantined: moved aside. pruned:
    deleted, as the policy's checkpoints.retain asks; with that, each of the others also says why it is kept.
    """
    from sentinel.report.checkpoints import read_trust, trust_text
    from sentinel.report.masked import masked_json

    document = read_trust(run_dir)
    show(masked_json(document) if as_json else trust_text(document))


@checkpoints_app.command(cls=RunDirAnywhere)
def verify(
    run_dir: RunDir,
    steps: Annotated[list[int] | None, typer.Argument(help="Of these steps; without any, of all.", metavar="[STEP...]")] = None,
    as_json: Json = False,
) -> None:
    """Compare every byte and the numbers of checkpoints with their manifests and the stream. Reads all of them, changes nothing.

    Exit codes: 0 all hold, 1 one does not, or cannot be read now, 2 usage.
    """
    from sentinel.report.checkpoints import verified_text, verify_steps
    from sentinel.report.masked import masked_json

    documents = verify_steps(run_dir, steps or ())
    show(masked_json(documents) if as_json else verified_text(documents))
    raise typer.Exit(0 if all(document["ok"] for document in documents) else 1)


@checkpoints_app.command(hidden=True)
def remember(run_dir: RunDir) -> None:
    """As a supervisor's helper: read each new checkpoint once, behind training, until nobody holds the standard input."""
    import threading

    from sentinel.telemetry.lasting_helper import stop_at_eof
    from sentinel.telemetry.reading_behind import BehindReader, run_behind

    run_behind()
    stop_at_eof(stop := threading.Event())
    BehindReader(run_dir.absolute(), lambda line: print(line, flush=True), stop).follow()


@checkpoints_app.command()
def prune(
    run_dir: RunDir,
    keep: Annotated[int | None, typer.Option(help="Of the newest; left out: as the policy retains, else 3.", min=1)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted, and what it gives back.")] = False,
    as_json: Json = False,
) -> None:
    """Delete the checkpoints that no resume and no rollback of the policy can need, and say how much room that gives back.

    The newest ones stay, the newest that is trusted and all younger, what a rollback may reach, multiples that the policy keeps
    for ever, and whatever is evidence: condemned checkpoints and the quarantine. Nothing is deleted while an incident is open, a
    recovery is under way, or the run is not seen. Works also when nobody supervises the run and nothing trains.

    Exit codes: 0 done, or nothing to do with --dry-run; 1 refused (the sentence says why), or not all could be deleted; 2 usage.
    """
    from sentinel.operator.pruning import prune_run, read_sparing, sparing_text
    from sentinel.report.masked import masked_json

    sparing = read_sparing(run_dir, keep)
    if as_json and dry_run:
        print(masked_json(sparing))
        raise typer.Exit(0)
    if not as_json:
        show(sparing_text(sparing))
    if dry_run:
        raise typer.Exit(0)
    answer = prune_run(run_dir, sparing["keep"])
    if as_json:
        print(masked_json(sparing | {"granted": answer.granted, "answer": answer.words}))
    else:
        show(answer.words if answer.granted else f"refused: {answer.words}", err=not answer.granted)
    raise typer.Exit(0 if answer.granted and not answer.left else 1)
