"""What a trainer says to people in its records, without its secrets: it knows its environment and its command best."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from typing import Any

from sentinel.client.masking import Masking
from sentinel.client.spec import Spec

TRACEBACK_TAIL_CHARS = 8000
FOR_PEOPLE = ("reason", "error", "message")  # fields of an event; what others name is compared, and stays


def mask_event(fields: Mapping[str, Any], spec: Spec) -> Mapping[str, Any]:
    """The fields of an event."""
    if not any(isinstance(fields.get(name), str) for name in FOR_PEOPLE):
        return fields
    masking = _masking(spec)
    return {name: masking.text(v) if name in FOR_PEOPLE and isinstance(v, str) else v for name, v in fields.items()}


def describe_error(error: BaseException | str | None, spec: Spec) -> dict[str, str | None]:
    """`error` and `traceback` of an exit record; None where there is none."""
    if error is None:
        return {"error": None, "traceback": None}
    masking = _masking(spec)
    if isinstance(error, str):
        return {"error": masking.text(error), "traceback": None}
    tail = masking.text("".join(traceback.format_exception(error)))[-TRACEBACK_TAIL_CHARS:]
    return {"error": masking.text(f"{type(error).__name__}: {error}"), "traceback": tail}


def _masking(spec: Spec) -> Masking:
    """As of now: a program may set variables by itself."""
    return Masking.of(os.environ, spec.argv)
