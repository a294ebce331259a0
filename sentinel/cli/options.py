"""Arguments and options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunDir = Annotated[Path, typer.Argument(help="The run's directory.", metavar="RUN_DIR")]
Pages = Annotated[
    list[str] | None,
    typer.Option(
        help="Page there too, such as alertmanager=URL or pagerduty (key in SENTINEL_PAGERDUTY_KEY); an unknown one lists all.",
        metavar="CHANNEL[=…]",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Listening = Annotated[
    str | None,
    typer.Option("--listen", help="Where the page listens; default 127.0.0.1:9464, if it is free.", metavar="[HOST:]PORT|off"),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="The token that lets the page act, and be seen from other machines; or SENTINEL_TOKEN.", metavar="FILE"),
]
