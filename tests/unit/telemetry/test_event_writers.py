"""Event files of the real writers (golden/README.md), and large records between the scalars."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from sentinel.model.readings import Receipt, StepReading
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import LogReader, read_to_end
from sentinel.telemetry.rewind import Rewind
from tests.unit.telemetry.event_kit import event, file_version, part, record, scalar

GOLDEN = Path(__file__).parent / "golden"


def read(place: Path) -> tuple[list[StepReading], LogReader]:
    found, reader = open_log(place)
    assert found == "tensorboard"
    return list(read_to_end(reader)), reader


@pytest.mark.parametrize(
    ("writer", "second"),
    [("tensorboardx", "grad_norm"), ("torch", "grad_norm"), ("torch_new_style", "lr"), ("tensorboard_writer", "grad_norm")],
)
def test_every_writer_is_understood(writer: str, second: str) -> None:
    rows, reader = read(GOLDEN / writer)
    rows = [row for row in rows if "loss" in row.metrics]
    assert (reader.damaged, [row.step for row in rows]) == (0, list(range(1, 41)))
    for row in rows:
        assert row.metrics["loss"] == pytest.approx(2 + 1 / row.step)
        assert row.metrics[second] == pytest.approx(0.5 / row.step)
        assert row.time_s == 1.7e9 + row.step


def test_what_stands_beside_the_scalars_is_left_out() -> None:
    rows, _ = read(GOLDEN / "tensorboardx")
    assert math.isnan(rows[19].metrics["val_loss"])
    assert set(rows[19].metrics) == {"loss", "grad_norm", "val_loss"}
    rows, _ = read(GOLDEN / "torch")
    assert max(row.step for row in rows) == 40  # `vs samples` are no steps
    assert [row.metrics["val_loss"] for row in rows if "val_loss" in row.metrics] == [2.5]


def test_a_flipped_byte_costs_one_value_and_is_counted(tmp_path: Path) -> None:
    (source,) = (GOLDEN / "torch_new_style").iterdir()
    data = bytearray(source.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / source.name).write_bytes(data)
    rows, reader = read(tmp_path)
    assert reader.damaged == 1
    assert sum(len(row.metrics) for row in rows) >= 78


def test_a_run_restarted_in_a_new_file_falls_back_and_goes_on() -> None:
    rows, _ = read(GOLDEN / "restart")
    assert [row.step for row in rows] == [*range(1, 41), *range(26, 66)]
    told = list(Rewind().follow(rows))
    (receipt,) = (one for one in told if isinstance(one, Receipt))
    assert (receipt.resume_step, receipt.history[-1].step) == (25, 25)


def test_the_files_of_several_writers_in_one_place_are_read_oldest_first(tmp_path: Path) -> None:
    for number, writer in enumerate(("tensorboardx", "tensorboard_writer"), 1):
        (source,) = (GOLDEN / writer).iterdir()
        shutil.copy(source, tmp_path / f"events.out.tfevents.{number}.host")
    rows, reader = read(tmp_path)
    assert (reader.damaged, len(rows)) == (0, 80)
    rewind = Rewind()
    assert not [one for one in rewind.follow(rows) if isinstance(one, Receipt)]
    assert rewind.repeated == 40


def test_pictures_of_megabytes_are_passed_over(tmp_path: Path) -> None:
    picture = record(event(2, part(1, part(1, b"image") + part(4, bytes(3_000_000)))))
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(file_version() + b"".join(scalar(step, "loss", float(step)) + picture for step in (1, 2, 3)))
    rows, reader = read(path)
    assert (reader.damaged, [row.metrics["loss"] for row in rows]) == (0, [1.0, 2.0, 3.0])
