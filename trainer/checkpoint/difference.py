"""What happened between two checkpoints: settings, numbers, and how far each parameter moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..config.changes import settings_by_name
from .contents import Contents
from .verifying import Verified, verify

NUMBERS = ("loss", "grad_norm", "param_norm", "adam_m_norm", "adam_v_norm", "nonfinite")


def compare(before: Path, after: Path) -> dict[str, Any]:
    """`config`: name → [there, here]; `numbers` likewise; `moved`: parameter → |Δ|/|p|, largest first, null where the shapes
    differ; `only`: parameters that one of the two has. Verifies both first. Raises DataError."""
    old, new = verify(before), verify(after)
    before_contents, after_contents = Contents(before), Contents(after)
    shared = [name for name in after_contents.parameters() if name in set(before_contents.parameters())]
    moved = {name: _moved(before_contents, after_contents, name) for name in shared}
    return {
        "steps": [old.step, new.step],
        "config": _changed(old, new),
        "numbers": {name: pair for name in NUMBERS if (pair := [_number(old, name), _number(new, name)]) != [None, None]},
        "moved": dict(sorted(moved.items(), key=lambda item: -1.0 if item[1] is None else -item[1])),
        "only": sorted({*before_contents.parameters()} ^ {*after_contents.parameters()}),
    }


def format_comparison(document: dict[str, Any]) -> str:
    """The document for people."""
    old, new = document["steps"]
    lines = [f"from step {old} to step {new}"]
    lines += [f"  {name}: {was} → {now}" for name, (was, now) in document["config"].items()] or ["  the same settings"]
    lines += [f"  {name}: {_short(was)} → {_short(now)}" for name, (was, now) in document["numbers"].items()]
    lines.append("  |Δ|/|p| by parameter:")
    lines += [f"    {_short(value):>10}  {name}" for name, value in document["moved"].items()]
    lines += [f"    {'only in one':>10}  {name}" for name in document["only"]]
    return "\n".join(lines)


def _changed(old: Verified, new: Verified) -> dict[str, list[Any]]:
    was, now = (settings_by_name(found.manifest.get("config", {})) for found in (old, new))
    names = [*now, *(name for name in was if name not in now)]
    return {name: [was.get(name), now.get(name)] for name in names if was.get(name) != now.get(name)}


def _number(found: Verified, name: str) -> Any:
    metrics = found.manifest.get("metrics")
    return metrics.get(name) if isinstance(metrics, dict) else None


def _moved(before_contents: Contents, after_contents: Contents, name: str) -> float | None:
    if before_contents.shape(name) != after_contents.shape(name):
        return None
    old, new = before_contents.parameter(name).double(), after_contents.parameter(name).double()
    change, size = (new - old).norm().item(), old.norm().item()
    return change / size if size else (0.0 if change == 0 else float("inf"))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "-" if value is None else str(value)
