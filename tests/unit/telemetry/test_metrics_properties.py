"""However the bytes arrive, the readings are the same; and no bytes at all make a reader raise."""

import contextlib
import itertools
import json
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.model.readings import Reading
from sentinel.telemetry import tailed_file
from sentinel.telemetry.metrics_jsonl import MetricsStream
from sentinel.telemetry.stream_lines import parse_line

numbers = st.one_of(
    st.integers(-10, 10**6), st.floats(allow_nan=False), st.sampled_from(["NaN", "Infinity", None, True, "x", [1]])
)
good_lines = st.one_of(
    st.fixed_dictionaries({"kind": st.just("step"), "step": st.integers(0, 10**6), "loss": numbers}),
    st.fixed_dictionaries({"kind": st.just("event"), "event": st.text(max_size=5), "step": numbers}),
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


@settings(max_examples=500, deadline=None)
@given(line=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_no_bytes_make_the_parser_raise_anything_but_a_value_error(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_line(line, 1)
