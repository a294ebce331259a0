"""Whether a run directory's filesystem is shared as supervisor and ranks need it: the preflight's last check. Pure.

What is tried, and how it is measured, is in `sentinel.client.folder_trial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sentinel.model.amounts import time_words
from sentinel.plan.node_check import one_line
from sentinel.plan.preflight_check import PreflightCheck, name_nodes, name_words

SEEN_MAX_S = 2.0  # as old a heartbeat may be that is read elsewhere


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """What a node tells that calls itself `name`. error: why nothing can be written there. still_s: how long the number of
    whoever asks stood still at most, None where it was never seen. numbers: how many the node wrote. locks: of each lock `held`,
    `free`, or why that is not known."""

    name: str
    error: str
    still_s: float | None
    numbers: int
    locks: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SeenOfNode:
    """What whoever asks saw of the numbers that a node wrote in place and appended as lines: how long they stood still at most
    (None: nothing was ever seen), the last one, and how many lines are whole."""

    still_s: float | None
    number: int
    lines: int


def read_folder_facts(found: Mapping[str, Any]) -> FolderFacts:
    """Raises ValueError, KeyError, TypeError or AttributeError for what no node of this version prints."""
    still = found["still_s"]
    locks = {str(name): str(state) for name, state in found["locks"].items()}
    still_s = None if still is None else float(still)
    return FolderFacts(str(found["name"]), str(found["error"]), still_s, int(found["numbers"]), locks)


def judge_shared(
    here: str, folder: str, facts: Mapping[str, FolderFacts | None], seen: Mapping[str, SeenOfNode]
) -> PreflightCheck:
    """By node, what it says of `folder` (None: nothing) and what was seen of it on `here`, the machine that asks."""
    known = {node: found for node, found in facts.items() if found is not None}
    wrong = [words for node, found in known.items() if (words := _wrong_with(here, node, found, seen[node]))]
    if wrong:
        return PreflightCheck("shared", "bad", f"{folder}: {name_words(wrong)}")
    silent = [node for node in facts if node not in known]
    if silent or not known:
        return PreflightCheck("shared", "unknown", f"{folder} was not tried on {name_nodes(silent) or 'any node'}")
    longest_s = max(max(found.still_s or 0.0, seen[node].still_s or 0.0) for node, found in known.items())
    others = name_nodes([node for node in known if node != here])
    reason = f"{folder}: {here} and {others} see each other's writes within {time_words(longest_s)}, and its locks"
    return PreflightCheck("shared", "good", reason)


def _wrong_with(here: str, node: str, found: FolderFacts, seen: SeenOfNode) -> str:
    """Empty where nothing is. The first of what is wrong: what follows from it is not told as well."""
    if found.error:
        return f"{node} cannot write there: {one_line(found.error)}"
    if found.still_s is None:
        return f"{node} does not see what {here} writes there: it is not the same filesystem on both"
    if seen.still_s is None:
        return f"{here} does not see what {node} writes there: it is not the same filesystem on both"
    if seen.number < found.numbers or seen.lines < found.numbers:
        return (
            f"of {found.numbers} lines that {node} appended {seen.lines} are whole on {here}, and the number it wrote in place "
            f"is {seen.number}: streams and heartbeats would be wrong"
        )
    if (longest_s := max(found.still_s, seen.still_s)) > SEEN_MAX_S:
        writer, reader = (here, node) if found.still_s >= seen.still_s else (node, here)
        return (
            f"what {writer} writes is seen on {reader} after {time_words(longest_s)} (at most {time_words(SEEN_MAX_S)}, or hangs "
            "are believed late); let its client cache for less time (NFS: actimeo=1)"
        )
    loose = [f"{name.removeprefix('held.')}: {one_line(state)}" for name, state in found.locks.items() if state != "held"]
    if loose or not found.locks:
        return (
            f"what {here} locks is not locked on {node} ({', '.join(loose) or 'nothing was tried'}): a second supervisor there "
            "could damage the journal; mount it with locks (Lustre: flock; NFS: without nolock)"
        )
    return ""
