"""The page on the terminal where sentinel runs, and in incidents/NNNN/page.json for whoever comes later."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from sentinel.channels.notice import Notice
from sentinel.channels.wording import CALLS, headline
from sentinel.client.atomic_file import ensure_directory, write_atomically
from sentinel.client.run_layout import incident_folder
from sentinel.client.strict_json import dumps, printable
from sentinel.policy.schema_paging import RouteSettings

RULE = "=" * 78


class TerminalRoute(RouteSettings):
    """Pages are printed where sentinel runs, and kept in incidents/NNNN/page.json."""


class Terminal:
    """`run_dir` None: nothing is kept (a test page)."""

    def __init__(self, run_dir: Path | None, stream: TextIO | None = None) -> None:
        self._run_dir = run_dir
        self._stream = stream

    def deliver(self, notice: Notice) -> str:
        """Print the page and keep it. Delivering twice prints twice; the file is the same.

        Raises OSError when it can be neither printed nor kept: a full disk must not keep it from the terminal, nor the other way.
        """
        trouble = None
        try:
            self._keep(notice)
        except OSError as error:
            trouble = error
        try:
            print(printable(_text(notice)), file=self._stream if self._stream is not None else sys.stderr, flush=True)
        except OSError as error:
            if trouble is not None:
                raise
            return f"kept, but not printed: {error}"
        return "printed" if trouble is None else f"printed, but not kept: {trouble}"

    def _keep(self, notice: Notice) -> None:
        if self._run_dir is None:
            return
        folder = incident_folder(self._run_dir, notice.incident)
        ensure_directory(folder)
        write_atomically(folder / "page.json", dumps(notice.document()).encode() + b"\n")


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page terminal`"""
    del environ
    if value:
        raise ValueError("takes no value here")
    return {}


def _text(notice: Notice) -> str:
    """Whole for what a person is to act upon; one line for what only says how it went on."""
    if notice.stage in CALLS:
        return f"\n{RULE}\n{headline(notice)}\n{notice.text}\n{RULE}"
    return headline(notice)
