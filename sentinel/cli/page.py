"""`sentinel page …`: whether a page would arrive. Parse and print, as `sentinel.cli`, of which this is a part."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sentinel.cli.options import NamesRows, Pages
from sentinel.model.findings import Severity

page_app = typer.Typer(no_args_is_help=True, help="How a person is reached.")


@page_app.callback()
def _page() -> None:
    """How a person is reached."""


@page_app.command("test", cls=NamesRows)
def page_test(
    policy: Annotated[str, typer.Option(help="A policy file, or the name of a shipped one.")] = "default",
    route: Annotated[str | None, typer.Option(help="This route only, by its name; default: all.", metavar="NAME")] = None,
    severity: Annotated[Severity, typer.Option(help="Of the test page: critical, to hear a phone ring.")] = "info",
    page: Pages = None,
) -> None:
    """Send a test page on every route of the policy, take it back at once, and say what came of it. It pages whom a real
    one would.

    Exit codes: 0 every route took both, 1 one did not (the sentence says why), 2 usage or policy error.
    """
    from sentinel.cli.page_test import try_routes

    is_all_well = True
    for tested in try_routes(policy, page or (), route, severity):
        is_all_well &= tested.ok
        print(f"{tested.route}: {tested.words}", file=sys.stdout if tested.ok else sys.stderr, flush=True)
    raise typer.Exit(0 if is_all_well else 1)
