"""Environments compared: what matters first, unknown is neither changed nor unchanged, a part read in part accuses nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model.environment import Environment
from sentinel.plan.environment import changes_in_words, compare_commands, compare_environments, merge

BEFORE = Environment(
    code=(("a.py", "1"), ("b.py", "2")),
    configs=(("c.yaml", "3"),),
    interpreter="CPython 3.12.3 (/p)",
    distributions=(("aiohttp", "1"), ("numpy", "2.0"), ("torch", "2.13.0")),
    variables=(("NCCL_DEBUG", "WARN"),),
)


def test_the_same_has_no_difference() -> None:
    assert compare_environments(BEFORE, BEFORE) == ()


def test_every_kind_of_difference_says_from_what_to_what() -> None:
    now = Environment(
        code=(("b.py", "9"), ("new.py", "1")),
        configs=(("c.yaml", "4"),),
        interpreter="CPython 3.13.0 (/p)",
        distributions=(("aiohttp", "2"), ("scipy", "1"), ("torch", "2.14.0")),
        variables=(("OMP_NUM_THREADS", "4"),),
    )
    assert compare_environments(BEFORE, now) == (
        "CPython 3.12.3 (/p) → CPython 3.13.0 (/p)",
        "torch 2.13.0 → 2.14.0",
        "numpy 2.0 no longer installed",
        "aiohttp 1 → 2",
        "scipy 1 installed",
        "a.py is gone",
        "b.py changed",
        "new.py is new",
        "c.yaml changed",
        "NCCL_DEBUG WARN no longer set",
        "OMP_NUM_THREADS 4 set",
    )


def test_unknown_is_no_difference_and_is_compared_when_it_is_known_again() -> None:
    blind = replace(BEFORE, distributions=None, interpreter=None, unknown=("not said",))
    assert compare_environments(BEFORE, blind) == ()
    known = merge(BEFORE, blind)
    assert known.distributions == BEFORE.distributions
    assert known.unknown == ("not said",)
    later = replace(BEFORE, distributions=(("torch", "3.0"),))
    assert compare_environments(known, later)[0] == "torch 2.13.0 → 3.0"


def test_of_files_read_in_part_only_those_read_twice_are_compared() -> None:
    part = replace(BEFORE, code=(("b.py", "9"),), capped=("too many",))
    assert compare_environments(BEFORE, part) == ("b.py changed",)


def test_an_interpreter_that_did_not_answer_makes_no_file_new_or_gone() -> None:
    """It says where its code lies. One that was too slow on a busy machine made 25 files look new at the next launch."""
    part = replace(BEFORE, interpreter=None, distributions=None, code=(("a.py", "1"),), unknown=("did not say",))
    assert compare_environments(part, BEFORE) == ()
    assert compare_environments(BEFORE, part) == ()
    assert compare_environments(merge(BEFORE, part), BEFORE) == (), "what was not read stands as it was last read"
    changed = replace(part, code=(("a.py", "9"),))
    assert compare_environments(merge(BEFORE, changed), BEFORE) == ("a.py changed",)
    no_python = replace(part, unknown=("no word of the command is a Python",))
    assert compare_environments(no_python, replace(no_python, code=(("b.py", "2"),))) == ("a.py is gone", "b.py is new")


def test_a_sentence_names_so_many_and_counts_the_rest() -> None:
    words = changes_in_words(tuple(f"file{n} changed" for n in range(20)))
    assert words.endswith("file4 changed; and 15 more")


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("torchrun --nproc-per-node 8 train.py", "torchrun --nproc-per-node 6 train.py", "--nproc-per-node 8 → 6"),
        ("train.py --set a=1", "train.py --set a=1 --set b=2", "--set b=2 added"),
        ("train.py --fast", "train.py", "--fast left out"),
        ("a b", "c d", "a b → c d"),
    ],
)
def test_commands_are_told_apart_by_the_words_that_differ(before: str, now: str, said: str) -> None:
    assert compare_commands(tuple(before.split()), tuple(now.split())) == f"the command: {said}"


def test_a_long_command_is_cut_in_the_sentence() -> None:
    told = compare_commands(("x",), tuple(f"word{n}" for n in range(200)))
    assert len(told) == 300
    assert told.endswith("…")
