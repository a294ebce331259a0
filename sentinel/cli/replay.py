"""`sentinel replay` and `sentinel watch`: recorded and growing logs of any run. Parse and print: a part of `sentinel.cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentinel.telemetry.format_names import FORMATS

FORMAT_HELP = f"auto, {', '.join(FORMATS[:-1])} or {FORMATS[-1]}."


def replay(
    paths: Annotated[list[Path], typer.Argument(help="Logs, or directories of logs.", metavar="PATH...")],
    policy: Annotated[str, typer.Option(help="A policy file, or the name of a shipped one.")] = "default",
    format: Annotated[str, typer.Option(help=FORMAT_HELP)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each finding.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw each run as an SVG in this directory.", metavar="DIR")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with files that grow, until interrupted.")] = False,
    reference: Annotated[Path | None, typer.Option(help="A log of another run to compare with, at the same tokens.")] = None,
) -> None:
    """Recorded logs through the same engine: what would have been found and done. Nothing is touched.

    Exit codes: 0 every log could be read, 1 some could not (standard error says why), 2 usage or policy error.
    """
    from sentinel.replay.command import ReplayRequest, replay_command

    raise typer.Exit(replay_command(ReplayRequest(tuple(paths), policy, format, as_json, plot, follow, reference)))


def watch(
    paths: Annotated[list[Path], typer.Argument(help="Logs that are being written.", metavar="PATH...")],
    policy: Annotated[str, typer.Option(help="A policy file, or the name of a shipped one.")] = "default",
    format: Annotated[str, typer.Option(help=FORMAT_HELP)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each finding.")] = False,
    reference: Annotated[Path | None, typer.Option(help="A log of another run to compare with, at the same tokens.")] = None,
) -> None:
    """The same as `replay --follow`: watch somebody else's run by its log, read-only, until interrupted.

    Exit codes: 0 interrupted, 1 there was nothing that could be followed, 2 usage or policy error.
    """
    from sentinel.replay.command import ReplayRequest, replay_command

    raise typer.Exit(replay_command(ReplayRequest(tuple(paths), policy, format, as_json, None, True, reference)))
