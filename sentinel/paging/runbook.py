"""Where the runbook is read: a section for each kind of incident, in the shipped file or in a copy that a policy names."""

from __future__ import annotations

from sentinel.shipped import shipped_folder

RUNBOOK = shipped_folder("deploy") / "RUNBOOK.md"


def runbook_place(section: str, url: str | None) -> str:
    """Where a section of the runbook is read: of the copy that the policy names, else of the shipped file, by its whole path."""
    base = url.split("#")[0] if url is not None else str(RUNBOOK if RUNBOOK.is_file() else RUNBOOK.name)
    return f"{base}#{section}" if section else base
