"""However the bytes arrive, the readings are the same; and no bytes at all make a reader raise."""

import contextlib
import itertools
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.model.readings import Reading, Receipt, TrainerNote
from sentinel.run_files.stream_lines import parse_line
from sentinel.telemetry import tailed_file
from sentinel.telemetry.metrics_jsonl import MetricsStream

huge = st.sampled_from([2**53, -(2**64), 10**400, -(10**400)])
numbers = st.one_of(
    huge, st.integers(-10, 10**6), st.floats(allow_nan=False), st.sampled_from(["NaN", "Infinity", None, True, "x", [1]])
)
trees = st.recursive(
    numbers | st.sampled_from(["\ud800", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["lr_scale", "clip_norm", "\udfff"]), inner),
    max_leaves=8,
)
good_lines = st.one_of(
    st.fixed_dictionaries({"kind": st.just("step"), "step": st.integers(0, 10**6), "loss": numbers}),
    st.fixed_dictionaries({"kind": st.just("event"), "event": st.text(max_size=5), "step": numbers, "seconds": numbers}),
    st.fixed_dictionaries({"kind": st.just("start"), "effective": trees, "overrides": trees, "world_size": numbers}),
    st.fixed_dictionaries({"kind": st.sampled_from(["end", "start", "other"]), "step": numbers, "reason": st.text(max_size=3)}),
    st.fixed_dictionaries({"step": numbers, "samples": st.lists(st.lists(numbers, max_size=3), max_size=2)}),
).map(lambda fields: json.dumps(fields).encode() + b"\n")
pieces = st.one_of(good_lines, good_lines, st.binary(max_size=40), st.sampled_from([b"\n", b'{"step":1', b"\r\n", b"\0" * 8]))
contents = st.lists(pieces, max_size=80).map(b"".join)


def read_in_chunks(content: bytes, cuts: list[int]) -> list[Reading]:
    """Append the content cut at the given places, polling after each chunk until nothing more comes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attempts" / "0001" / "metrics.jsonl"
        path.parent.mkdir(parents=True)
        path.touch()
        stream = MetricsStream(Path(folder), 1)
        out: list[Reading] = []
        places = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
        for start, end in itertools.pairwise(places):
            with path.open("ab") as file:
                file.write(content[start:end])
            out += stream.poll(0.0)
            for _ in range(1000):
                if not stream.has_more:
                    break
                out += stream.poll(0.0)
            assert not stream.has_more
        out += stream.finish()
        stream.close()
        return [tell(reading).replace(folder, "") for reading in out]


def tell(reading: Reading) -> str:
    return repr(reading)  # NaN is not equal to itself, its text is


@settings(max_examples=150, deadline=None)
@given(content=contents, cuts=st.lists(st.integers(0, 10**6), max_size=12))
def test_any_chunks_give_the_readings_of_the_whole(content: bytes, cuts: list[int]) -> None:
    assert read_in_chunks(content, cuts) == read_in_chunks(content, [])


@settings(max_examples=75, deadline=None)
@given(content=contents, cuts=st.lists(st.integers(0, 10**6), max_size=6))
def test_the_same_holds_when_lines_may_be_too_long(content: bytes, cuts: list[int]) -> None:
    with mock.patch.object(tailed_file, "BLOCK_BYTES", 64):
        assert read_in_chunks(content, cuts) == read_in_chunks(content, [])


@settings(max_examples=250, deadline=None)
@given(line=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_no_bytes_make_the_parser_raise_anything_but_a_value_error(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_line(line, 1)


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from itertools.chain.from_iterable(leaves(item) for pair in value.items() for item in pair)
    elif isinstance(value, list):
        yield from itertools.chain.from_iterable(map(leaves, value))
    else:
        yield value


@settings(max_examples=150, deadline=None)
@given(line=good_lines)
def test_whatever_a_line_carries_can_be_computed_with_and_printed(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        reading = parse_line(line, 1)
        carried = {Receipt: ("effective", "overrides", "resume_digest"), TrainerNote: ("data", "event")}.get(type(reading), ())
        for leaf in itertools.chain.from_iterable(leaves(getattr(reading, name)) for name in carried):
            if isinstance(leaf, (int, float)):
                math.isfinite(leaf)
            assert repr(leaf).isascii() or repr(leaf).encode()


def test_what_a_receipt_carries_is_never_nested_past_what_can_be_walked() -> None:
    deep = b"[" * 900 + b"]" * 900
    reading = parse_line(b'{"kind":"start","effective":{"a":' + deep + b"}}", 1)
    assert isinstance(reading, Receipt)
    assert str(reading.effective).count("[") < 20
