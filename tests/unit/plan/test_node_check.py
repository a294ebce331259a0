"""What the reply of a check means, who is suspected, and when sick nodes may be left out."""

from __future__ import annotations

import pytest

from sentinel.model.node_checks import Blame, NodeReply, NodeVerdicts, NodeWord
from sentinel.plan.node_check import (
    REASON_CHARS_MAX,
    choose_suspects,
    describe_verdicts,
    judge_leaving_out,
    judge_replies,
)

CAN = ("exclude",)


@pytest.mark.parametrize(
    ("reply", "verdict", "reason"),
    [
        (NodeReply(0, "all is well"), "healthy", ""),
        (NodeReply(1, "ECC errors on GPU 3\n"), "sick", "ECC errors on GPU 3"),
        (NodeReply(1, "two\nlines\t\x1b[31m"), "sick", "two lines [31m"),
        (NodeReply(1, " \n", "Traceback (most recent call last): …"), "unknown", "no reason on its standard output: Traceback"),
        (NodeReply(1), "unknown", "gave no reason"),
        (NodeReply(2, "no such option"), "unknown", "left with 2: no such option"),
        (NodeReply(127, "", "sh: nope: not found"), "unknown", "left with 127: sh: nope: not found"),
        (NodeReply(-9), "unknown", "left with -9"),
        (NodeReply(None, "", "it did not end within 60 s"), "unknown", "did not end within 60 s"),
        (NodeReply(None), "unknown", "did not end"),
        (None, "unknown", "did not answer"),
    ],
)
def test_the_verdict_of_a_reply(reply: NodeReply | None, verdict: str, reason: str) -> None:
    found = judge_replies(["n1"], {} if reply is None else {"n1": reply})
    words = {"healthy": [NodeWord(node, "") for node in found.healthy], "sick": found.sick, "unknown": found.unknown}
    (word,) = words.pop(verdict)
    assert reason in word.reason
    assert not any(words.values())


def test_a_reason_is_cut_short() -> None:
    (word,) = judge_replies(["n1"], {"n1": NodeReply(1, "x" * 5000)}).sick
    assert len(word.reason) == REASON_CHARS_MAX


@pytest.mark.parametrize(
    ("blame", "excluded", "expected"),
    [
        (Blame("n1", 1, 1, 1), (), ()),
        (Blame("n1", 2, 1, 2), (), ("n1",)),
        (Blame("n1", 2, 1, 2, is_checked=True), (), ()),
        (Blame("n1.example", 3, 1, 2), ("n1",), ()),
    ],
)
def test_who_is_suspected(blame: Blame, excluded: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert choose_suspects([blame], excluded, 2) == expected


@pytest.mark.parametrize(
    ("sick", "others", "excluded", "at_most", "can", "reason"),
    [
        (("n1",), ("n2",), (), 4, CAN, ""),
        (("n1",), ("n2",), (), 4, (), "--with exclude"),
        (("n1",), ("n1.example",), (), 4, CAN, "no node is known of beside it"),
        (("n1", "n2"), ("n3",), ("n3",), 4, CAN, "no node is known of beside them"),
        (("n1", "n2"), ("n4",), ("n3",), 2, CAN, "3 nodes would be left out then, and node_check allows 2"),
        (("n1", "n2"), ("n4",), ("n2",), 2, CAN, ""),
    ],
)
def test_when_sick_nodes_may_be_left_out(
    sick: tuple[str, ...], others: tuple[str, ...], excluded: tuple[str, ...], at_most: int, can: tuple[str, ...], reason: str
) -> None:
    why_not = judge_leaving_out([NodeWord(node, "ECC") for node in sick], others, excluded, at_most, can)
    assert (reason in why_not) if reason else not why_not


def test_one_sentence_says_what_a_check_came_to() -> None:
    found = NodeVerdicts(("n1", "n2"), (NodeWord("n3", "ECC"),), (NodeWord("n4", "it did not answer"),))
    assert describe_verdicts(found) == "2 healthy, 1 sick (n3: ECC), 1 unknown (n4: it did not answer)"
    assert describe_verdicts(NodeVerdicts(trouble="squeue: away")) == "squeue: away"
    assert describe_verdicts(NodeVerdicts()) == "no node was left to check"
    many = NodeVerdicts(unknown=tuple(NodeWord(f"n{number}", "away") for number in range(12)))
    assert describe_verdicts(many).endswith("n7: away; and 4 more)")
