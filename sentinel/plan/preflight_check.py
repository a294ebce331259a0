"""One check of the preflight, and how it names nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sentinel.plan.node_check import NAMED_MAX


@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """One of the checks. `reason`: what was found, for people."""

    name: str
    verdict: Literal["good", "bad", "unknown"]
    reason: str


def name_nodes(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - NAMED_MAX} more" if len(nodes) > NAMED_MAX else ""
    return f"{', '.join(nodes[:NAMED_MAX])}{more}"


def name_words(words: Sequence[str]) -> str:
    more = f"; and {len(words) - NAMED_MAX} more" if len(words) > NAMED_MAX else ""
    return "; ".join(words[:NAMED_MAX]) + more

