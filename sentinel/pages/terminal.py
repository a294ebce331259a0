"""The page on the terminal where sentinel runs, and in incidents/NNNN/page.json for whoever comes later."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from sentinel.client.atomic_file import write_atomically
from sentinel.client.strict_json import dumps
from sentinel.model.actions import SendPage

RULE = "=" * 78


def send(run_dir: Path, page: SendPage, stream: TextIO | None = None) -> str:
    """Print the page and keep it. Delivering twice prints twice; the file is the same.

    Raises OSError when it can be neither printed nor kept: a full disk must not keep it from the terminal, nor the other way.
    """
    folder = run_dir / "incidents" / f"{page.incident:04d}"
    trouble = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "page.json", dumps(asdict(page)).encode() + b"\n")
    except OSError as error:
        trouble = error
    try:
        text = f"\n{RULE}\nPAGE ({page.severity}) {page.title}\n{page.text}\n{RULE}"
        print(text, file=stream if stream is not None else sys.stderr, flush=True)
    except OSError as error:
        if trouble is not None:
            raise
        return f"kept, but not printed: {error}"
    return "printed" if trouble is None else f"printed, but not kept: {trouble}"
