"""What a simulated person asks: the `ask` fault as a wish."""

from __future__ import annotations

from sentinel.model import operator_requests as w
from sentinel.model.attempts import Overrides, SampleRange
from sentinel.model.readings import RequestReading
from sentinel.sim.faults import Fault


def wish_of(fault: Fault) -> RequestReading:
    to, until = int(fault.number("to")), int(fault.number("until")) or None
    wishes: dict[str, w.OperatorRequest] = {
        "pause": w.Pause(),
        "resume": w.Resume(),
        "hold": w.Hold(),
        "rollback": w.RollBack(to),
        "set": w.Change(Overrides(lr_scale=0.5), ("lr_scale",), until),
        "clip": w.Change(Overrides(clip_norm=0.5), ("clip_norm",), until),
        "ack": w.Acknowledge(to),
        "resolve": w.Resolve(to),
        "note": w.Remark("a word for the record"),
        "skip": w.LeaveOut(SampleRange(to, to + max(1, int(fault.number("length"))))),
    }
    return RequestReading(fault.text, "a person", wishes[fault.options["what"]])
