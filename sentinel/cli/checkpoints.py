"""`sentinel checkpoints …`: how far each is trusted, and a close look at one. Parse and print."""

from __future__ import annotations

from typing import Annotated

import typer

from sentinel.cli.options import Json, RunDir, RunDirAnywhere

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
    print(masked_json(document) if as_json else trust_text(document))


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
    print(masked_json(documents) if as_json else verified_text(documents))
    raise typer.Exit(0 if all(document["ok"] for document in documents) else 1)
