"""Values of one type each, at a path of a drill or case file. A problem is noted with path and remedy, and reading goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sentinel.errors import Problem
from sentinel.policy.problems import did_you_mean
from sentinel.policy.quantities import Malformed

Parsed = TypeVar("Parsed")
Default = TypeVar("Default")


class Fields:
    """Collects every problem instead of stopping at the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems

    def _add(self, path: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(path, message, remedy))

    def _mapping(self, raw: object, path: str, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(raw, dict):
            self._add(path or "document", "this is no mapping of keys", f"write {keys[0]}: …")
            return {}
        for key in raw:
            if key not in keys:
                self._add(f"{path}.{key}".lstrip("."), f"unknown key '{key}'", did_you_mean(str(key), keys, "keys"))
        return {str(key): value for key, value in raw.items()}

    def _list(self, raw: object, path: str) -> list[object]:
        if isinstance(raw, list):
            return raw
        self._add(path, "this is no list", "begin each line with '- '")
        return []

    def _number(self, fields: Mapping[str, Any], path: str, key: str, default: int, floor: int = 1) -> int:
        value = fields.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and floor <= value < 10**9:
            return value
        self._add(f"{path}.{key}".lstrip("."), f"{value!r} is not a whole number", f"write a number from {floor} on")
        return default

    def _positive_share(self, fields: Mapping[str, Any], path: str, key: str, default: float) -> float:
        value = fields.get(key, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 < value <= 1.0:
            return float(value)
        self._add(f"{path}.{key}", f"{value!r} is no share", "write a number above 0 and at most 1")
        return default

    def _quantity(
        self, fields: Mapping[str, Any], path: str, key: str, parse: Callable[[object], Parsed], default: Default
    ) -> Parsed | Default:
        if key not in fields:
            return default
        try:
            return parse(fields[key])
        except Malformed as malformed:
            self._add(f"{path}.{key}".lstrip("."), str(malformed), malformed.remedy)
            return default

    def _word(self, fields: Mapping[str, Any], path: str, key: str, words: tuple[str, ...]) -> str | None:
        value = fields.get(key)
        if value is not None and value not in words:
            self._add(f"{path}.{key}", f"{value!r} is not known", did_you_mean(str(value), words, "known"))
            return None
        return value

    def _span(self, fields: Mapping[str, Any], path: str, key: str) -> tuple[int, int] | None:
        """`3000` or `3000..3300`."""
        if key not in fields:
            return None
        first, _, last = str(fields[key]).partition("..")
        if first.isascii() and first.isdigit() and (not last or (last.isascii() and last.isdigit())):
            return int(first), int(last or first)
        self._add(
            f"{path}.{key}",
            f"{fields[key]!r} is no step",
            "write a step, as 3000, or the first and last that are right: 3000..3300",
        )
        return None
