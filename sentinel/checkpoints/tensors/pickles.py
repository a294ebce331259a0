"""What a pickle would build, without building it: names of classes and functions stay names, and nothing is imported or called.

Python's `pickletools` names the opcodes. Their number bounds time and memory. A dict stays a list of pairs, so that nothing is
hashed: the hash of a tuple that holds the tuple before it twice, and so on, takes for ever.
"""

from __future__ import annotations

import pickletools
import struct
from dataclasses import dataclass, field
from typing import Any

OPCODES_MAX = 6_000_000
PICKLE_BYTES_MAX = 64 << 20
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_GETS, _PUTS = ("BINGET", "LONG_BINGET", "GET"), ("BINPUT", "LONG_BINPUT", "PUT")
_NOTHING = ("PROTO", "FRAME", "READONLY_BUFFER")


@dataclass(frozen=True, slots=True)
class Name:
    """Of a class or function, as module.name."""

    text: str


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict, in the order in which it was written."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    def get(self, key: str) -> Any:
        """None where there is no such key; the last of several."""
        return next((value for name, value in reversed(self.pairs) if type(name) is str and name == key), None)


@dataclass(slots=True, eq=False)
class Call:
    """What a function would return. `state` is what it would then be given; `items` are those that it would be filled with."""

    function: Any
    arguments: Any
    state: Any = None
    items: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.function.text if isinstance(self.function, Name) else ""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A persistent id: what the archive around the pickle keeps apart."""

    value: Any


class RefusedPickle(ValueError):
    """With the reason in words of our own: those of `pickletools` quote the data."""


def walk_pickle(data: bytes) -> Any:
    """The value of the first pickle in `data`. RefusedPickle for what is none, breaks off, or is too long."""
    if len(data) > PICKLE_BYTES_MAX:
        raise RefusedPickle(f"it has more than {PICKLE_BYTES_MAX >> 20} MiB")
    walk = _Walk()
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number >= OPCODES_MAX:
                raise RefusedPickle(f"it has more than {OPCODES_MAX:,} opcodes")
            if opcode.name == "STOP":
                return walk.stack[-1]
            walk.do(opcode.name, argument)
    except RefusedPickle:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, struct.error):
        raise RefusedPickle("it breaks off or is damaged") from None
    raise RefusedPickle("it breaks off")


class _Walk:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks below each mark
        self.memo: dict[int, Any] = {}

    def do(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _GETS:
            stack.append(self.memo[int(argument)])
        elif name in _PUTS:
            self.memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name == "MARK":
            self.below.append(stack)
            self.stack = []
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            items = self.pop(_TUPLES[name])
            stack.append(tuple(items))
        elif name in _COLLECTING:
            items, self.stack = stack, self.below.pop()
            _COLLECTING[name](self, items)
        elif name in _MAKING:
            _MAKING[name](self, argument)
        elif name not in _NOTHING:
            if argument is None or not name.startswith(_PLAIN):
                raise RefusedPickle(f"its opcode {name} is not known")
            stack.append(argument)

    def pop(self, count: int) -> list[Any]:
        items = self.stack[-count:]
        if len(items) != count:
            raise IndexError
        del self.stack[-count:]
        return items

    def call(self, count: int) -> None:
        """Its function and arguments lie on the stack; keyword arguments are kept as one more."""
        function, *arguments = self.pop(count)
        self.stack.append(Call(function, arguments[0] if count == 2 else tuple(arguments)))

    def build(self) -> None:
        target, state = self.pop(2)
        if isinstance(target, Call):
            target.state = state
        self.stack.append(target)

    def set_items(self, items: list[Any]) -> None:
        if len(items) % 2:
            raise IndexError
        self.fill(list(zip(items[::2], items[1::2], strict=True)))

    def fill(self, items: list[Any]) -> None:
        """Whatever is on top: a list, a dict, or what a call returns."""
        top = self.stack[-1]
        (top.pairs if isinstance(top, Pairs) else top.items if isinstance(top, Call) else top).extend(items)


_PLAIN = (
    "INT", "BININT", "LONG", "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BIN", "UNICODE", "BINUNICODE", "BINBYTES",
    "BYTEARRAY",
)  # fmt: skip


def _pairs(items: list[Any]) -> Pairs:
    return Pairs(list(zip(items[::2], items[1::2], strict=True)))


_COLLECTING: dict[str, Any] = {
    "TUPLE": lambda walk, items: walk.stack.append(tuple(items)),
    "LIST": lambda walk, items: walk.stack.append(items),
    "DICT": lambda walk, items: walk.stack.append(_pairs(items)),
    "FROZENSET": lambda walk, items: walk.stack.append(items),
    "APPENDS": lambda walk, items: walk.fill(items),
    "ADDITEMS": lambda walk, items: walk.fill(items),
    "SETITEMS": lambda walk, items: walk.set_items(items),
    "OBJ": lambda walk, items: walk.stack.append(Call(items[0], tuple(items[1:]))),
    "POP_MARK": lambda *_: None,
}
_MAKING: dict[str, Any] = {
    "EMPTY_LIST": lambda walk, _: walk.stack.append([]),
    "EMPTY_SET": lambda walk, _: walk.stack.append([]),
    "EMPTY_DICT": lambda walk, _: walk.stack.append(Pairs()),
    "APPEND": lambda walk, _: walk.fill(walk.pop(1)),
    "SETITEM": lambda walk, _: walk.set_items(walk.pop(2)),
    "DUP": lambda walk, _: walk.stack.append(walk.stack[-1]),
    "POP": lambda walk, _: walk.stack.pop(),
    "GLOBAL": lambda walk, text: walk.stack.append(Name(text.replace(" ", ".", 1))),
    "STACK_GLOBAL": lambda walk, _: walk.stack.append(Name(".".join(walk.pop(2)))),
    "BINPERSID": lambda walk, _: walk.stack.append(Stored(walk.pop(1)[0])),
    "REDUCE": lambda walk, _: walk.call(2),
    "NEWOBJ": lambda walk, _: walk.call(2),
    "NEWOBJ_EX": lambda walk, _: walk.call(3),
    "BUILD": lambda walk, _: walk.build(),
}
