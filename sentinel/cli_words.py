"""Arguments and options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunDir = Annotated[Path, typer.Argument(help="The run's directory.", metavar="RUN_DIR")]
Pages = Annotated[
    list[str] | None,
    typer.Option(
        help="Page there too: alertmanager=URL, pagerduty[=URL] (key in SENTINEL_PAGERDUTY_KEY), webhook=URL, slack, command=…",
        metavar="CHANNEL[=…]",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
