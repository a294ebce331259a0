"""`sentinel init`: its options. Parse and print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    command: Annotated[list[str] | None, typer.Argument(help="The training command, after --.", metavar="-- CMD...")] = None,
    trainer: Annotated[
        str | None, typer.Option(help="Its profile; without it, it is recognised by its command.", metavar="NAME")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="A policy file, or the name of a shipped one.", show_default="default")
    ] = None,
    run_dir: Annotated[str | None, typer.Option(help="Where the run will live; default runs/<program name>.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a commented sentinel.yaml in this folder, which `sentinel run` takes when it is started without a command.

    A file that is there is never written over without --force.
    """
    from sentinel.supervisor.config_writing import next_steps, write_config

    written = write_config(Path.cwd(), tuple(command or ()), trainer, policy, run_dir, force)
    print("\n".join(next_steps(written)))
