"""YAML text to plain values, with the place of every value, in one bounded pass over YAML's own events.

YAML 1.2 types (`on:` is a word, `1e-3` a number). What makes YAML surprising is refused: duplicate keys, anchors and
aliases, tags, several documents, empty values. Depth and node count are bounded before anything is built. It knows nothing
of policies.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from yaml.reader import ReaderError
from yamlcore import CoreDumper, CoreLoader

from sentinel.errors import Problem
from sentinel.policy.problems import LINE_ENDS, location_of

try:  # libyaml reads and writes ten times faster; both give the same events and marks
    from yamlcore import CCoreDumper as Dumper
    from yamlcore import CCoreLoader as Loader
except ImportError:
    Dumper, Loader = CoreDumper, CoreLoader

NODES_MAX = 20_000
DEPTH_MAX = 32

Place = tuple[int, int]
START: Place = (1, 1)
TEXT = "tag:yaml.org,2002:str"


class _Stop(Exception):
    """Reading cannot go on; the problem is recorded."""


@dataclass
class YamlText:
    """What was read: `value`, or `problems` that keep it from being used; `places` (line, column) by path, of a key with a value
    the key's; `texts` those where a value that is text begins."""

    value: object = None
    problems: list[Problem] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    source: str = ""
    texts: dict[str, Place] = field(default_factory=dict)

    def add(self, place: Place, path: str, message: str, remedy: str) -> None:
        """Record a problem."""
        line, column = place
        self.problems.append(Problem(path, message, remedy, "error", line, column))

    def locate(self, problem: Problem) -> Problem:
        """The problem with the line of its path, or of the nearest path around it that stands in the text; with the very
        character, where it is told inside a value that is text."""
        path = problem.path
        if problem.at is not None and path in self.texts and not problem.line:
            line, column = self._inside(path, problem.at)
            return replace(problem, line=line, column=column)
        while path and path not in self.places:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        line, column = self.places.get(path or "document", START)
        return problem if problem.line else replace(problem, line=line, column=column)

    def _inside(self, path: str, at: int) -> Place:
        """Where character `at` of a text value stands in the file. Folding and quoting change blanks and marks around a text,
        never the order of its other characters: so these are looked for one after another."""
        value: object = self.value
        for part in location_of(path):
            value = value[part]  # type: ignore[index]  # the path was built while these were read
        line, column = self.texts[path]
        starts = [0, *(end.end() for end in LINE_ENDS.finditer(self.source))]
        here = starts[line - 1] + column - 1
        if self.source[here : here + 1] in ("|", ">"):
            here = starts[line] if line < len(starts) else here
        place = here
        for char in str(value)[: at + 1]:
            if char.isspace():
                continue
            found = self.source.find(char, here)
            if found < 0:
                break
            place, here = found, found + 1
        at_end = at >= len(str(value).rstrip())
        place += at_end
        line = bisect_right(starts, place)
        return line, place - starts[line - 1] + 1


def read_yaml(text: str) -> YamlText:
    """Read one document. Never raises for what a person wrote: look at `problems`."""
    read = YamlText(source=text)
    loader: Any = None
    try:
        loader = Loader(text)
        read.value = _ValueReader(loader, read).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not YAML: {error.problem or error.context}"
        read.add(_place(mark) if mark else START, "document", message, "check indentation, quotes, brackets and colons")
    except ReaderError as error:
        read.add(_nearest(text, error.character), "document", "a character that YAML does not allow stands here", "remove it")
    except _Stop:
        pass
    finally:
        if loader is not None:
            loader.dispose()
    return read


def write_yaml(value: object) -> str:
    """The value as YAML 1.2, in the order it has, which `read_yaml` reads as the same value."""
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return text


def _place(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1


def _nearest(text: str, character: object) -> Place:
    """Where a refused character stands: the two readers count differently, so look for it."""
    at = max(text.find(chr(character) if isinstance(character, int) else str(character)), 0)
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


class _ValueReader:
    def __init__(self, loader: Any, read: YamlText) -> None:
        self._loader = loader
        self._read = read
        self._nodes = 0

    def document(self) -> object:
        self._loader.get_event()  # the stream starts
        if self._loader.check_event(yaml.StreamEndEvent):
            self._stop(START, "document", "the file holds only comments", "write the document below them")
        self._loader.get_event()  # the document starts
        self._read.places["document"] = _place(self._loader.peek_event().start_mark)
        value = self._value("", 0)
        self._loader.get_event()  # the document ends
        if not self._loader.check_event(yaml.StreamEndEvent):
            place = _place(self._loader.peek_event().start_mark)
            self._stop(place, "document", "a second document begins here", "keep one document in one file")
        return value

    def _stop(self, place: Place, path: str, message: str, remedy: str) -> None:
        self._read.add(place, path, message, remedy)
        raise _Stop

    def _value(self, path: str, depth: int) -> object:
        """The next node, at `path` (empty for the document). Paths grow with the descent: a policy of 200 rules has thousands."""
        event = self._loader.get_event()
        place = _place(event.start_mark)
        self._bound(place, path, depth)
        if isinstance(event, yaml.ScalarEvent):
            self._refuse_marks(event, place, path)
            return self._scalar(event, place, path)
        if isinstance(event, yaml.AliasEvent):
            message = f"'*{event.anchor}' is an alias"
            self._read.add(place, path or "document", message, "write the value out; aliases are not allowed")
            return None
        self._refuse_marks(event, place, path)
        return self._mapping(path, depth) if isinstance(event, yaml.MappingStartEvent) else self._sequence(path, depth)

    def _refuse_marks(self, event: Any, place: Place, path: str) -> None:
        if event.anchor is not None:
            remedy = "remove it; anchors and aliases are not allowed"
            self._read.add(place, path or "document", f"'&{event.anchor}' is an anchor", remedy)
        if event.tag is not None:
            self._read.add(place, path or "document", f"'{event.tag}' is a tag", "remove it; tags are not allowed")

    def _bound(self, place: Place, path: str, depth: int) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._stop(place, path or "document", f"more than {NODES_MAX} values in one file", "split the policy")
        if depth > DEPTH_MAX:
            self._stop(place, path or "document", f"nested deeper than {DEPTH_MAX} levels", "check the indentation and brackets")

    def _mapping(self, around: str, depth: int) -> dict[str, object]:
        values: dict[str, object] = {}
        while not self._loader.check_event(yaml.MappingEndEvent):
            event = self._loader.peek_event()
            place = _place(event.start_mark)
            if not isinstance(event, yaml.ScalarEvent):
                self._stop(place, around or "document", "a key must be a plain word", "write 'key: value'")
            key = self._value("", 0)
            if not isinstance(key, str):
                self._read.add(place, around or "document", f"the key {event.value!r} is not text", "put it in quotes")
                key = str(event.value)
            path = f"{around}.{key}" if around else key
            if key in values:
                line = self._read.places[path][0]
                self._read.add(place, path, f"'{key}' is written twice", f"it stands on line {line} already; keep one")
            else:
                self._read.places[path] = place
            value = self._value(path, depth + 1)
            if value is None and not self._read.problems:
                self._read.add(place, path, f"'{key}' has no value", "write a value, or remove the line")
            values[key] = value
        self._loader.get_event()
        return values

    def _sequence(self, around: str, depth: int) -> list[object]:
        values: list[object] = []
        while not self._loader.check_event(yaml.SequenceEndEvent):
            path = f"{around}[{len(values)}]"
            place = _place(self._loader.peek_event().start_mark)
            self._read.places[path] = place
            value = self._value(path, depth + 1)
            if value is None and not self._read.problems:
                self._read.add(place, path, "this item has no value", "write a value, or remove the line")
            values.append(value)
        self._loader.get_event()
        return values

    def _scalar(self, event: Any, place: Place, path: str) -> object:
        if path and path not in self._read.texts:
            self._read.texts[path] = place
        tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == TEXT:
            return event.value
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        try:
            value: object = self._loader.construct_object(node)
            str(value)  # Python reads a hexadecimal number of any length and shows none of over 4300 digits: no message could
            return value
        except ValueError:
            self._read.add(place, path or "document", f"a number of {len(event.value)} characters", "write a shorter one")
            return ""
