"""overrides.json: what sentinel asks of the living attempt (PROTOCOL.md 'overrides.json').

A missing key leaves a setting as it is, null means 'as configured'; so a bare request names nothing but itself.
"""

from __future__ import annotations

from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.run_layout import OVERRIDES_NAME
from sentinel.client.strict_json import dumps
from sentinel.launcher.spec_file import overrides_to_json
from sentinel.model.actions import RequestStop, WriteOverrides


def write_overrides(run_dir: Path, action: WriteOverrides) -> str:
    """Atomic; writing the same again changes nothing for a trainer that already applied this id."""
    value = {"v": 1, **overrides_to_json(action.overrides, action.attempt)}
    write_atomically(run_dir / OVERRIDES_NAME, dumps(value).encode() + b"\n")
    return f"overrides {action.overrides.id} written"


def write_request(run_dir: Path, action: RequestStop) -> str:
    value = {"v": 1, "id": action.overrides.id, "attempt": action.attempt, "request": action.request}
    write_atomically(run_dir / OVERRIDES_NAME, dumps(value).encode() + b"\n")
    return f"{action.request} requested"
