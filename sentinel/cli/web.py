"""`sentinel web`: runs in the browser, without supervising them. Parse and serve: a part of `sentinel.cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import Listening, TokenFile


def web(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, or directories of them.", metavar="RUN_DIR|RUNS_DIR...")],
    listen: Listening = None,
    token_file: TokenFile = None,
) -> None:
    """Show runs in the browser without supervising them, after their end or from another machine, until interrupted.

    Exit codes: 0 interrupted, 2 usage (the address is taken, or would show the runs to a network without a token).
    """
    from sentinel.metrics.exposition import exposition
    from sentinel.operator.requests import ask_unattended
    from sentinel.web.command import serve
    from sentinel.web.opening import Listen
    from sentinel.web.site import SiteServices

    serve(paths, Listen(listen, token_file), SiteServices(exposition, ask_unattended))
