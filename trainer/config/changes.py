"""What a resume may change of the settings a checkpoint was written with, and what it may not.

A setting marked `fixed` belongs to the run: the model, its initial weights, the data and how it is cut into steps. Every other
may change between two attempts, and the receipt of the later one lists the change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..exits import ConfigError
from .loading import fixed_settings
from .sections import Config

Change = tuple[str, Any, Any]  # dotted name, what it was, what it is


def changes(saved: Mapping[str, Any], now: Config) -> list[Change]:
    """Settings that differ from those of a manifest (its `config`), in the order of the sections. One that the manifest does not
    name was at its default: it is newer than the checkpoint. One that is no setting any more is left out."""
    was = settings_by_name(Config().model_dump(mode="json")) | settings_by_name(saved)
    own = settings_by_name(now.model_dump(mode="json"))
    return [(name, was[name], value) for name, value in own.items() if was[name] != value]


def refused_changes(saved: Mapping[str, Any], now: Config) -> list[Change]:
    """Those of the changes that no resume may make."""
    fixed = set(fixed_settings())
    return [change for change in changes(saved, now) if change[0] in fixed]


def refuse_changes(where: str, saved: Mapping[str, Any], now: Config) -> None:
    """Raises ConfigError where a fixed setting is another than that of the checkpoint at `where`."""
    refused = refused_changes(saved, now)
    if refused:
        differing = ", ".join(f"{name}={_word(was)} and this run has {_word(own)}" for name, was, own in refused)
        back = " ".join(f"{name}={_word(was)}" for name, was, _ in refused)
        raise ConfigError(
            f"{where}: was written with {differing}; what is fixed for a run cannot change on a resume. "
            f"Resume with --set {back}, or start anew in another --out-dir"
        )


def free_changes(saved: Mapping[str, Any], now: Config) -> dict[str, list[Any]]:
    """Name → [what it was, what it is], for the receipt."""
    fixed = set(fixed_settings())
    return {name: [was, own] for name, was, own in changes(saved, now) if name not in fixed}


def settings_by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted name → value, of sections in sections."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in settings_by_name(value).items()}
        else:
            flat[key] = value
    return flat


def _word(value: Any) -> str:
    """As --set takes it."""
    return value if isinstance(value, str) else json.dumps(value)
