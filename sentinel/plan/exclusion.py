"""Whether a node may be left out of the next attempt: it is blamed, there are others, and not too many are out already."""

from __future__ import annotations

from collections.abc import Collection

CAPABILITY = "exclude"  # the command honours SENTINEL_EXCLUDE_NODES


def short(node: str) -> str:
    """A host's name without its domain: some sources give it, some do not."""
    return node.partition(".")[0]


def judge_exclusion(
    node: str,
    nodes: Collection[str],
    excluded: Collection[str],
    at_most: int,
    capabilities: Collection[str],
    may_be_more: bool = False,
) -> str:
    """Why the node must not be left out; empty when it may. `nodes`: those that the failed attempt ran on, as far as is known.
    `may_be_more`: ranks of it were not heard from yet, and nobody knows where they are."""
    if CAPABILITY not in capabilities:
        return "the command cannot leave a node out (`sentinel run --with exclude` says that it can)"
    if not node:
        return "the evidence blames no node"
    if short(node) in {short(known) for known in excluded}:
        return f"{node} is left out already, and the attempt ran on it all the same"
    if len(excluded) >= at_most:
        return f"{len(excluded)} nodes are left out already ({', '.join(excluded)}), and the rung allows {at_most}"
    if not may_be_more and not {short(known) for known in nodes} - {short(node)}:
        return f"{node} is the only node that is known of"
    return ""
