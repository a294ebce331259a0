"""Numbers that are counted range by range, in any order, are counted as from the beginning to the end."""

from __future__ import annotations

import random
import struct

import pytest

from sentinel.checkpoints.tensors.floats import FORMATS
from sentinel.checkpoints.tensors.ranged import RangedCount
from sentinel.checkpoints.tensors.stretches import Count, Stretch, begin_count

KINDS = ("F64", "F32", "F16", "BF16", "F8_E4M3")


def told(count: Count) -> object:
    bad = sorted((one.stretch.name, one.nan, one.infinite, one.has_number, one.values) for one in count.bad)
    return count.values, bad, count.is_whole


def stretches(dice: random.Random, size: int) -> list[Stretch]:
    found = []
    for number in range(dice.randrange(1, 6)):
        kind = FORMATS[dice.choice(KINDS)]
        start = dice.randrange(size)
        end = start + (dice.randrange(size - start + 1) // kind.value_bytes) * kind.value_bytes
        found.append(Stretch(start, end, kind, f"t{number}"))
    return found


def counted(whole: Count, data: bytes, range_bytes: int, dice: random.Random) -> Count:
    parts = RangedCount(whole, range_bytes)
    numbers = list(range(-(-len(data) // range_bytes)))
    dice.shuffle(numbers)
    for number in numbers:
        if (part := parts.begin(number)) is None:
            continue
        start, end = number * range_bytes, min((number + 1) * range_bytes, len(data))
        if lead := parts.lead(number):
            part.feed(start - lead, data[start - lead : start])
        for at in range(start, end, 5):
            part.feed(at, data[at : min(at + 5, end)])
        parts.take(number, part)
    return parts.whole()


@pytest.mark.parametrize("seed", range(60))
def test_a_drawn_file_is_counted_alike(seed: int) -> None:
    dice = random.Random(seed)
    size = dice.randrange(1, 400)
    data = bytes(dice.choice((0, 0x7F, 0x80, 0xFF, 0xF8, 0x3F)) for _ in range(size))
    found = stretches(dice, size)
    plain = begin_count(found, size * 10)
    plain.feed(0, data)
    ranged = counted(begin_count(found, size * 10), data, dice.choice((16, 24, 31, 100)), dice)
    assert told(ranged) == told(plain)


def test_a_value_that_a_boundary_cuts_is_counted_once() -> None:
    data = b"xxx" + struct.pack("<6f", 1.0, 2.0, 3.0, float("nan"), float("inf"), 4.0)
    ranged = counted(begin_count([Stretch(3, 27, FORMATS["F32"], "w")], 27), data, 16, random.Random(0))
    assert told(ranged) == (6, [("w", 1, 1, True, 6)], True)


def test_a_range_that_was_not_read_leaves_its_tensor_unread() -> None:
    parts = RangedCount(begin_count([Stretch(0, 64, FORMATS["F32"], "w"), Stretch(64, 72, FORMATS["F32"], "b")], 72), 32)
    for number in (0, 2):
        part = parts.begin(number)
        assert part is not None
        part.feed(32 * number, bytes(32))
        parts.take(number, part)
    whole = parts.whole()
    assert not whole.is_whole
    assert whole.values == 2
