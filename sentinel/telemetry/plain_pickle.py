"""Reads a pickle of plain values: dicts, lists, tuples, strings, numbers, truth values and None. It refuses everything else.

Python's own unpickler is not used, even without classes. A damaged or planted file of ten bytes makes it take gigabytes (an index
of its memo), and a few dozen bytes keep it busy for ever (the hash of a tuple that holds the tuple before it twice, and so on).
Here the number of opcodes bounds time and memory, and a key is a string or an integer. The opcodes are those that PyTorch's C++
writer and Python's protocols 2 to 5 use for such values (Python's module pickletools describes each).

    >>> read_plain_pickle(b"\\x80\\x02}X\\x01\\x00\\x00\\x00aK\\x07s.")
    {'a': 7}
"""

from __future__ import annotations

import struct
from typing import Any

OPCODES_MAX = 8_000_000  # 20,000 entries of a flight recorder, with stacks of 20 frames each, have about six million
_KEYS = {str, int}
_CONSTANTS: dict[int, Any] = {0x4E: None, 0x88: True, 0x89: False, 0x29: ()}  # N, NEWTRUE, NEWFALSE, EMPTY_TUPLE
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


def read_plain_pickle(data: bytes) -> Any:
    """The value. ValueError for what breaks off, is no pickle, is too long or holds more than plain values."""
    try:
        return _PickleReading(data).value()
    except (IndexError, KeyError, TypeError, UnicodeDecodeError, struct.error):
        raise ValueError("it breaks off or is damaged") from None


class _PickleReading:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks below each mark
        self._memo: dict[int, Any] = {}

    def value(self) -> Any:
        """The opcodes that make up nearly all of a dump are handled here, the others in `_rare`."""
        data, at, stack, memo, below = self._data, 0, self._stack, self._memo, self._below
        integer = int.from_bytes
        for _ in range(OPCODES_MAX):
            op = data[at]
            at += 1
            if op == 0x68:  # BINGET
                stack.append(memo[data[at]])
                at += 1
            elif op == 0x28:  # MARK
                below.append(stack)
                stack = []
            elif op == 0x71:  # BINPUT
                memo[data[at]] = stack[-1]
                at += 1
            elif op == 0x58:  # BINUNICODE
                at += 4
                end = at + integer(data[at - 4 : at], "little")
                stack.append(_text(data[at:end], end - at))
                at = end
            elif op == 0x5D:  # EMPTY_LIST
                stack.append([])
            elif op == 0x65:  # APPENDS
                items, stack = stack, below.pop()
                _extend(stack[-1], items)
            elif op == 0x4D:  # BININT2
                stack.append(data[at] | data[at + 1] << 8)
                at += 2
            elif op == 0x4B:  # BININT1
                stack.append(data[at])
                at += 1
            elif op == 0x7D:  # EMPTY_DICT
                stack.append({})
            elif op == 0x75:  # SETITEMS
                items, stack = stack, below.pop()
                _update(stack[-1], items)
            elif op == 0x74:  # TUPLE
                items, stack = stack, below.pop()
                stack.append(tuple(items))
            elif op == 0x2E:  # STOP
                return stack[-1]
            else:
                at = self._rare(op, at, stack)
        raise ValueError(f"it has more than {OPCODES_MAX:,} opcodes")

    def _rare(self, op: int, at: int, stack: list[Any]) -> int:
        """Returns where the next opcode stands."""
        data = self._data
        match op:
            case 0x4E | 0x88 | 0x89 | 0x29:
                stack.append(_CONSTANTS[op])
            case 0x4A | 0x47:  # BININT, BINFLOAT
                form = "<i" if op == 0x4A else ">d"
                stack.extend(struct.unpack_from(form, data, at))
                at += struct.calcsize(form)
            case 0x8A:  # LONG1
                length = data[at]
                stack.append(int.from_bytes(data[at + 1 : at + 1 + length], "little", signed=True))
                at += 1 + length
            case 0x8C:  # SHORT_BINUNICODE
                stack.append(_text(data[at + 1 : at + 1 + data[at]], data[at]))
                at += 1 + data[at]
            case 0x85 | 0x86 | 0x87:  # TUPLE1, TUPLE2, TUPLE3
                items = stack[-_TUPLES[op] :]
                if len(items) != _TUPLES[op]:
                    raise IndexError
                stack[-len(items) :] = [tuple(items)]
            case 0x61:  # APPEND
                _extend(stack[-2], [stack.pop()])
            case 0x73:  # SETITEM
                value, key = stack.pop(), stack.pop()
                _update(stack[-1], [key, value])
            case 0x72 | 0x6A:  # LONG_BINPUT, LONG_BINGET
                (index,) = struct.unpack_from("<I", data, at)
                at += 4
                if op == 0x72:
                    self._memo[index] = stack[-1]
                else:
                    stack.append(self._memo[index])
            case 0x94:  # MEMOIZE
                self._memo[len(self._memo)] = stack[-1]
            case 0x80 | 0x95:  # PROTO, FRAME: nothing that this reader needs
                at += 1 if op == 0x80 else 8
            case _:
                raise ValueError(self._refusal(op, at, stack))
        return at

    def _refusal(self, op: int, at: int, stack: list[Any]) -> str:
        named = ""
        if op == 0x63:  # GLOBAL: two lines of text
            named = ".".join(part.decode("utf-8", "replace") for part in self._data[at : at + 200].split(b"\n")[:2])
        elif op == 0x93:  # STACK_GLOBAL: two strings
            named = ".".join(part[:100] for part in stack[-2:] if isinstance(part, str))
        return f"it names {named}, and a dump holds plain values only" if named else f"opcode {op:#04x} is that of no plain value"


def _text(raw: bytes, length: int) -> str:
    if len(raw) != length:
        raise IndexError
    return raw.decode("utf-8", "surrogatepass")


def _extend(top: Any, items: list[Any]) -> None:
    if type(top) is not list:
        raise TypeError
    top.extend(items)


def _update(top: Any, items: list[Any]) -> None:
    keys = items[::2]
    if type(top) is not dict or len(items) % 2 or not _KEYS.issuperset(map(type, keys)):
        raise TypeError
    top.update(zip(keys, items[1::2], strict=True))
