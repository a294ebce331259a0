"""`extends`: one policy laid over another. Plain values in, one value out that remembers where each part of it stood.

    joined = join([child, base])              # documents as YAML gives them, the nearest first
    joined.value["spec"]["rules"]
    joined.origin("spec.rules[4].playbook")   # Origin(source=1, path="spec.rules[7].playbook"): it stands in the base

Only `spec` is inherited. Mappings merge key by key. Rules merge by `alert`, routes and windows by their name, and keep the place
they have in the base; new ones follow. Every other value, lists included, is replaced. `remove` takes out what the base has.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel.errors import Problem
from sentinel.policy.log_names import name_of_entry
from sentinel.policy.problems import did_you_mean
from sentinel.policy.quantities import Malformed, show

_EITHER = {"on": "expr", "expr": "on"}  # of a rule: writing one means not the other
_IN_LIST = re.compile(r"(spec\.rules|spec\.logs|spec\.paging\.(?:routes|mute|inhibit))\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Node:
    """A value with the place where it stands: the document (0 is the nearest) and the path in it. `value` of a mapping is a dict
    of nodes, of a list a tuple of nodes."""

    value: Any
    source: int
    path: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value stands: which document, and its path there."""

    source: int
    path: str


@dataclass
class Joined:
    """Documents laid over each other. `written`: the paths at which the nearest document changes something, removals included.
    `problems`: what keeps the documents from being joined, each with the document it is in."""

    value: Any
    written: tuple[str, ...] = ()
    problems: tuple[tuple[int, Problem], ...] = ()
    root: Node | None = None

    @functools.cached_property
    def _nodes(self) -> dict[str, Node]:
        """Every node by its path in the joined document."""
        nodes: dict[str, Node] = {}
        _index(self.root or _node(self.value, 0, ""), "", nodes)
        return nodes

    def origin(self, path: str) -> Origin:
        """Where the value at `path` of the joined document stands; for what stands nowhere, the place around it."""
        around = path
        while around and around not in self._nodes:
            around = around[: max(around.rfind("."), around.rfind("["), 0)]
        node = self._nodes[around]
        rest = path[len(around) :]
        return Origin(node.source, (node.path + rest).removeprefix("."))

    def is_written(self, path: str) -> bool:
        """Whether the nearest document wrote this place of its own, rather than something inside it."""
        return any(path == unit or path.startswith((f"{unit}.", f"{unit}[")) for unit in self.written)

    def named(self, text: str) -> str:
        """The text with every `spec.rules[3]` by its name, so that it means the same where other entries stand around it."""
        return _IN_LIST.sub(lambda found: f"{found[1]}.{self.entry_name(found[1], int(found[2])) or found[2]}", text)

    def entry_name(self, path: str, index: int) -> str | None:
        """What the entry of the list at `path` is called."""
        entry = self._nodes.get(f"{path}[{index}]")
        return NAMES[path](entry) if entry is not None else None


def join(documents: Sequence[Mapping[str, Any]], without: Collection[str] = ()) -> Joined:
    """The documents as one, the nearest first. `without`: paths of the nearest document to read as if they were not written."""
    last = len(documents) - 1
    specs = [_node(document.get("spec", {}), source, "spec") for source, document in enumerate(documents)]
    problems = [(source, problem) for source, spec in enumerate(specs) for problem in _repeated(spec)]
    spec = specs[last]
    written: list[str] = []
    for source in range(last - 1, -1, -1):
        document, skipped = documents[source], without if source == 0 else ()
        spec, written, found = _removed(spec, document.get("remove"), skipped)
        problems += [(source, problem) for problem in found]
        spec = _Merge(skipped, written).merge(spec, specs[source])
    if "remove" in documents[last]:
        message, remedy = (
            "there is nothing to remove from: this policy extends no other",
            "name it under 'extends', or remove the line",
        )
        problems.append((last, Problem("remove", message, remedy)))
    root = Node({**_node(documents[0], 0, "").value, "spec": spec}, 0, "")
    return Joined(_plain(root), tuple(written), tuple(problems), root)


def _alert(entry: Node) -> str | None:
    return _text(entry, "alert")


def _route(entry: Node) -> str | None:
    """A route is called by its name, or by its channel."""
    if not isinstance(entry.value, dict) or len(entry.value) != 1:
        return None
    return next(_text(settings, "name") or channel for channel, settings in entry.value.items())


def _name(entry: Node) -> str | None:
    return _text(entry, "name")


def _log_entry(entry: Node) -> str | None:
    """One without a name is called by what it looks for."""
    pattern = _text(entry, "match")
    return _name(entry) or (name_of_entry(pattern, _text(entry, "class")) if pattern is not None else None)


NAMES: dict[str, Callable[[Node], str | None]] = {
    "spec.rules": _alert,
    "spec.logs": _log_entry,
    "spec.paging.routes": _route,
    "spec.paging.mute": _name,
    "spec.paging.inhibit": _name,
}
"""The lists of things with a name, by their place: what an entry is called, None where that is not written."""


def _text(node: Node, key: str) -> str | None:
    found = node.value.get(key) if isinstance(node.value, dict) else None
    return found.value if found is not None and isinstance(found.value, str) else None


def _node(value: Any, source: int, path: str) -> Node:
    if isinstance(value, Mapping):
        return Node({key: _node(child, source, _below(path, key)) for key, child in value.items()}, source, path)
    if isinstance(value, (list, tuple)):
        return Node(tuple(_node(child, source, f"{path}[{index}]") for index, child in enumerate(value)), source, path)
    return Node(value, source, path)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _plain(child) for key, child in node.value.items()}
    return [_plain(child) for child in node.value] if isinstance(node.value, tuple) else node.value


def _index(node: Node, path: str, nodes: dict[str, Node]) -> None:
    nodes[path] = node
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            _index(child, _below(path, key), nodes)
    elif isinstance(node.value, tuple):
        for index, child in enumerate(node.value):
            _index(child, f"{path}[{index}]", nodes)


@dataclass(frozen=True, slots=True)
class _Merge:
    """One document over another; `written` collects where the upper one changed something."""

    skipped: Collection[str]
    written: list[str]

    def merge(self, base: Node, over: Node) -> Node:
        if isinstance(base.value, dict) and isinstance(over.value, dict) and not _is_secret(base, over):
            return self._mapping(base, over)
        if isinstance(base.value, tuple) and isinstance(over.value, tuple) and over.path in NAMES:
            return self._named(base, over)
        return self._taken(over) or base

    def _taken(self, over: Node) -> Node | None:
        if over.path in self.skipped:
            return None
        self.written.append(over.path)
        return over

    def _mapping(self, base: Node, over: Node) -> Node:
        keys = {key for key, child in over.value.items() if child.path not in self.skipped}
        given_up = {_EITHER[key] for key in keys if key in _EITHER} - keys if _is_rule(over) else set()
        values = {key: child for key, child in base.value.items() if key not in given_up}
        for key, child in over.value.items():
            merged = self.merge(values[key], child) if key in values else self._taken(child)
            if merged is not None:
                values[key] = merged
        return Node(values, over.source, over.path)

    def _named(self, base: Node, over: Node) -> Node:
        """Entries without a name are kept as they stand: whoever judges the values says what they lack."""
        name_of = NAMES[over.path]
        entries: dict[object, Node] = {name_of(entry) or object(): entry for entry in base.value}
        for entry in over.value:
            name = name_of(entry)
            known = entries.get(name) if name is not None else None
            # A route of the same name on another channel has nothing in common with the old one but its place.
            is_new = known is None or (_is_route(entry) and entry.value.keys() != known.value.keys())
            merged = self._taken(entry) if known is None or is_new else self.merge(known, entry)
            if merged is not None:
                entries[name or object()] = merged
        return Node(tuple(entries.values()), over.source, over.path)


def _is_rule(node: Node) -> bool:
    return node.path.startswith("spec.rules[") and node.path.endswith("]")


def _is_route(node: Node) -> bool:
    return node.path.startswith("spec.paging.routes[") and node.path.endswith("]")


def _is_secret(base: Node, over: Node) -> bool:
    """A secret lies in one place, `{env: NAME}` or `{file: PATH}`: a new place replaces the old one. Labels are free words."""
    places = ({"env"}, {"file"})
    return base.value.keys() in places and over.value.keys() in places and not over.path.endswith(".labels")


def _repeated(spec: Node) -> list[Problem]:
    """Entries of one document with the same name: it could not be said which of them an entry of another document means."""
    nodes: dict[str, Node] = {}
    _index(spec, "spec", nodes)
    found = []
    for path, name_of in NAMES.items():
        first: dict[str, Node] = {}
        entries = nodes[path].value if path in nodes else ()
        for entry in entries if isinstance(entries, tuple) else ():
            name = name_of(entry)
            if name is not None and first.setdefault(name, entry) is not entry:
                message = f"'{name}' stands here twice: it is also {first[name].path}"
                found.append(Problem(entry.path, message, "give each a name of its own, or remove one"))
    return found


def _removed(spec: Node, remove: object, skipped: Collection[str]) -> tuple[Node, list[str], list[Problem]]:
    """The spec without what `remove` lists, the paths of those items, and what is wrong with others."""
    written, problems = [], []
    for index, word in enumerate(remove if isinstance(remove, (list, tuple)) else ()):
        path = f"remove[{index}]"
        if not isinstance(word, str) or path in skipped:
            continue  # another value than text is refused by its type
        try:
            spec = _without(spec, word.removeprefix("spec.").split("."), word)
            written.append(path)
        except Malformed as error:
            problems.append(Problem(path, str(error), error.remedy))
    return spec, written, problems


def _without(node: Node, parts: list[str], word: str, at: str = "spec") -> Node:
    name_of = NAMES.get(at)
    is_named = isinstance(node.value, tuple) and name_of is not None
    children: dict[str, Node] = node.value if isinstance(node.value, dict) else {}
    if is_named and name_of is not None:
        children = {name: entry for entry in node.value if (name := name_of(entry)) is not None}
    part, rest = parts[0], parts[1:]
    if part not in children:
        message = f"there is no {show(word)} to remove: '{at}' of the policy it extends has no '{part}'"
        raise Malformed(message, did_you_mean(part, tuple(children), f"known in '{at}'") or "remove the line")
    child = children[part]
    if is_named and rest and _is_route(child):  # a route is a mapping of its channel: its settings are one level further down
        ((channel, _),) = child.value.items()
        rest = [channel, *rest]
    kept = _without(child, rest, word, f"{at}.{part}") if rest else None
    if is_named:
        entries = (kept if entry is child else entry for entry in node.value)
        return Node(tuple(entry for entry in entries if entry is not None), node.source, node.path)
    changed = {key: kept if key == part else value for key, value in node.value.items()}
    return Node({key: value for key, value in changed.items() if value is not None}, node.source, node.path)
