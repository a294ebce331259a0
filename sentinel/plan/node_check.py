"""Which nodes are checked, and what a check means. Pure: how the command reaches a node is a launcher's matter.

The command says 0 for healthy, and 1 with a reason on standard output for sick; all else is unknown. An interpreter that fails
leaves with 1, too, and prints its trouble on standard error: without a reason on standard output it says nothing of the node.
Unknown excludes nobody, and clears nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sentinel.model.node_checks import Blame, NodeReply, NodeVerdicts, NodeWord
from sentinel.plan.exclusion import CAPABILITY, short

HEALTHY_CODE, SICK_CODE = 0, 1
REASON_CHARS_MAX = 300
NAMED_MAX = 8


def judge_replies(nodes: Sequence[str], replies: Mapping[str, NodeReply]) -> NodeVerdicts:
    """The verdict of each node that was to be asked; one without a reply is unknown."""
    healthy: list[str] = []
    sick: list[NodeWord] = []
    unknown: list[NodeWord] = []
    for node in nodes:
        reply = replies.get(node)
        if reply is None:
            unknown.append(NodeWord(node, "it did not answer"))
        elif reply.code == HEALTHY_CODE:
            healthy.append(node)
        elif reply.code == SICK_CODE and (reason := one_line(reply.output)):
            sick.append(NodeWord(node, reason))
        else:
            unknown.append(NodeWord(node, _why_unknown(reply)))
    return NodeVerdicts(tuple(healthy), tuple(sick), tuple(unknown))


def _why_unknown(reply: NodeReply) -> str:
    words = one_line(reply.output) or one_line(reply.trouble)
    if reply.code is None:
        return words or "the check did not end"
    if reply.code == SICK_CODE:
        return f"the check left with 1 and gave no reason on its standard output{f': {words}' if words else ''}"
    return f"the check left with {reply.code}{f': {words}' if words else ''}"


def one_line(text: str) -> str:
    """Printable, in one line, cut short."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= REASON_CHARS_MAX else f"{words[: REASON_CHARS_MAX - 1]}…"


def choose_suspects(blames: Iterable[Blame], excluded: Collection[str], after_blames: int) -> tuple[str, ...]:
    """Nodes to be checked on suspicion: blamed so often since they were last healthy, not checked since, and not out."""
    out = {short(node) for node in excluded}
    due = (one for one in blames if one.times >= after_blames and not one.is_checked)
    return tuple(one.node for one in due if short(one.node) not in out)


def judge_leaving_out(
    sick: Sequence[NodeWord], others: Collection[str], excluded: Collection[str], at_most: int, capabilities: Collection[str]
) -> str:
    """Why the sick nodes must not be left out; empty when they may. All of them, or none: a check that calls many nodes sick may
    itself be. `others`: nodes that are known of beside them."""
    if CAPABILITY not in capabilities:
        return "the command cannot leave a node out (`sentinel run --with exclude` says that it can)"
    named = {short(word.node) for word in sick}
    if not {short(node) for node in others} - named - {short(node) for node in excluded}:
        return f"no node is known of beside {'it' if len(named) == 1 else 'them'}"
    together = len({short(node) for node in excluded} | named)
    if together > at_most:
        return f"{together} nodes would be left out then, and node_check allows {at_most}: the check itself may be wrong"
    return ""


def describe_words(words: Sequence[NodeWord]) -> str:
    """`n2: ECC errors; n5: …`, the first of them."""
    more = f"; and {len(words) - NAMED_MAX} more" if len(words) > NAMED_MAX else ""
    return "; ".join(f"{word.node}: {word.reason}" for word in words[:NAMED_MAX]) + more


def describe_verdicts(found: NodeVerdicts) -> str:
    """One sentence for people."""
    if found.trouble:
        return found.trouble
    parts = [f"{len(found.healthy)} healthy"] if found.healthy else []
    parts += [f"{len(found.sick)} sick ({describe_words(found.sick)})"] if found.sick else []
    parts += [f"{len(found.unknown)} unknown ({describe_words(found.unknown)})"] if found.unknown else []
    return ", ".join(parts) or "no node was left to check"
