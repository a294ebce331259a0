"""What is different between two policies, in words: what a person reads before they apply one to a run.

Both are compared as they are in force, with what they extend merged in and with the defaults of the language, and shown in the
words of the language: a line for each setting, under the section it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sentinel.policy_files.loading import PolicyFile
from sentinel.policy_files.schema_json import policy_json_schema_text

VALUE_CHARS_MAX = 160
SECTIONS = (
    "mode", "detectors", "record", "rules", "logs", "playbooks", "budget", "probation", "checkpoints", "acts", "run",
    "node_check", "paging",
)  # fmt: skip

Document = Mapping[str, Any]


def differences(before: PolicyFile, after: PolicyFile) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Sections that differ, each with its lines; empty where both say the same."""
    if before.policy.spec == after.policy.spec:
        return ()
    old, new = before.document["spec"], after.document["spec"]
    found = ((name, tuple(_section(name, old.get(name), new.get(name)))) for name in SECTIONS)
    return tuple((name, lines) for name, lines in found if lines)


def differences_text(found: Sequence[tuple[str, Sequence[str]]]) -> str:
    lines = []
    for name, section in found:
        lines += [f"{name}:", *(f"  {line}" for line in section)]
    return "\n".join(lines)


def _section(name: str, old: Any, new: Any) -> Iterator[str]:
    if name == "rules":
        return _rules(old or [], new or [])
    if name == "playbooks":
        return _playbooks(old or {}, new or {})
    if name == "record":
        return _recorded(old or {}, new or {})
    return _changes("", old, new, _shape_of(_spec_shape(), name))


def _rules(old: Sequence[Document], new: Sequence[Document]) -> Iterator[str]:
    was, now = ({str(rule["alert"]): rule for rule in rules} for rules in (old, new))
    for alert, rule in was.items():
        if alert not in now:
            yield f"{alert} is gone ({_about(rule)})"
        else:
            yield from _changes(alert, rule, now[alert], _defined("Rule"))
    for alert, rule in now.items():
        if alert not in was:
            yield f"{alert} is new: {_about(rule)}, playbook {rule.get('playbook') or 'none: it is only recorded'}"
    if order := _new_order(was, now):
        yield f"their order is another, and the first that matches is taken: {order}"


def _about(rule: Document) -> str:
    return f"on {rule['on']}" if rule.get("on") else f"expr {_shown(rule.get('expr'))}"


def _playbooks(old: Mapping[str, Sequence[Any]], new: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for name, rungs in old.items():
        if name not in new:
            yield f"{name} is gone ({_count(rungs)})"
            continue
        for number, (was, now) in enumerate(zip(rungs, new[name], strict=False), start=1):
            if was.keys() == now.keys():
                yield from _changes(f"{name}, rung {number}", was, now, _defined("Rung"))
            else:
                yield f"{name}, rung {number}: {_shown(was)}, now {_shown(now)}"
        for number, rung in list(enumerate(rungs, start=1))[len(new[name]) :]:
            yield f"{name}, rung {number} is gone: {_shown(rung)}"
        for number, rung in list(enumerate(new[name], start=1))[len(rungs) :]:
            yield f"{name}, rung {number} is new: {_shown(rung)}"
    for name, rungs in new.items():
        if name not in old:
            yield f"{name} is new ({_count(rungs)})"


def _recorded(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{name}: {_shown(old.get(name))}, now {_shown(new.get(name))}"


def _count(rungs: Sequence[Any]) -> str:
    return "1 rung" if len(rungs) == 1 else f"{len(rungs)} rungs"


def _changes(name: str, old: Any, new: Any, shape: Document) -> Iterator[str]:
    """One line for each setting that differs; what is not written has its default."""
    if old == new:
        return
    parts = _properties(shape)
    if parts and all(value is None or isinstance(value, Mapping) for value in (old, new)):
        was, now = old or {}, new or {}
        for key in dict.fromkeys((*was, *now)):
            inner = _shape_of(shape, key)
            default = inner.get("default")
            yield from _changes(f"{name}.{key}" if name else key, was.get(key, default), now.get(key, default), inner)
        return
    was_named, now_named = _by_name(old), _by_name(new)
    if was_named is not None and now_named is not None:
        yield from _entries(name, was_named, now_named, _resolved(_resolved(shape).get("items", {})))
        return
    yield f"{name + ': ' if name else ''}{_shown(old)}, now {_shown(new)}"


def _by_name(value: Any) -> Mapping[str, Any] | None:
    """The entries of a list that are known by their name; None where they are not."""
    entries = value if isinstance(value, list) else [] if value is None else None
    if entries is None or not all(isinstance(entry, Mapping) and "name" in entry for entry in entries):
        return None
    return {str(entry["name"]): entry for entry in entries}


def _entries(name: str, old: Mapping[str, Any], new: Mapping[str, Any], shape: Document) -> Iterator[str]:
    prefix = f"{name}: " if name else ""
    for one, entry in old.items():
        if one not in new:
            yield f"{prefix}{one} is gone: {_shown(_without_name(entry))}"
        else:
            yield from _changes(f"{prefix}{one}", entry, new[one], shape)
    for one, entry in new.items():
        if one not in old:
            yield f"{prefix}{one} is new: {_shown(_without_name(entry))}"
    if order := _new_order(old, new):
        yield f"{prefix}their order is another: {order}"


def _new_order(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Of the entries that both have, as they stand in the new one; empty where they stood so before."""
    kept_then, kept_now = [one for one in old if one in new], [one for one in new if one in old]
    return "" if kept_then == kept_now else ", ".join(kept_now)


def _without_name(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "name"}


def _shown(value: Any) -> str:
    """On one line, as it may be written in a policy."""
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


@cache
def _schema() -> Document:
    schema: Document = json.loads(policy_json_schema_text())
    return schema


def _defined(name: str) -> Document:
    found: Document = _schema()["$defs"][name]
    return found


def _spec_shape() -> Document:
    return _defined("PolicySpec")


def _properties(shape: Document) -> Document:
    properties: Document = _resolved(shape).get("properties", {})
    return properties


def _shape_of(shape: Document, key: str) -> Document:
    found: Document = _properties(shape).get(key, {})
    return found


def _resolved(shape: Document) -> Document:
    """What a shape refers to; of several that it may be, the one with settings of its own."""
    for choice in (shape, *shape.get("anyOf", ()), *shape.get("oneOf", ()), *shape.get("allOf", ())):
        reference = choice.get("$ref", "")
        if reference.startswith("#/$defs/"):
            return _resolved(_defined(reference.removeprefix("#/$defs/")))
        if "properties" in choice:
            found: Document = choice
            return found
    return shape
