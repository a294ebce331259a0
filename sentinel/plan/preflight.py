"""The preflight: whether nodes fit together, before there is an attempt. Pure: what each node answered in, findings out.

Each check stands by itself, with its reason. What a node did not say makes the check unknown; it is not passed over in silence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from sentinel.model.amounts import size_words, time_words
from sentinel.model.node_checks import NodeReply
from sentinel.plan.node_check import one_line
from sentinel.plan.preflight_check import PreflightCheck, name_nodes, name_words
from sentinel.plan.shared_folder import FolderFacts, read_folder_facts

CLOCK_MAX_S = 5.0  # heartbeats, certificates and munge stand more; logs of two nodes are compared by the second
CHECKPOINTS = 2  # the one that is being written, and the one before it


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """As `sentinel.client.node_facts` prints them. free_bytes None: not known. shared None: not tried.
    took_s: how long after it read its clock it printed them."""

    time_s: float
    versions: Mapping[str, str]
    free_bytes: int | None
    taken: tuple[int, ...]
    shared: FolderFacts | None = None
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """When the nodes were asked and had all answered, by the clock of whoever asked (Unix seconds); `checkpoint_bytes`: of one
    checkpoint, None where nobody knows."""

    began_s: float
    ended_s: float
    checkpoint_bytes: int | None = None


def read_facts(reply: NodeReply | None) -> NodeFacts | str:
    """Or why there are none."""
    if reply is None:
        return "it did not answer"
    if reply.code != 0:
        return one_line(reply.output) or one_line(reply.trouble) or f"it left with {reply.code}"
    try:
        found: Any = json.loads(reply.output)
        versions = {str(name): str(version) for name, version in found["versions"].items()}
        free = found["free_bytes"]
        taken = tuple(map(int, found["taken"]))
        shared = read_folder_facts(found["shared"]) if "shared" in found else None
        free_bytes, took_s = None if free is None else int(free), float(found.get("took_s", 0.0))
        facts = NodeFacts(float(found["time_s"]), versions, free_bytes, taken, shared, took_s)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"it printed what cannot be read: {one_line(reply.output)[:80]!r}"
    return facts if isfinite(facts.time_s) and isfinite(facts.took_s) else "its clock tells no time"


def judge_preflight(answers: Mapping[str, NodeFacts | str], asked: Asked) -> tuple[PreflightCheck, ...]:
    """By node, what it has or why that is not known."""
    known = {node: facts for node, facts in answers.items() if isinstance(facts, NodeFacts)}
    return (
        _judge_answers(answers, known),
        _judge_versions(known),
        _judge_clocks(known, asked),
        _judge_disk(known, asked.checkpoint_bytes),
        _judge_ports(known),
    )


def _judge_answers(answers: Mapping[str, NodeFacts | str], known: Mapping[str, NodeFacts]) -> PreflightCheck:
    silent = [f"{node}: {why}" for node, why in answers.items() if isinstance(why, str)]
    if silent or not answers:
        return PreflightCheck("answers", "unknown", name_words(silent) or "no node is known of")
    return PreflightCheck("answers", "good", f"{len(known)} of {len(known)} nodes")


def _judge_versions(known: Mapping[str, NodeFacts]) -> PreflightCheck:
    """Equal on all; one that only some have is no less different."""
    names = sorted({name for facts in known.values() for name in facts.versions})
    differing = []
    for name in names:
        holders: dict[str, list[str]] = {}
        for node, facts in known.items():
            holders.setdefault(facts.versions.get(name, "none"), []).append(node)
        if len(holders) > 1:
            differing.append(f"{name} {', '.join(f'{version} on {name_nodes(nodes)}' for version, nodes in holders.items())}")
    if differing:
        return PreflightCheck("versions", "bad", name_words(differing))
    return _of(known, "versions", "good", ", ".join(f"{name} {next(iter(known.values())).versions[name]}" for name in names))


def _judge_clocks(known: Mapping[str, NodeFacts], asked: Asked) -> PreflightCheck:
    """A node read its clock between question and answer: what lies outside of that is off by at least so much."""
    off = {}
    for node, facts in known.items():
        apart_s = max(asked.began_s - facts.time_s, facts.time_s + facts.took_s - asked.ended_s, 0.0)
        if apart_s > CLOCK_MAX_S:
            off[node] = apart_s
    if off:
        words = [f"{node} is off by {time_words(apart_s)} or more" for node, apart_s in off.items()]
        return PreflightCheck("clocks", "bad", name_words(words))
    took_s = min((facts.took_s for facts in known.values()), default=0.0)
    within_s = CLOCK_MAX_S + asked.ended_s - asked.began_s - took_s
    return _of(known, "clocks", "good", f"none is off by more than {time_words(within_s)}")


def _judge_disk(known: Mapping[str, NodeFacts], checkpoint_bytes: int | None) -> PreflightCheck:
    if checkpoint_bytes is None:
        return PreflightCheck("disk", "unknown", "how large a checkpoint is, nobody knows (--checkpoint-bytes N says it)")
    needed = CHECKPOINTS * checkpoint_bytes
    short_of = [
        f"{node} has {size_words(facts.free_bytes)} free"
        for node, facts in known.items()
        if facts.free_bytes is not None and facts.free_bytes < needed
    ]
    what = f"{CHECKPOINTS} checkpoints take {size_words(needed)}"
    if short_of:
        return PreflightCheck("disk", "bad", f"{what}; {name_words(short_of)}")
    blind = [node for node, facts in known.items() if facts.free_bytes is None]
    if blind:
        return PreflightCheck("disk", "unknown", f"{what}; {name_nodes(blind)} cannot look at the path")
    least = min((facts.free_bytes for facts in known.values() if facts.free_bytes is not None), default=0)
    return _of(known, "disk", "good", f"{what}; at least {size_words(least)} are free")


def _judge_ports(known: Mapping[str, NodeFacts]) -> PreflightCheck:
    taken = [f"{node}: {', '.join(map(str, facts.taken))}" for node, facts in known.items() if facts.taken]
    if taken:
        return PreflightCheck("ports", "bad", f"taken on {name_words(taken)}")
    return _of(known, "ports", "good", "those asked for are free")


def _of(known: Mapping[str, NodeFacts], name: str, verdict: Literal["good"], reason: str) -> PreflightCheck:
    """Good of nobody is unknown."""
    return PreflightCheck(name, verdict, reason) if known else PreflightCheck(name, "unknown", "no node answered")
