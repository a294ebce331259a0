"""`sentinel status`, `doctor`, `incidents`, `lineage`: how a run stands, on one page each."""

from __future__ import annotations

from typing import Annotated

import typer

from sentinel.cli.options import LOOK, Json, RunDir, dump, show


def status(
    run_dir: RunDir,
    as_json: Json = False,
    as_code: Annotated[bool, typer.Option("--exit-code", help="Say it by the exit code as well.")] = False,
) -> None:
    """What the run is doing now.

    The first lines say what broke, whether it trains, what follows and what to do. Exit codes with --exit-code: 0 nobody is
    needed, 1 it failed, 2 usage error, 3 it waits for a person, 4 nobody can say (docs/commands.md has the table).
    """
    from sentinel.report.reading import read_status
    from sentinel.report.standing import exit_code
    from sentinel.report.text import status_text

    document = read_status(run_dir)
    show(dump(document) if as_json else status_text(document))
    if as_code:
        raise typer.Exit(exit_code(document))


def doctor(run_dir: RunDir, as_json: Json = False) -> None:
    """What is seen of a run and what is not, why, and the remedy of each: rows, receipt, heartbeats, checkpoints, proofs, rungs.

    Exit codes: 0 all fine, 1 something is missing, or not known yet, 2 usage error.
    """
    from sentinel.report.doctor.checks import examine
    from sentinel.report.doctor.telling import doctor_document, doctor_text, exit_code

    checks = examine(run_dir)
    show(dump(doctor_document(run_dir, checks)) if as_json else doctor_text(checks))
    raise typer.Exit(exit_code(checks))


def incidents(run_dir: RunDir, as_json: Json = False) -> None:
    """Every incident of the run: what broke, what was tried, how it ended."""
    from sentinel.report.reading import read_incidents
    from sentinel.report.text import incidents_text

    documents = read_incidents(run_dir)
    show(dump(documents) if as_json else incidents_text(documents))


def lineage(run_dir: RunDir, as_json: Json = False) -> None:
    """Every attempt: from which step of which other, with which settings, why, how it ended, what of it survives; and what the
    interventions cost the schedule (with --json: `schedule` of `sentinel status --json`)."""
    from sentinel.report.reading import lineage_page, read_lineage

    show(dump(read_lineage(run_dir)) if as_json else lineage_page(run_dir))


def register(app: typer.Typer) -> None:
    for command in (status, doctor, incidents, lineage):
        app.command(rich_help_panel=LOOK)(command)
