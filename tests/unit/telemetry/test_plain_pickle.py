"""Plain values as Python and torch pickle them, and what a planted or damaged file may do: nothing."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from sentinel.telemetry.plain_pickle import read_plain_pickle

VALUES: dict[str, Any] = {
    "numbers": [0, 255, 256, 65_535, 65_536, -1, 2**40, -(2**70), 2.5, float("inf"), True, False, None],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((1,), [2])],
    "a" * 300: ["same text", "same text", "\u00e9\ud800", ""],
    "nested": {"empty": {}, "by number": {1: 2}, "lists": [[], [[]]]},
    "many": [f"text {number}" for number in range(400)],  # more than a byte counts
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_back(protocol: int) -> None:
    assert read_plain_pickle(pickle.dumps(VALUES, protocol)) == VALUES


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x80\x02cos\nsystem\n(X\x01\x00\x00\x00xtR.", r"it names os\.system, and a dump holds plain values only"),
        (pickle.dumps(OSError), r"it names builtins\.OSError"),
        (pickle.dumps({1, 2}), "opcode 0x8f is that of no plain value"),
        (b"\x80\x02Pid\n.", "opcode 0x50"),
        (b"\x80\x02}K\x01\x85K\x01s.", "damaged"),  # a tuple as a key: the hash of nested ones never ends
        (b"\x80\x02K\x01K\x02a.", "damaged"),
        (b"\x80\x02}(K\x01u.", "damaged"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "breaks off"),
        (b"\x80\x02X\x01\x00\x00\x00\xff.", "damaged"),
        (b"\x80\x02h\x07.", "damaged"),
        (b"\x80\x02]", "breaks off"),
        (b"", "breaks off"),
    ],
)
def test_what_is_more_than_plain_or_damaged_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_plain_pickle(data)


def test_the_number_of_opcodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.telemetry.plain_pickle.OPCODES_MAX", 50)
    with pytest.raises(ValueError, match="more than 50 opcodes"):
        read_plain_pickle(b"\x80\x02" + b"]](" * 100)
    with pytest.raises(ValueError, match="more than 50 opcodes"):
        read_plain_pickle(b"\x80\x02" + b"]" * 100)


def test_a_large_memo_index_takes_no_memory() -> None:
    """`pickle` allocates as many places as the index says, and twice that: 34 GB for these bytes."""
    assert read_plain_pickle(b"\x80\x02}r\xff\xff\xff\x7f.") == {}


def test_nested_tuples_are_not_unfolded() -> None:
    doubled = b"\x80\x02)q\x00" + b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(100))
    with pytest.raises(ValueError, match="damaged"):
        read_plain_pickle(doubled + b"}h\x64Ns.")


def test_damage_raises_nothing_but_value_error() -> None:
    whole = pickle.dumps(VALUES, 2)
    draw = random.Random(7)
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 2, 20))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            read_plain_pickle(bytes(data[: draw.randrange(1, len(data) + 1)]))
        except ValueError:
            continue
