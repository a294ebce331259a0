"""Two attempts' environments compared: what changed, from what to what, in words a person can act upon."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from sentinel.model.environment import Environment, Named

COMMAND_CHARS = 300  # of a command's changes; the journal has both commands whole
CHANGES_LISTED = 5  # changes named in a sentence, which stands first on a phone; the rest is counted, and on record
PARTS = ("interpreter", "distributions", "code", "configs", "variables")
# Libraries that change numbers or communication come first in the sentence.
TELLING = (
    "torch", "numpy", "triton", "nvidia-nccl", "nvidia-cudnn", "nvidia-cublas", "transformer-engine", "flash-attn", "xformers",
)  # fmt: skip


def merge(before: Environment | None, now: Environment) -> Environment:
    """The newest that is known of each part: what could not be read now stands as it was last read."""
    if before is None:
        return now
    known: dict[str, Any]
    known = {part: getattr(now, part) if getattr(now, part) is not None else getattr(before, part) for part in PARTS}
    if now.interpreter is None and before.interpreter is not None and before.code is not None and now.code is not None:
        known["code"] = tuple(sorted({**dict(before.code), **dict(now.code)}.items()))  # see `compare_environments`
    return Environment(**known, unknown=now.unknown, capped=now.capped)


def compare_environments(before: Environment, now: Environment) -> tuple[str, ...]:
    """Every difference, libraries that matter most first. A part unknown on either side is passed over: see `unknown`. An
    interpreter that did not answer leaves the code below its own folders unread: then a file that one side lacks says nothing."""
    found: list[str] = []
    if None not in (before.interpreter, now.interpreter) and before.interpreter != now.interpreter:
        found.append(f"{before.interpreter} → {now.interpreter}")
    found += _versions(before.distributions, now.distributions)
    whole = not (before.capped or now.capped)
    found += _files(before.code, now.code, whole and (before.interpreter is None) == (now.interpreter is None))
    found += _files(before.configs, now.configs, whole)
    found += _values(before.variables, now.variables)
    return tuple(found)


def compare_commands(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    """The words that differ, each with the option it belongs to: `the command: --nproc-per-node 8 → 6`. Secrets are masked in
    both; where nothing else differs, one of them does."""
    found = []
    for what, first, behind, new_first, new_behind in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        old, new = " ".join(before[first:behind]), " ".join(now[new_first:new_behind])
        option = before[first - 1] if first and before[first - 1].startswith("-") else ""
        if what == "replace":
            found.append(f"{option} {old} → {new}".lstrip())
        elif what != "equal":
            found.append(f"{new} added" if what == "insert" else f"{old} left out")
    words = f"the command: {', '.join(found) or 'a value that is masked'}"
    return words if len(words) <= COMMAND_CHARS else f"{words[: COMMAND_CHARS - 1]}…"


def changes_in_words(changes: tuple[str, ...]) -> str:
    """As many as a sentence bears, and how many more."""
    listed = "; ".join(changes[:CHANGES_LISTED])
    return f"{listed}; and {len(changes) - CHANGES_LISTED} more" if len(changes) > CHANGES_LISTED else listed


def _pairs(before: Named | None, now: Named | None) -> list[tuple[str, str | None, str | None]]:
    if before is None or now is None or before == now:
        return []
    old, new = dict(before), dict(now)
    return [(name, old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]


def _versions(before: Named | None, now: Named | None) -> list[str]:
    def rank(pair: tuple[str, str | None, str | None]) -> tuple[int, str]:
        return next((n for n, word in enumerate(TELLING) if pair[0].lower().startswith(word)), len(TELLING)), pair[0]

    return [_change(pair, "installed", "no longer installed") for pair in sorted(_pairs(before, now), key=rank)]


def _files(before: Named | None, now: Named | None, whole: bool) -> Iterator[str]:
    """Where only a part of the files was read, a file that is missing says nothing."""
    for name, old, new in _pairs(before, now):
        if old is not None and new is not None:
            yield f"{name} changed"
        elif whole:
            yield f"{name} {'is new' if old is None else 'is gone'}"


def _values(before: Named | None, now: Named | None) -> list[str]:
    return [_change(pair, "set", "no longer set") for pair in _pairs(before, now)]


def _change(pair: tuple[str, str | None, str | None], came: str, went: str) -> str:
    name, old, new = pair
    if old is None:
        return f"{name} {new} {came}"
    return f"{name} {old} {went}" if new is None else f"{name} {old} → {new}"
