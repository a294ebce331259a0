"""What the newest attempt runs, for `sentinel status`: the parts that matter at a glance, what changed with this attempt, and
what is not known. The whole list stands in the attempt's spec.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel.launcher.environment import PARTS, digest_of
from sentinel.model.state import RunState
from sentinel.plan.environment import TELLING, changes_in_words


def environment_document(state: RunState) -> dict[str, Any]:
    """`digests`: of the newest that is known of each part, None for what never was. `changes`: with the newest attempt."""
    found, attempt = state.environment, state.attempt
    parts = {part: getattr(found, part) if found is not None else None for part in PARTS}
    libraries = dict(parts["distributions"] or ())
    return {
        "interpreter": found.interpreter if found is not None else None,
        "libraries": {name: libraries[name] for name in sorted(libraries) if name.lower().startswith(TELLING)},
        "code_files": len(parts["code"]) if parts["code"] is not None else None,
        "digests": {part: None if named is None else digest_of(named) for part, named in parts.items()},
        "changes": list(attempt.changes) if attempt is not None else [],
        "unknown": list(attempt.unread) if attempt is not None else [],
    }


def environment_rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nothing where nothing was ever read (an older journal)."""
    words = [document["interpreter"].partition(" (")[0]] if document["interpreter"] else []
    words += [f"{name} {document['libraries'][name]}" for name in ("torch", "numpy") if name in document["libraries"]]
    if document["code_files"] is not None:
        words.append(f"{document['code_files']} source files ({document['digests']['code'][:12]})")
    rows = [("runs", ", ".join(words))] if words else []
    if document["changes"]:
        rows.append(("changed", changes_in_words(tuple(document["changes"]))))
    return rows + [("unknown", why) for why in document["unknown"]]
