"""From pydantic's validation errors to sentences for the person who wrote the file: what stood there, and what to write."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sentinel.errors import Problem
from sentinel.policy.problems import Location, did_you_mean, nearest, path_text
from sentinel.policy.quantities import Malformed, show
from sentinel.policy.schema import Policy, Rung

_Model = TypeVar("_Model", bound=BaseModel)


def validate_policy(data: object) -> tuple[Policy | None, tuple[Problem, ...]]:
    """The policy, or every problem that keeps it from being one. `data` is what YAML gives: mappings, lists, plain values."""
    try:
        return Policy.model_validate(data), ()
    except ValidationError as error:
        return None, problems_of(error, _policy_schema())


@functools.cache
def _policy_schema() -> dict[str, Any]:
    """Made once: it takes a tenth of a second, and the cause of a problem with what a policy extends is found by trying."""
    return Policy.model_json_schema(by_alias=True)


def validate_rung(data: object) -> tuple[Rung | None, tuple[Problem, ...]]:
    """The same for one rung alone, as a person types it on the command line."""
    try:
        return Rung.model_validate(data), ()
    except ValidationError as error:
        return None, problems_of(error, Rung.model_json_schema(by_alias=True))


def validate_model(model: type[_Model], data: object) -> tuple[_Model | None, tuple[Problem, ...]]:
    """The same for any other file that is read with this model."""
    try:
        return model.model_validate(data), ()
    except ValidationError as error:
        return None, problems_of(error, model.model_json_schema(by_alias=True))


def problems_of(error: ValidationError, schema: dict[str, Any]) -> tuple[Problem, ...]:
    """One for each mistake that pydantic found in a model with this JSON schema."""
    details = error.errors(include_url=False)
    return tuple(_problem(item, schema) for item in details if not _is_explained(item, details))


def _is_explained(item: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """A missing key that stands there misspelt, a list that is too short without its item that is wrong, or a default made of
    what is wrong: one mistake, one problem."""
    if item["type"] == "too_short":
        return any(other is not item and other["loc"][: len(item["loc"])] == item["loc"] for other in details)
    if item["type"] == "default_factory_not_called":  # a name made of other fields, of which one is wrong
        return True
    if item["type"] != "missing":
        return False
    beside = [str(other["loc"][-1]) for other in details if other is not item and other["loc"][:-1] == item["loc"][:-1]]
    key = str(item["loc"][-1])
    return nearest(key, tuple(beside)) is not None


@dataclass(frozen=True, slots=True)
class _Seen:
    """One validation error and where it happened."""

    item: ErrorDetails
    location: Location
    schema: dict[str, Any]

    @property
    def value(self) -> str:
        return show(self.item["input"])

    @property
    def ctx(self) -> dict[str, Any]:
        return self.item.get("ctx", {})


Sentence = Callable[[_Seen], tuple[str, str]]


def _problem(item: ErrorDetails, schema: dict[str, Any]) -> Problem:
    location: Location = tuple(part for part in item["loc"] if not str(part).startswith("["))  # [key], and tags of a union
    raised = item.get("ctx", {}).get("error")
    if isinstance(raised, Malformed):
        return Problem(path_text(location), str(raised), raised.remedy, at=raised.at, hides=raised.hides)
    message, remedy = _SENTENCES.get(item["type"], _other)(_Seen(item, location, schema))
    return Problem(path_text(location), message, remedy)


def _unknown_key(seen: _Seen) -> tuple[str, str]:
    word = str(seen.location[-1])
    return f"unknown key '{word}'", did_you_mean(word, _known_keys(seen.schema, seen.location[:-1]), "known here") or "remove it"


def _missing(seen: _Seen) -> tuple[str, str]:
    key = seen.location[-1]
    if isinstance(key, int):
        return "an item is missing", "write as many items as the language asks for"
    words = _known_words(seen.schema, seen.location)
    return f"'{key}' is missing", f"add '{key}:' here, one of: {', '.join(words)}" if words else f"add '{key}:' here"


def _not_listed(seen: _Seen) -> tuple[str, str]:
    words = _known_words(seen.schema, seen.location)
    if seen.item["loc"][-1] == "[key]":
        words = tuple(_at(seen.schema, seen.location[:-1]).get("propertyNames", {}).get("enum", ()))
    if len(words) == 1:
        return f"{seen.value} is not '{words[0]}', the only value here", f"write '{words[0]}'"
    word = seen.item["input"] if isinstance(seen.item["input"], str) else ""
    return f"{seen.value} is not known here", did_you_mean(word, words, "one of")


def _not_a(noun: str, remedy: str) -> Sentence:
    return lambda seen: (f"{seen.value} is not {noun}", remedy)


def _not_a_mapping(seen: _Seen) -> tuple[str, str]:
    keys = ", ".join(_known_keys(seen.schema, seen.location))
    return f"{seen.value} is not a mapping", f"write 'key: value'; known here: {keys}" if keys else "write 'key: value'"


def _out_of_range(seen: _Seen) -> tuple[str, str]:
    limits = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
    limit = next(f"{word} {seen.ctx[key]:g}" for key, word in limits.items() if key in seen.ctx)
    return f"{seen.value} is out of range", f"write a number {limit}"


def _bad_name(seen: _Seen) -> tuple[str, str]:
    return f"{seen.value} is not a name", "start with a letter; go on with letters, digits, '_', '-' (in metrics '_', '/', '.')"


def _wrong_length(seen: _Seen) -> tuple[str, str]:
    noun = "character" if isinstance(seen.item["input"], str) else "item"
    long = "max_length" in seen.ctx
    count = seen.ctx["max_length"] if long else seen.ctx.get("min_length", 1)
    counted = f"{count} {noun}" if count == 1 else f"{count} {noun}s"
    return f"{seen.value} is too {'long' if long else 'short'}", f"write at {'most' if long else 'least'} {counted}"


def _other(seen: _Seen) -> tuple[str, str]:
    return f"{seen.value}: {seen.item['msg']}", "policies/README.md holds the language on one page"


_NUMBER = _not_a("a number", "write a plain number, without quotes or unit")
_WHOLE = _not_a("a whole number", "write a whole number, without quotes or unit")
_SENTENCES: dict[str, Sentence] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "literal_error": _not_listed,
    "float_type": _NUMBER,
    "finite_number": _not_a("a finite number", "write a plain number"),
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "bool_type": _not_a("true or false", "write true or false (in YAML 1.2 'yes' and 'on' are words)"),
    "string_type": _not_a("text", "put it in quotes"),
    "tuple_type": _not_a("a list", "write a list, such as [a, b], or one '- ' line for each"),
    "model_type": _not_a_mapping,
    "dict_type": _not_a_mapping,
    "greater_than": _out_of_range,
    "greater_than_equal": _out_of_range,
    "less_than": _out_of_range,
    "less_than_equal": _out_of_range,
    "string_pattern_mismatch": _bad_name,
    "string_too_long": _wrong_length,
    "string_too_short": _wrong_length,
    "too_long": _wrong_length,
    "too_short": _wrong_length,
}


def _at(schema: dict[str, Any], location: Location) -> dict[str, Any]:
    """The part of the JSON schema that describes this place; empty where the schema knows no such place."""
    node = _resolved(schema, schema)
    for part in location:
        if isinstance(part, int):
            prefix = node.get("prefixItems", [])
            child = prefix[part] if part < len(prefix) else node.get("items", {})
        else:
            named = next(iter(node.get("patternProperties", {}).values()), node.get("additionalProperties", {}))
            child = node.get("properties", {}).get(part, named)
        node = _resolved(child if isinstance(child, dict) else {}, schema)
    return node


def _resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Through references, and through 'this or null'."""
    for _ in range(8):
        if "$ref" in node:
            node = schema["$defs"][str(node["$ref"]).rsplit("/", 1)[-1]]
        elif "anyOf" in node:
            node = node["anyOf"][0]
        else:
            break
    return node


def _known_keys(schema: dict[str, Any], location: Location) -> tuple[str, ...]:
    properties = _at(schema, location).get("properties", {})
    return tuple(key for key, child in properties.items() if "not" not in child)


def _known_words(schema: dict[str, Any], location: Location) -> tuple[str, ...]:
    node = _at(schema, location)
    return tuple(str(word) for word in node.get("enum", [node["const"]] if "const" in node else ()))
