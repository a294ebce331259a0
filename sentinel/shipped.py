"""Where the files are that come with Sentinel and are no modules: the policies and the runbook.

Beside the package `sentinel` that runs, and not by import: a folder `policies` where it is started is somebody else's.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def shipped_folder(folder: str) -> Path:
    """Inside the package where a wheel was installed: beside it in site-packages anybody may have such a folder. In a checkout
    beside the package."""
    inside = PACKAGE / folder
    return inside if inside.is_dir() else PACKAGE.parent / folder
