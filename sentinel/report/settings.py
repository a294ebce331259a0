"""Settings over the trainer's own, as documents hold them and as people read them."""

from __future__ import annotations

from typing import Any

from sentinel.client.settings import SETTINGS
from sentinel.launcher.spec_file import overrides_to_json
from sentinel.model.attempts import SettingsInForce

RANGES_SHOWN = 20


def settings_asked(overrides: SettingsInForce) -> dict[str, Any]:
    """Every setting that asks for something, and the skipped ranges, as in spec.json."""
    values = overrides_to_json(overrides, 0)
    asked = {key: value for key, value in values.items() if key in SETTINGS or key == "skip"}
    return {key: value for key, value in asked.items() if value is not None and value is not False and value != []}


def setting_text(key: str, value: Any) -> str:
    """One value of `settings_asked`, for people; None: nothing is asked."""
    if key != "skip":
        return SETTINGS[key].show(value)
    ranges = [f"{item[0]}..{item[1]}" for item in value or ()]
    more = f" and {len(ranges) - RANGES_SHOWN} more" if len(ranges) > RANGES_SHOWN else ""
    return " ".join(ranges[:RANGES_SHOWN]) + more if ranges else "as configured"
