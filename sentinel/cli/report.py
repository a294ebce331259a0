"""`sentinel report`. Parse, write, print where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import Json, RunDir, dump


def report(
    run_dir: RunDir,
    incident: Annotated[int | None, typer.Argument(help="The number of one incident; without it the whole run.", min=1)] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write it; default: report.html beside what it is about.")] = None,
    as_json: Json = False,
) -> None:
    """Write the run, or one incident, as one HTML file that needs nothing else: the story, curves around the onset, what was
    decided and why, evidence, what it cost. Sentinel writes both by itself when an incident closes and when the run ends.
    """
    from sentinel.report.html.writing import report_command

    path = report_command(run_dir, incident, out)
    print(dump({"incident": incident, "path": str(path)}) if as_json else path)
