"""Every fact and every action survives the journal, whatever its fields hold; anything stored decodes or raises JournalError."""

from __future__ import annotations

import dataclasses
import json
import types
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentinel.detectors.registry import KINDS
from sentinel.errors import JournalError
from sentinel.journal.codec import UNKNOWN_FACT, decode_fact, encode_fact
from sentinel.model.actions import Action
from sentinel.model.attempts import SampleRange
from sentinel.model.facts import ActionDecided, Fact, IncidentOpened, Noted, PlanAdopted
from sentinel.model.findings import Kind

# A busy machine is slow, not wrong.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

FACTS: tuple[type, ...] = get_args(Fact)
ACTIONS: tuple[type, ...] = get_args(Action)


# What os.fsdecode makes of bytes that are no UTF-8, as file names may be.
_TEXT = st.text(max_size=20) | st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=3)
_PRIMITIVES: dict[Any, st.SearchStrategy[Any]] = {
    float: st.floats(),
    int: st.integers(),
    str: _TEXT | st.sampled_from(["NaN", "Infinity", "null"]),
    bool: st.booleans(),
    types.NoneType: st.none(),
    SampleRange: st.tuples(st.integers(0, 1 << 60), st.integers(1, 1 << 60)).map(lambda p: SampleRange(p[0], p[0] + p[1])),
}


@cache  # a strategy is made and checked once, not for every example
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Every value that a type hint allows."""
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    args = get_args(hint)
    if get_origin(hint) is Literal:
        return st.sampled_from(args)
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of([values_of(arg) for arg in args])
    if get_origin(hint) is tuple and args[-1] is Ellipsis:
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    if get_origin(hint) is tuple:
        return st.tuples(*[values_of(arg) for arg in args])
    if issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    if hint is Kind:
        return st.sampled_from(sorted(KINDS))
    hints = get_type_hints(hint)
    return st.builds(hint, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(hint)})


def stored(fact: Fact) -> Fact:
    kind, body = encode_fact(fact)
    assert body.isascii()
    return decode_fact(kind, body)


def assert_same(one: object, other: object) -> None:
    """Equal with NaN equal to itself, 1 different from 1.0, -0.0 from 0.0, and an enum from its text."""
    assert repr(one) == repr(other)


@pytest.mark.parametrize("cls", FACTS, ids=lambda cls: cls.__name__)
@patient
@given(data=st.data())
def test_every_fact_comes_back_as_it_went(cls: type, data: st.DataObject) -> None:
    fact = data.draw(values_of(cls))
    assert_same(stored(fact), fact)


@pytest.mark.parametrize("cls", ACTIONS, ids=lambda cls: cls.__name__)
@patient
@given(data=st.data())
def test_every_action_comes_back_as_it_went(cls: type, data: st.DataObject) -> None:
    action = data.draw(values_of(cls))
    for fact in (ActionDecided(action), PlanAdopted(None, (action, action))):
        assert_same(stored(fact), fact)


@patient
@given(data=st.data())
def test_keys_of_a_later_version_are_ignored(data: st.DataObject) -> None:
    fact = data.draw(values_of(data.draw(st.sampled_from(FACTS))))
    kind, body = encode_fact(fact)

    def with_more(plain: Any) -> Any:
        if isinstance(plain, dict):
            return {"added_later": [1, {}], **{key: with_more(value) for key, value in plain.items()}}
        return [with_more(value) for value in plain] if isinstance(plain, list) else plain

    assert_same(decode_fact(kind, json.dumps(with_more(json.loads(body)))), fact)


@patient
@given(data=st.data())
def test_a_missing_key_takes_the_default_or_is_named(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from([cls for cls in FACTS if dataclasses.fields(cls)]))
    fact = data.draw(values_of(cls))
    gone = data.draw(st.sampled_from(dataclasses.fields(cls)))
    kind, body = encode_fact(fact)
    plain = json.loads(body)
    del plain[gone.name]
    if gone.default is dataclasses.MISSING:
        with pytest.raises(JournalError, match=f"{gone.name}: is missing"):
            decode_fact(kind, json.dumps(plain))
    else:
        assert_same(decode_fact(kind, json.dumps(plain)), dataclasses.replace(fact, **{gone.name: gone.default}))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("type"), inner, max_size=3),
    max_leaves=5,
)


@patient
@given(kind=st.sampled_from(["Held", "IncidentOpened", "ActionDecided", "Nonesuch"]), body=st.text() | _JSON.map(json.dumps))
def test_any_stored_text_decodes_or_raises_a_journal_error(kind: str, body: str) -> None:
    with suppress(JournalError):
        decode_fact(kind, body)


@patient
@given(data=st.data())
def test_a_fact_with_one_value_replaced_decodes_or_raises_a_journal_error(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from([IncidentOpened, ActionDecided, PlanAdopted]))
    kind, body = encode_fact(data.draw(values_of(cls)))
    plain = json.loads(body)
    place = plain
    for _ in range(data.draw(st.integers(0, 4))):
        inner = [
            value for value in (place.values() if isinstance(place, dict) else place) if isinstance(value, dict | list) and value
        ]
        if not inner:
            break
        place = data.draw(st.sampled_from(inner))
    where = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
    place[where] = data.draw(_JSON)
    try:
        fact = decode_fact(kind, json.dumps(plain))
    except JournalError:
        return
    assert isinstance(fact, cls) or (isinstance(fact, Noted) and fact.about == UNKNOWN_FACT)
