"""A value that is no number is left out of its line, is told once for its name, and ends no training."""

from __future__ import annotations

import json
import threading
from decimal import Decimal

import numpy
import pytest
import torch

from sentinel.client import Session, Spec, Stream
from sentinel.client.torch import reporting
from tests.unit.client.attached_kit import Loop, lines


class Hostile:
    """Raises whatever is asked of it."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __float__(self):
        raise MemoryError("not today")


NO_NUMBERS = {
    "none": (None, "is None"),
    "text": ("good", "is the text 'good'"),
    "list": ([1.0], "is a list"),
    "vector": (torch.zeros(2), "of shape (2,); reduce it"),
    "empty": (torch.zeros(0), "of shape (0,); reduce it"),
    "array": (numpy.zeros(3), "of shape (3,); reduce it"),
    "meta": (torch.ones((), device="meta"), "is a Tensor that gives no number"),
    "complex": (1j, "is a complex"),
    "complex_tensor": (torch.tensor(1j), "is a Tensor"),
    "hostile": (Hostile(), "is a Hostile that gives no number"),
    "huge": (10**400, "too large for a float"),
    "endless": (10**5000, "too large for a float"),
}
NUMBERS = {
    "bool": (True, 1),
    "numpy": (numpy.float32(0.5), 0.5),
    "half": (torch.tensor(0.5, dtype=torch.float16), 0.5),
    "with_gradient": (torch.ones((), requires_grad=True) * 2, 2.0),
    "decimal": (Decimal("0.5"), 0.5),
    "nan": (float("nan"), "NaN"),
    "word": ("-Infinity", "-Infinity"),
}


def remarks(path):
    return [line["reason"] for line in lines(path, "event") if line["event"] == "remark"]


def steps(path):
    return lines(path, "step")


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path, Spec(attempt=1))


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_an_attached_loop_goes_on_and_the_rest_of_its_line_is_written(tmp_path, name, capfd):
    value, why = NO_NUMBERS[name]
    run = Loop(out_dir=tmp_path).run
    for step in (1, 2):
        run.step = step
        run.log(loss=1.0, val_loss=value)
    assert run._reporter.drain(20)
    rows = steps(tmp_path / "metrics.jsonl")
    assert [row["loss"] for row in rows] == [1.0, 1.0]
    assert all("val_loss" not in row for row in rows)
    (told,) = remarks(tmp_path / "metrics.jsonl")
    assert told.startswith("val_loss")
    assert why in told
    assert capfd.readouterr().err.count("val_loss") == 1, "and where a person looks, once"


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_so_does_a_trainer_with_a_plain_session(session, name, capfd):
    value, why = NO_NUMBERS[name]
    session.step(1, loss=1.0, val_loss=value)
    session.step(2, loss=1.0, val_loss=value)
    rows = steps(session.metrics_path)
    assert [sorted(row) for row in rows] == [["kind", "loss", "step", "time_s"]] * 2
    (told,) = remarks(session.metrics_path)
    assert why in told
    assert capfd.readouterr().err.count("val_loss") == 1


@pytest.mark.parametrize("name", NUMBERS)
def test_whatever_stands_for_one_number_is_written(session, tmp_path, name):
    value, written = NUMBERS[name]
    session.step(1, loss=value)
    run = Loop(out_dir=tmp_path / "own").run
    run.log(loss=value)
    assert run._reporter.drain(20)
    for path in (session.metrics_path, tmp_path / "own/metrics.jsonl"):
        assert [row["loss"] for row in steps(path)] == [written]
        assert not remarks(path)


def test_a_name_that_every_line_has_is_left_out_and_told(session, tmp_path):
    """Written, it would have made the line another one: of another kind, of another step."""
    session.step(1, loss=1.0, kind=3.0)
    run = Loop(out_dir=tmp_path / "own").run
    run.step = 1
    run.log(step=7, loss=1.0, kind=2.0)
    assert run._reporter.drain(20)
    for path in (session.metrics_path, tmp_path / "own/metrics.jsonl"):
        assert [(row["step"], row["loss"]) for row in steps(path)] == [(1, 1.0)]
        assert all("a name that a line has already" in told for told in remarks(path))
    assert len(remarks(tmp_path / "own/metrics.jsonl")) == 2


def test_no_field_of_an_event_makes_it_a_line_of_another_kind(session):
    session.event("mine", step=3, kind="step")
    assert [line["event"] for line in lines(session.metrics_path, "event")] == ["mine", "remark"]
    assert steps(session.metrics_path) == []


@pytest.mark.parametrize("number", [numpy.int64, numpy.uint32, torch.tensor])
def test_steps_and_samples_may_be_whole_numbers_of_the_libraries(session, number):
    """A loop that counts with numpy trained on until its first line, and ended there."""
    session.heartbeat(number(7), "data")
    session.step(number(7), loss=1.0, samples=[[number(0), number(8)]])
    session.event("mine", step=number(7))
    session.record_exit(1, step=number(7))
    (row,) = steps(session.metrics_path)
    assert (row["step"], row["samples"]) == (7, [[0, 8]])
    assert lines(session.metrics_path, "event")[0]["step"] == 7
    for path in (session.heartbeat_path, session.exit_path):
        assert json.loads(path.read_text())["step"] == 7


def test_samples_that_are_none_are_left_out(session):
    session.step(1, loss=1.0, samples=[[0, None]])
    (row,) = steps(session.metrics_path)
    assert (row["loss"], "samples" in row) == (1.0, False)
    assert "samples of the metrics are no ranges" in remarks(session.metrics_path)[0]


def test_a_value_that_is_none_in_each_step_waits_once_behind_a_disk_that_stands_still(tmp_path):
    goes_on = threading.Event()
    reporter = reporting.Reporter(Stream(tmp_path / "m.jsonl", 1), None)
    reporter.post(lambda stream: goes_on.wait(20))
    for step in range(reporting.LINES_MAX + 100):
        reporter.step(step, lambda: None, {"loss": 1.0, "val_loss": None})
    waiting = reporter._queue.qsize()
    goes_on.set()
    assert waiting <= reporting.LINES_MAX
    assert reporter.drain(20)
    assert len(remarks(tmp_path / "m.jsonl")) == 1
    reporter.close(20)


def test_what_could_not_be_put_together_is_not_asked_again_by_one_rank_alone(tmp_path):
    class Sharded:
        asked = 0

        def full_tensor(self):
            self.asked += 1
            raise RuntimeError("a rank is gone")

    value = Sharded()
    reporter = reporting.Reporter(Stream(tmp_path / "m.jsonl", 1), None)
    reporter.step(1, lambda: None, {"loss": 1.0, "norm": reporting.whole(value)})
    assert reporter.drain(20)
    assert value.asked == 1
    assert "cannot be put together from its ranks (RuntimeError: a rank is gone)" in remarks(tmp_path / "m.jsonl")[0]
    reporter.close(20)


def test_names_without_end_do_not_fill_a_disk(tmp_path, capfd):
    stream = Stream(tmp_path / "m.jsonl", 1)
    for step in range(200):
        stream.step(step, **{f"loss_of_{step}": None})
    assert len(remarks(tmp_path / "m.jsonl")) == 64
    assert capfd.readouterr().err.count("training goes on") == 64


def test_an_event_holds_what_json_can_hold(session):
    session.event("mine", step=3, place="here", thing=object())
    mine, told = lines(session.metrics_path, "event")
    assert (mine["place"], "thing" in mine) == ("here", False)
    assert told["reason"].startswith("thing of the event mine is a object that JSON cannot hold")


class Sparse(torch.Tensor):
    is_cuda = True


class Refuses:
    """Room for the numbers of a step that takes none."""

    def copy(self, numbers):
        raise RuntimeError("no strides")


def test_a_tensor_that_cannot_be_copied_from_its_device_costs_its_number_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "Slot", Refuses)
    reporter = reporting.Reporter(Stream(tmp_path / "m.jsonl", 1), None)
    for step in (1, 2):
        reporter.step(step, lambda: None, {"loss": 1.0, "norm": torch.ones(()).as_subclass(Sparse)})
    assert reporter.drain(20)
    assert [sorted(row) for row in steps(tmp_path / "m.jsonl")] == [["kind", "loss", "step", "time_s"]] * 2
    assert len(remarks(tmp_path / "m.jsonl")) == 1
    reporter.close(20)


def test_a_value_that_was_left_out_does_not_come_back_with_those_of_a_device(tmp_path, monkeypatch):
    class Room:
        def copy(self, numbers):
            self.held = {name: float(one.as_subclass(torch.Tensor)) for name, one in numbers.items()}

        def read(self, names):
            return self.held

    monkeypatch.setattr(reporting, "Slot", Room)
    reporter = reporting.Reporter(Stream(tmp_path / "m.jsonl", 1), None)
    reporter.step(1, lambda: None, {"val_loss": None, "loss": torch.ones(()).as_subclass(Sparse)})
    assert reporter.drain(20)
    (row,) = steps(tmp_path / "m.jsonl")
    assert json.dumps(row["loss"]) == "1.0"
    assert "val_loss" not in row
    reporter.close(20)
