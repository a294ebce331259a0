"""One value to plain JSON data and back, by its type hint: the codec behind `codec`, knowing nothing of facts.

Understood: float int str bool, Literals of str, StrEnum, kinds of findings, tuples,
frozen dataclasses, X | None, unions of dataclasses.
A hint of any other shape raises TypeError when its codec is built, which is once per type.
Why this is not cattrs or msgspec: docs/design/libraries.md, with figures.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sentinel.detectors.registry import KINDS
from sentinel.model.findings import Kind
from sentinel.model.recorded import recorded_name

_TAG = "type"
_SHOWN_MAX = 200  # characters of a stored value quoted in a sentence
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class TypeMismatch(Exception):
    """A value that does not fit its type; `path` is filled on the way out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path = ""

    def within(self, name: str) -> TypeMismatch:
        self.path = f"{name}.{self.path}" if self.path else name
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.args[0]}" if self.path else str(self.args[0])


class UnknownWord(TypeMismatch):
    """Well formed, but a word this version does not know."""


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """`encode` gives what the json module takes; `decode` takes what it gives."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"


@functools.cache
def codec_of(hint: Any) -> Codec:
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    origin = get_origin(hint)
    if hint is Kind:
        return _kind_codec()
    if origin is Literal:
        return _literal_codec(get_args(hint))
    if origin is tuple:
        return _tuple_codec(get_args(hint))
    if origin in (Union, types.UnionType):
        return _union_codec(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum_codec(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass_codec(hint)
    raise TypeError(f"facts cannot hold {hint!r}; see sentinel.journal.dataclass_codec for what they can")


def _float_of(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise TypeMismatch("an integer too large for a float") from None


def _encode_float(value: Any) -> float | str:
    if not isinstance(value, float | int):
        raise TypeMismatch(f"{value!r} is not a number")
    number = _float_of(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _decode_float(plain: Any) -> float:
    if type(plain) is float:
        return plain
    if type(plain) is str and plain in _SPECIAL:
        return _SPECIAL[plain]
    if type(plain) is int:
        return _float_of(plain)
    raise TypeMismatch(f"{plain!r} is not a number")


def _encode_int(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeMismatch(f"{value!r} is not an int")
    return int(value)


def _exactly(cls: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not cls:
            raise TypeMismatch(f"{value!r} is not {cls.__name__}")
        return value

    return check


def _encode_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeMismatch(f"{value!r} is not str")
    return str(value)


_PRIMITIVES: dict[Any, Codec] = {
    float: Codec(_encode_float, _decode_float),
    int: Codec(_encode_int, _exactly(int)),
    str: Codec(_encode_str, _exactly(str)),
    bool: Codec(_exactly(bool), _exactly(bool)),
}


def _literal_codec(words: tuple[Any, ...]) -> Codec:
    if not all(type(word) is str for word in words):
        raise TypeError(f"only Literals of str can be journaled, not {words!r}")

    def check(value: Any) -> Any:
        if type(value) is str and value in words:
            return value
        raise UnknownWord(f"{value!r} is not one of {', '.join(words)}")

    return Codec(check, check)


def _enum_codec(cls: type[StrEnum]) -> Codec:
    members = {member.value: member for member in cls}

    def encode(value: Any) -> str:
        if type(value) is not cls:
            raise TypeMismatch(f"{value!r} is not {cls.__name__}")
        return str(value.value)

    def decode(plain: Any) -> StrEnum:
        if type(plain) is not str:
            raise TypeMismatch(f"{plain!r} is not {cls.__name__}")
        if plain not in members:
            raise UnknownWord(f"{plain!r} is no {cls.__name__} of this version")
        return members[plain]

    return Codec(encode, decode)


def _kind_codec() -> Codec:
    """A kind of finding: a word of the registry."""
    known = {str(kind): kind for kind in KINDS}

    def encode(value: Any) -> str:
        if type(value) is not Kind:
            raise TypeMismatch(f"{value!r} is not Kind")
        return str(value)

    def decode(plain: Any) -> Kind:
        if type(plain) is not str:
            raise TypeMismatch(f"{plain!r} is not Kind")
        if plain not in known:
            raise UnknownWord(f"{plain!r} is no Kind of this version")
        return known[plain]

    return Codec(encode, decode)


def _tuple_codec(args: tuple[Any, ...]) -> Codec:
    if len(args) == 2 and args[1] is Ellipsis:
        item = codec_of(args[0])
        return Codec(
            lambda values: [item.encode(value) for value in _sequence(values, tuple)],
            lambda plain: tuple(item.decode(value) for value in _sequence(plain, list)),
        )
    items = [codec_of(arg) for arg in args]

    def each(values: Any, kind: type, verb: str) -> list[Any]:
        if len(_sequence(values, kind)) != len(items):
            raise TypeMismatch(f"{values!r} has not {len(items)} items")
        return [getattr(item, verb)(value) for item, value in zip(items, values, strict=True)]

    return Codec(lambda values: each(values, tuple, "encode"), lambda plain: tuple(each(plain, list, "decode")))


def _sequence(values: Any, kind: type) -> Any:
    if not isinstance(values, kind):
        raise TypeMismatch(f"{shown(repr(values))} is not a {kind.__name__}")
    return values


def _union_codec(args: tuple[Any, ...]) -> Codec:
    members = tuple(arg for arg in args if arg is not types.NoneType)
    inner = codec_of(members[0]) if len(members) == 1 else _tagged_codec(members)
    if len(members) == len(args):
        return inner
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda plain: None if plain is None else inner.decode(plain),
    )


def _tagged_codec(members: tuple[Any, ...]) -> Codec:
    codecs: dict[str, tuple[type, Codec]] = {}
    for cls in members:
        if not dataclasses.is_dataclass(cls) or not isinstance(cls, type):
            raise TypeError(f"a union in a fact may hold dataclasses and None, not {cls!r}")
        assert all(field.name != _TAG for field in dataclasses.fields(cls)), f"{cls.__name__} has a field named {_TAG!r}"
        codecs[recorded_name(cls)] = (cls, codec_of(cls))

    by_class = {cls: (name, codec) for name, (cls, codec) in codecs.items()}

    def encode(value: Any) -> dict[str, Any]:
        if type(value) not in by_class:
            raise TypeMismatch(f"{type(value).__name__} is none of {', '.join(codecs)}")
        name, codec = by_class[type(value)]
        return {_TAG: name, **codec.encode(value)}

    def decode(plain: Any) -> Any:
        if type(plain) is not dict or type(plain.get(_TAG)) is not str:
            raise TypeMismatch(f"{shown(repr(plain))} has no {_TAG!r}")
        if plain[_TAG] not in codecs:
            raise UnknownWord(f"{plain[_TAG]!r} is none of {', '.join(codecs)}")
        return codecs[plain[_TAG]][1].decode(plain)

    return Codec(encode, decode)


def _dataclass_codec(cls: type) -> Codec:
    hints = get_type_hints(cls)
    fields = [(field.name, codec_of(hints[field.name])) for field in dataclasses.fields(cls)]
    missing = dataclasses.MISSING
    required = [f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing]

    def encode(value: Any) -> dict[str, Any]:
        if type(value) is not cls:
            raise TypeMismatch(f"{value!r} is not {cls.__name__}")
        plain: dict[str, Any] = {}
        for name, codec in fields:
            try:
                plain[name] = codec.encode(getattr(value, name))
            except TypeMismatch as misfit:
                raise misfit.within(name) from None
        return plain

    def decode(plain: Any) -> Any:
        if type(plain) is not dict:
            raise TypeMismatch(f"{shown(repr(plain))} is not an object")
        values: dict[str, Any] = {}
        for name, codec in fields:
            if name in plain:
                try:
                    values[name] = codec.decode(plain[name])
                except TypeMismatch as misfit:
                    raise misfit.within(name) from None
        for name in required:
            if name not in values:
                raise TypeMismatch("is missing").within(name)
        try:
            return cls(**values)
        except AssertionError as broken:  # an invariant of the noun itself, such as an empty SampleRange
            raise TypeMismatch(str(broken)) from None

    return Codec(encode, decode)
