"""Whether a folder is shared as a run directory must be: what is wrong is facts, and what is not known is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.plan.shared_folder import FolderFacts, SeenOfNode, judge_shared, read_folder_facts

TOLD = FolderFacts("n2", "", 0.3, 40, {"held.flock": "held", "held.posix": "held"})
SEEN = SeenOfNode(1.1, 40, 40)


def judge(facts: FolderFacts | None, seen: SeenOfNode = SEEN) -> tuple[str, str]:
    check = judge_shared("n1", "/runs", {"n1": TOLD, "n2": facts}, {"n1": SEEN, "n2": seen})
    return check.verdict, check.reason


def test_machines_that_see_each_other() -> None:
    assert judge(TOLD) == ("good", "/runs: n1 and n2 see each other's writes within 1.1 s, and its locks")


@pytest.mark.parametrize(
    ("facts", "seen", "words"),
    [
        (replace(TOLD, error="Permission denied"), SeenOfNode(None, 0, 0), "n2 cannot write there: Permission denied"),
        (replace(TOLD, still_s=None), SEEN, "n2 does not see what n1 writes there: it is not the same filesystem on both"),
        (TOLD, SeenOfNode(None, 0, 0), "n1 does not see what n2 writes there: it is not the same filesystem on both"),
        (TOLD, replace(SEEN, lines=39), "of 40 lines that n2 appended 39 are whole on n1"),
        (TOLD, replace(SEEN, number=12), "the number it wrote in place is 12"),
        (replace(TOLD, still_s=2.5), SEEN, "what n1 writes is seen on n2 after 2.5 s (at most 2 s"),
        (TOLD, replace(SEEN, still_s=30.0), "what n2 writes is seen on n1 after 30 s"),
        (replace(TOLD, locks={"held.flock": "free", "held.posix": "held"}), SEEN, "is not locked on n2 (flock: free)"),
        (replace(TOLD, locks={"held.posix": "No locks available"}), SEEN, "(posix: No locks available)"),
        (replace(TOLD, locks={}), SEEN, "is not locked on n2 (nothing was tried)"),
    ],
)
def test_what_is_wrong_is_bad_and_says_what_it_breaks(facts: FolderFacts, seen: SeenOfNode, words: str) -> None:
    verdict, reason = judge(facts, seen)
    assert (verdict, words in reason) == ("bad", True), reason


def test_a_node_that_told_nothing_is_unknown_and_hides_nothing_that_is_wrong() -> None:
    assert judge(None) == ("unknown", "/runs was not tried on n2")
    assert judge_shared("n1", "/runs", {}, {}).verdict == "unknown"
    facts = {"n2": None, "n3": replace(TOLD, error="Read-only file system")}
    assert judge_shared("n1", "/runs", facts, {"n2": SEEN, "n3": SEEN}).verdict == "bad"


def test_facts_are_read_as_a_node_prints_them() -> None:
    printed = {"error": "", "name": "n2", "still_s": 0.3, "numbers": 40, "locks": {"held.flock": "held", "held.posix": "held"}}
    assert read_folder_facts(printed) == TOLD
    assert read_folder_facts(printed | {"still_s": None}).still_s is None
    with pytest.raises(AttributeError):
        read_folder_facts(printed | {"locks": 3})
