"""The rows of the words of a rung: each is carried out by somebody, and what it names exists. Every test names each offender."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import pytest

from sentinel.model.actions import ACTIONS, Capture, Declared, StartAttempt
from sentinel.policy.rung_words import CONDITIONS, OWN_CODE, Acts, OwnCode, Sets, Word
from sentinel.policy.schema import Rung
from sentinel.policy.schema_rungs import WORDS, _rows_of
from sentinel.policy_files.check import KNOWN
from tests.unit.policy.policies_in_words import numeric, said

ROOT = Path(__file__).resolve().parents[3]
A_RUNG = re.compile(r"(\w+\.)?(rung|before|last|rungs\[.*\])")
PAGE = (ROOT / "policies" / "README.md").read_text(encoding="utf-8")


def read_by_name() -> Iterator[str]:
    """Fields of rungs, and words of remedies, that the plan and the engine ask for. `until` they ask for as `lapse_steps`."""
    yield "until"
    for path in (*(ROOT / "sentinel/plan").rglob("*.py"), *(ROOT / "sentinel/engine").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and A_RUNG.fullmatch(ast.unparse(node.value)):
                yield node.attr
            if isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]).endswith(".words"):
                yield ast.unparse(node.left).strip("'")


def carried_out_by_nobody(rows: Mapping[str, Word]) -> list[str]:
    asked = set(read_by_name())
    own = (word for word, row in rows.items() if isinstance(row.by, OwnCode) and row.does != "relaunches")
    return [word for word in own if word not in asked]


def test_every_word_is_carried_out_by_somebody() -> None:
    """Own code reads its word by name. A relaunch by itself starts from the newest checkpoint: that is code for every word."""
    offenders = carried_out_by_nobody(WORDS)
    assert not offenders, f"nobody carries out: {', '.join(offenders)}; neither sentinel.plan nor sentinel.engine reads them"
    assert carried_out_by_nobody({**WORDS, "nap": Word("treats", OWN_CODE)}) == ["nap"]


def test_a_word_without_a_row_is_refused_at_import() -> None:
    class Longer(Rung):
        nap: Annotated[bool, "later"] = False
        stretch: bool = False

    with pytest.raises(TypeError, match="without a row: nap, stretch; annotate each"):
        _rows_of(Longer)


def test_a_new_condition_is_listed() -> None:
    class Longer(Rung):
        unless_sunday: Annotated[bool, Word("says when", OWN_CODE)] = False

    with pytest.raises(TypeError, match=r"unless_sunday, until say when; rung_words\.CONDITIONS lists then"):
        _rows_of(Longer)


def test_what_rows_name_exists() -> None:
    offenders = []
    for word, row in WORDS.items():
        for company in row.company:
            unknown = {*(company.only or ()), *company.needs, *company.never} - set(WORDS)
            offenders += [f"{word}: no such word beside it: {other}" for other in sorted(unknown)]
        offenders += [f"{word}: unknown capability {one.name}" for one in row.capabilities if one.name not in KNOWN]
    assert not offenders, "\n".join(offenders)


def test_the_page_of_the_language_has_every_word() -> None:
    offenders = [word for word in WORDS if not re.search(rf"\| .*`{word}: ", PAGE)]
    assert not offenders, f"not in the table of rungs in policies/README.md: {', '.join(offenders)}"


def test_a_word_that_is_a_condition_is_no_part_of_what_a_rung_does() -> None:
    assert {word for word, row in WORDS.items() if row.does == "says when"} == set(CONDITIONS)
    rung = Rung.model_validate({"lr": "0.5x", "until": "60 steps", "approval": "required"})
    assert (rung.parts, rung.keys) == (("lr",), ("lr", "approval", "until"))


def test_what_a_row_may_not_say_is_refused_where_it_is_written() -> None:
    class Homeless(Declared):
        phrase = "do something"

    with pytest.raises(TypeError, match="no such setting: warmth"):
        Sets(("warmth",), lambda value: {"warmth": value})
    with pytest.raises(TypeError, match=r"not in the union `Action` of sentinel\.model\.actions: .*Homeless"):
        Acts((Homeless,), lambda _value, _case: ())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Capture: a rung cannot add it; declare its `place`"):
        Acts((Capture,), lambda _value, _case: ())


def test_every_action_says_what_it_does() -> None:
    with pytest.raises(TypeError, match="Silent has no phrase"):

        class Silent(Declared):
            pass

    offenders = []
    for kind in ACTIONS:
        named = re.findall(r"\{action\.(\w+)", kind.phrase)
        offenders += [f"{kind.__name__} has no field {name}" for name in named if name not in kind.__dataclass_fields__]
    assert not offenders, "\n".join(offenders)
    assert StartAttempt("start/2", 2, None, overrides=None).words == "start attempt 2"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "launch", "same", "until"),
    [
        ("lr", False, True, True),
        ("clip_norm", False, True, True),
        ("weight_decay", False, False, True),
        ("checkpoint_every", False, False, True),
        ("reset_optimizer", True, False, False),
        ("precision", True, False, True),
        ("reseed_data", True, False, False),
        ("exclude", True, False, False),
        ("rollback", False, True, False),
        ("diagnose", False, False, False),
    ],
)
def test_what_a_setting_says_holds_of_its_word(word: str, launch: bool, same: bool, until: bool) -> None:
    row = WORDS[word]
    assert (row.needs_launch, row.is_more_of_the_same, row.takes_until) == (launch, same, until)


def test_two_words_that_give_one_setting_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORDS, "clip_norm", Word("treats", Sets(("lr_scale",), lambda value: {"lr_scale": value})))  # type: ignore[arg-type]
    problem = ("error", "spec.playbooks.numeric[0].clip_norm", "lr and clip_norm both give the learning rate")
    assert problem in said(numeric({"lr": "0.5x", "clip_norm": 0.5}))
