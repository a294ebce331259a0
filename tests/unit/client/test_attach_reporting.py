"""Numbers on a device: taken as they are at `log`, read when they have arrived, and never waited for. With a simulated device."""

from __future__ import annotations

import threading

import torch

from sentinel.client.stream import Stream
from sentinel.client.torch import reporting
from tests.unit.client.attached_kit import lines


class Far(torch.Tensor):
    """A number on a device."""

    is_cuda = True


class FarSlot:
    """Of a device whose copies arrive when `arrived` is set."""

    arrived = threading.Event()
    made = 0

    def __init__(self):
        FarSlot.made += 1

    def copy(self, numbers):
        self._held = {name: float(number.as_subclass(torch.Tensor)) for name, number in numbers.items()}

    def read(self, names):
        assert self.arrived.wait(20)
        return {name: self._held[name] for name in names}


def test_a_number_of_a_device_is_taken_at_once_and_written_when_it_has_arrived(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "Slot", FarSlot)
    reporter = reporting.Reporter(Stream(tmp_path / "m.jsonl", 1), None)
    total = torch.tensor(1.0).as_subclass(Far)
    for step in range(1, 6):
        reporter.step(step, lambda: None, {"loss": total, "lr": 0.1})
        total.add_(1.0)  # a program may go on with the same tensor
    assert not (tmp_path / "m.jsonl").exists(), "the loop has gone on, and the device has answered nothing"
    FarSlot.arrived.set()
    assert reporter.drain(20)
    assert [(line["step"], line["loss"]) for line in lines(tmp_path / "m.jsonl")] == [(n, float(n)) for n in range(1, 6)]
    made = FarSlot.made
    reporter.step(6, lambda: None, {"loss": total})
    assert reporter.drain(20)
    assert FarSlot.made == made, "room that is free is used again"
    reporter.close(20)


def test_a_device_that_never_answers_costs_lines_and_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "Slot", FarSlot)
    monkeypatch.setattr(FarSlot, "arrived", threading.Event())
    reporter = reporting.Reporter(Stream(tmp_path / "m.jsonl", 1), None)
    loss = torch.tensor(1.0).as_subclass(Far)
    for step in range(1, reporting.SLOTS_MAX + 11):
        reporter.step(step, lambda: None, {"loss": loss})
    assert reporter.dropped == 10
    FarSlot.arrived.set()
    assert reporter.drain(20)
    reporter.step(100, lambda: None, {"loss": loss})
    assert reporter.drain(20)
    assert lines(tmp_path / "m.jsonl", "event")[0]["count"] == 10, "what is missing is said"
    reporter.close(20)
