"""Event files, written here byte by byte: both ways of writing a scalar, both generations of tags, and every kind of damage."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sentinel.model.readings import StepReading
from sentinel.telemetry.event_records import FastScalars, crc32c
from sentinel.telemetry.log_reader import read_to_end
from sentinel.telemetry.tensorboard import EventLog, event_files
from tests.unit.telemetry.event_kit import event, file_version, part, record, scalar, tensor_scalar, varint

NAME = "events.out.tfevents.1700000000.host"


def write(folder: Path, *records: bytes, name: str = NAME) -> Path:
    path = folder / name
    path.write_bytes(file_version() + b"".join(records))
    return path


def read(path: Path) -> tuple[list[StepReading], EventLog]:
    log = EventLog(path)
    return list(read_to_end(log)), log


def test_the_checksum_is_the_published_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C (RFC 3720)
    assert crc32c(bytes(32)) == 0x8A9136AA


@pytest.mark.parametrize("step", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 2**28 - 1, 2**28, 2**33])
def test_the_fast_way_gives_what_the_slow_way_gives(tmp_path: Path, step: int) -> None:
    """The first record of a tag goes the slow way, the second the fast one, where there is one for such a step."""
    rows, log = read(write(tmp_path, scalar(step, "loss", 2.5, 1.7e9), scalar(step + 1, "loss", -0.125, 1.7e9 + 0.1)))
    assert [(row.step, row.metrics["loss"]) for row in rows] == [(step, 2.5), (step + 1, -0.125)]
    assert (rows[1].time_s, log.damaged) == (pytest.approx(1.7e9 + 0.1), 0)


def test_the_fast_way_reads_a_tag_it_has_learned() -> None:
    fast = FastScalars()
    first = scalar(300, "train/loss", 1.5)[12:-4]
    fast.learn(first, "train/loss", "train/loss")
    for step, value, wall_s in ((301, math.nan, 1.7e9), (16_000, math.inf, 1.8e9), (299, 0.1, 1.71e9), (3, 7.0, 0.0)):
        data = scalar(step, "train/loss", value, wall_s)[12:-4]
        assert fast.read(data) == (step, "train/loss")


@pytest.mark.parametrize("packed", [False, True])
def test_tensors_of_one_number_are_scalars_too(tmp_path: Path, packed: bool) -> None:
    rows, log = read(write(tmp_path, *(tensor_scalar(step, "loss", 2.0 + step, packed=packed) for step in range(1, 4))))
    assert [(row.step, row.metrics) for row in rows] == [(step, {"loss": 2.0 + step}) for step in range(1, 4)]
    assert log.damaged == 0


@pytest.mark.parametrize(
    ("loss", "norm", "samples"),
    [
        ("lm loss", "grad-norm", "lm loss vs samples"),
        ("lm-loss-training/lm loss", "grad-norm/grad-norm", "lm-loss-training/lm loss vs samples"),
    ],
    ids=["first", "second"],
)
def test_both_generations_of_megatron_tags(tmp_path: Path, loss: str, norm: str, samples: str) -> None:
    rows = [scalar(step * scale, tag, 2.0) for step in (1, 2, 3) for tag, scale in ((loss, 1), (samples, 512), (norm, 1))]
    found, _ = read(write(tmp_path, *rows))
    assert [(row.step, set(row.metrics)) for row in found] == [(step, {"loss", "grad_norm"}) for step in (1, 2, 3)]


@pytest.mark.parametrize("axis", ["samples", "tokens", "gigaflos"])
def test_a_curve_over_another_axis_is_no_step(tmp_path: Path, axis: str) -> None:
    """Megatron-DeepSpeed draws every curve over all of them; a token count taken for a step would be a log of two runs."""
    rows = [scalar(at, tag, 2.0) for step in (1, 2, 3) for tag, at in (("lm loss", step), (f"lm loss vs {axis}", step << 30))]
    found, _ = read(write(tmp_path, *rows))
    assert [row.step for row in found] == [1, 2, 3]


def test_tags_that_come_late_join_their_step(tmp_path: Path) -> None:
    rows, _ = read(write(tmp_path, scalar(1, "loss", 1), scalar(2, "loss", 2), scalar(1, "lr", 3), scalar(2, "lr", 4)))
    assert [(row.step, set(row.metrics)) for row in rows] == [(1, {"loss", "lr"}), (2, {"loss", "lr"})]


@pytest.mark.parametrize("place", ["length", "length check", "data", "data check"])
def test_a_flipped_byte_loses_one_record_and_is_said(tmp_path: Path, place: str) -> None:
    records = [scalar(step, "loss", float(step)) for step in range(1, 201)]
    hurt = bytearray(records[99])
    hurt[{"length": 1, "length check": 9, "data": 20, "data check": len(hurt) - 1}[place]] ^= 0x40
    rows, log = read(write(tmp_path, *records[:99], bytes(hurt), *records[100:]))
    assert [row.step for row in rows] == [step for step in range(1, 201) if step != 100]
    assert log.damaged == 1
    assert NAME in log.first_damage


def test_noise_between_records_is_passed_over(tmp_path: Path) -> None:
    noise = bytes((7 * index * index) % 251 for index in range(5000)) + bytes(300)
    rows, log = read(write(tmp_path, scalar(1, "loss", 1), noise, scalar(2, "loss", 2)))
    assert ([row.step for row in rows], log.damaged) == ([1, 2], 1)


def test_noise_over_the_end_of_a_block_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.telemetry.tensorboard.BLOCK_BYTES", 256)
    monkeypatch.setattr("sentinel.telemetry.tensorboard.RECORD_MAX_BYTES", 128)
    records = [scalar(step, "loss", float(step)) for step in range(1, 60)]
    rows, log = read(write(tmp_path, *records[:20], b"\xff" * 700, *records[20:]))
    assert ([row.step for row in rows], log.damaged) == ([*range(1, 60)], 1)


def test_pictures_are_passed_over_unread_and_text_is_no_metric(tmp_path: Path) -> None:
    picture = record(event(5, part(1, part(1, b"image") + part(4, bytes(3 << 20)))))
    text = record(event(6, part(1, part(1, b"text"))))
    rows, log = read(write(tmp_path, scalar(1, "loss", 1), picture, text, scalar(7, "loss", 2)))
    assert ([row.step for row in rows], log.damaged) == ([1, 7], 0)


def test_an_end_that_is_not_whole_is_said(tmp_path: Path) -> None:
    rows, log = read(write(tmp_path, scalar(1, "loss", 1), scalar(2, "loss", 2)[:-3]))
    assert ([row.step for row in rows], log.damaged) == ([1], 1)
    assert "not whole" in log.first_damage


def test_a_sound_record_that_is_no_event_is_damage(tmp_path: Path) -> None:
    strange = record(b"\x0b" * 40) + record(varint(5 << 3 | 2))
    rows, log = read(write(tmp_path, scalar(1, "loss", 1), strange, scalar(2, "loss", 1)))
    assert ([row.step for row in rows], log.damaged) == ([1, 2], 2)


def test_several_files_are_read_in_order_and_appends_to_an_older_one_are_not_lost(tmp_path: Path) -> None:
    old = write(tmp_path, scalar(1, "loss", 1), scalar(2, "loss", 1), name="events.out.tfevents.900.b")
    write(tmp_path, scalar(3, "loss", 1), name="events.out.tfevents.1000.a")
    (tmp_path / "notes.txt").write_text("no log")
    assert [path.name for path in event_files(tmp_path)] == ["events.out.tfevents.900.b", "events.out.tfevents.1000.a"]
    log = EventLog(tmp_path)
    assert [row.step for row in log.poll(0.0)] == [1, 2]
    with old.open("ab") as file:
        file.write(scalar(4, "loss", 1)[:10])
    assert log.poll(0.0) == []
    with old.open("ab") as file:
        file.write(scalar(4, "loss", 1)[10:] + scalar(5, "loss", 1))
    assert [row.step for row in log.poll(0.0)] == [3, 4]
    assert [row.step for row in log.finish()] == [5]
    assert log.damaged == 0
