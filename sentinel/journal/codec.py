"""Facts to JSON text and back, driven by the dataclasses' own type hints.

Written: every field, defaults too, so that a default changed later does not rewrite history. A member of a union of
dataclasses carries its recorded name (`model/recorded.py`) under "type";
non-finite floats are the strings "NaN", "Infinity", "-Infinity".

Read: unknown keys are ignored and missing ones take the dataclass default, so fields may be added. A word this version
does not know (a fact, an action, a kind of finding) turns the fact into `Noted(about=UNKNOWN_FACT, …)`: a run can still be
looked at after a downgrade; `session.refuse_newer` keeps an older sentinel from supervising it. Anything else that does not
fit its type is damage and raises JournalError.

    kind, body = encode_fact(fact); assert decode_fact(kind, body) == fact
"""

from __future__ import annotations

import json
from typing import NoReturn, cast, get_args

from sentinel.errors import JournalError
from sentinel.journal.dataclass_codec import TypeMismatch, UnknownWord, codec_of, shown
from sentinel.model.facts import Fact, Noted
from sentinel.model.recorded import recorded_name

UNKNOWN_FACT = "unknown fact"

_FACTS: dict[str, type] = {recorded_name(cls): cls for cls in get_args(Fact)}


def prepare() -> None:
    """Build the codec of every fact, for which its first one waits otherwise: 14 ms in the middle of a recovery."""
    for cls in _FACTS.values():
        codec_of(cls)


def encode_fact(fact: Fact) -> tuple[str, str]:
    """(kind, body): the recorded name and the fields as JSON text, ASCII only.

    Raises:
        TypeError: a field holds what its type hint does not allow. A fact that could not be read back is never written.
    """
    cls: type = type(fact)
    kind = recorded_name(cls)
    if _FACTS.get(kind) is not cls:
        raise TypeError(f"{kind} is not a fact; add it to sentinel.model.facts.Fact")
    try:
        return kind, _WRITER.encode(codec_of(cls).encode(fact))
    except TypeMismatch as misfit:
        raise TypeError(f"fact {misfit.within(kind)}") from None


def decode_fact(kind: str, body: str) -> Fact:
    """The fact stored as `body`, or `Noted(about=UNKNOWN_FACT, …)` when it speaks words this version does not know.

    Raises:
        JournalError: the text is damaged.
    """
    cls = _FACTS.get(kind)
    try:
        plain = _READER.decode(body)
        if cls is None:
            return _unknown(kind, "no such fact in this version", body)
        return cast(Fact, codec_of(cls).decode(plain))
    except UnknownWord as word:
        return _unknown(kind, str(word), body)
    except (TypeMismatch, ValueError, RecursionError) as damage:
        raise JournalError(f"fact {kind!r} is damaged ({damage}): {shown(body)}") from None


def _unknown(kind: str, why: str, body: str) -> Noted:
    return Noted(UNKNOWN_FACT, f"{kind}: {why}; probably written by a newer sentinel: {shown(body)}")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"bare {word} is not JSON")


_WRITER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_READER = json.JSONDecoder(parse_constant=_refuse_constant)
