"""Records as the real writers make them, and read back by the reader of theirs."""

from __future__ import annotations

import doctest
import math
from pathlib import Path

import pytest

from sentinel.telemetry.event_records import FOOTER, HEADER, crc32c, masked, read_scalars
from sentinel.telemetry.metric_names import canonical
from sentinel.telemetry.tensorboard import RECORD_MAX_BYTES
from sentinel.tensorboard import charts, event_bytes, survivors
from sentinel.tensorboard.charts import MEGATRON, chart_name, layout
from sentinel.tensorboard.event_bytes import METRICS_MAX, RowEncoder, layout_record, part, text_record, version_record

GOLDEN = Path(__file__).parents[1] / "telemetry" / "golden"


def message(record: bytes) -> bytes:
    size, check = HEADER.unpack_from(record)
    assert (len(record), masked(crc32c(record[:8]))) == (size + 16, check)
    assert masked(crc32c(record[12:-4])) == FOOTER.unpack(record[-4:])[0]
    return record[12:-4]


def golden(writer: str) -> bytes:
    (path,) = (GOLDEN / writer).iterdir()
    return path.read_bytes()


def test_a_row_is_one_record_with_every_metric() -> None:
    data = message(RowEncoder().encode(300, 1.7e9, {"lm loss": 2.5, "grad-norm": math.inf, "höhe": -0.125}))
    assert read_scalars(data) == [(300, 1.7e9, "lm loss", 2.5), (300, 1.7e9, "grad-norm", math.inf), (300, 1.7e9, "höhe", -0.125)]


def test_a_row_of_one_metric_is_byte_for_byte_what_tensorboardx_writes() -> None:
    assert RowEncoder().encode(1, 1700000001.0, {"train/loss": 3.0}) in golden("tensorboardx")


def test_a_text_is_what_tensorboardx_writes_and_says_its_class() -> None:
    ours = message(text_record(20, 0.0, "t/text_summary", "words"))
    theirs = part(1, b"t/text_summary") + part(8, b"\x08\x07\x12\x04\x12\x02\x08\x01B\x05words")
    assert theirs in golden("tensorboardx")
    assert theirs in ours
    assert ours.endswith(part(1, part(1, b"text")) + b"\x20\x02")
    assert read_scalars(ours) == []


def test_the_version_is_what_every_writer_begins_with() -> None:
    begins = golden("tensorboardx")
    size, _ = HEADER.unpack_from(begins)
    assert message(version_record(0.0))[9:] == begins[12 : 12 + size][9:] == b"\x1a\rbrain.Event:2"


def test_the_layout_is_a_layout_of_custom_scalars() -> None:
    ours = message(layout_record(0.0, {"run": [("loss", ["^lm loss$"])]}))
    bare = b"\x12\x1a\x0a\x03run\x12\x13\x0a\x04loss\x12\x0b\x0a\x09^lm loss$"
    assert part(1, b"custom_scalars__config__") + part(8, b"\x08\x07\x12\x00" + part(8, bare)) in ours
    assert part(1, part(1, b"custom_scalars")) in ours
    first, second = layout()["run"][:2]
    assert (first[0], second[0]) == ("loss", "gradient norm")


@pytest.mark.parametrize("value", [1e300, -1e300, math.nan, 0.1, 2.0**53])
def test_what_float32_cannot_hold_is_the_nearest_it_can(value: float) -> None:
    ((_, _, _, told),) = read_scalars(message(RowEncoder().encode(1, 0.0, {"x": value})))
    assert (
        math.isnan(told)
        if math.isnan(value)
        else told == (math.copysign(math.inf, value) if abs(value) > 1e39 else pytest.approx(value))
    )


def test_odd_names_are_survived() -> None:
    encoder = RowEncoder()
    names = {"": 1.0, "  ": 1.0, "a\ud800b": 2.0, "x" * 500: 3.0, "loss": 4.0, " loss ": 5.0}
    told = read_scalars(message(encoder.encode(1, 0.0, names)))
    assert [(tag, value) for _, _, tag, value in told][1:] == [("x" * 200, 3.0), ("loss", 4.0)]
    assert encoder.encode(1, 0.0, {}) == b""
    assert encoder.encode(1, 0.0, {" ": 1.0}) == b""


def test_a_row_of_countless_metrics_stays_what_any_reader_takes() -> None:
    record = RowEncoder().encode(1, 0.0, {f"{n:0200d}": 1.0 for n in range(METRICS_MAX + 500)})
    assert len(read_scalars(message(record))) == METRICS_MAX
    assert len(record) < RECORD_MAX_BYTES


def test_every_name_of_a_chart_leads_back_to_its_metric() -> None:
    for metric in MEGATRON:
        assert canonical(chart_name(metric)) == metric
    assert len(set(MEGATRON.values())) == len(MEGATRON)


def test_the_examples_are_true() -> None:
    for module in (charts, event_bytes, survivors):
        assert doctest.testmod(module, extraglobs=vars(module)).failed == 0
