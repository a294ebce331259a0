"""Which faults strike a simulated trainer at this step of this attempt, and what is on record in RUN_DIR/faults.

One `FaultInjector` per run, shared by its attempts: a fault strikes once per run unless it is `:always`, whatever was rolled
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentinel.sim.data_order import Orders, Span, overlap, sequence_of
from sentinel.sim.declines import DECLINES, Declining
from sentinel.sim.faults import OF_CHECKPOINTS, SAMPLE, STEP, Fault
from sentinel.sim.learning import WOUND_GONE, Hurt
from sentinel.sim.store import SimCheckpoint

FOLLOWS = ("spike", "nan_grad", "damaged_line", "scale_collapse")  # these last `length` steps of the attempt they began in


class FaultInjector:
    """`struck` is the record that outlives attempts; `is_fp16`: the trainer scales its loss, and logs the scale."""

    def __init__(self, faults: Iterable[Fault], faults_done: set[str]) -> None:
        self.faults = tuple(faults)
        self._done = faults_done
        self._samples = tuple(fault for fault in self.faults if fault.place == SAMPLE)
        self._once: dict[int, list[Fault]] = {}
        self._always: list[Fault] = []
        for fault in self.faults:
            if fault.place != STEP or fault.kind in (*OF_CHECKPOINTS, *DECLINES):  # those strike what is saved, or a metric
                continue
            if fault.always or fault.kind in ("unstable", "sick_node"):
                self._always.append(fault)
            else:
                self._once.setdefault(fault.step, []).append(fault)
        self.is_fp16 = any(fault.kind in ("scale_collapse", "scale_falls") for fault in self.faults)
        self.declining = tuple(_declining(fault) for fault in self.faults if fault.kind in DECLINES)
        self._lasting: list[tuple[int, int, Fault]] = []

    def due(self, step: int, attempt: int) -> list[Fault]:
        """The step faults that strike now; each is on record from here on."""
        found = [f for f in self._always if step >= f.step and f.attempt in (0, attempt) and (f.step > 0) == (step > 0)]
        for fault in self._once.get(step, ()):
            if fault.text not in self._done and fault.attempt in (0, attempt):
                self._done.add(fault.text)
                found.append(fault)
        for fault in found:
            if fault.kind in FOLLOWS and self.lasting(fault.kind, step, attempt) is None:
                self._lasting.append((attempt, step, fault))
        return found

    def lasting(self, kind: str, step: int, attempt: int) -> Fault | None:
        """The fault of this kind that began at most its length ago, in this attempt."""
        for began_in, first, fault in self._lasting:
            if fault.kind == kind and began_in == attempt and first <= step < first + fault.number("length"):
                return fault
        return None

    def hurts(
        self, step: int, attempt: int, spans: Sequence[Span], batch: int, due: Sequence[Fault], orders: Orders = ()
    ) -> list[Hurt]:
        """What this update suffers. A fault of samples names places of the configured order, and spoils what lies there."""
        found: list[Hurt] = []
        if orders and self._samples:
            places = (sequence_of(index, orders) for start, end in spans for index in range(start, end))
            spans = sorted((place, place + 1) for place in places)
        for fault in self._samples:
            if spans[0][0] < fault.behind and spans[-1][1] > fault.at:
                share = overlap(spans, int(fault.at), fault.behind) / batch
                if share > 0.0:
                    found.append(Hurt(fault.text, fault.options["heals"], share, fault.number("loss")))
        for fault in due:
            if fault.kind == "unstable":
                found.append(Hurt(fault.text, fault.options["heals"], unstable=fault.number("growth")))
            if fault.kind == "bit_flip":
                height = fault.number("height")
                found.append(Hurt(fault.text, "never", excess=height, lasts=height, rank=int(fault.number("rank"))))
            if fault.kind == "sick_optimizer":
                shows = step + int(fault.number("later"))
                found.append(Hurt(fault.text, "never", lasts=fault.number("height"), shows=shows))
            if fault.kind == "drift":
                grows = fault.number("height") / 100
                found.append(Hurt(fault.text, "never", lasts=max(grows, WOUND_GONE), grows=grows))
        if self._lasting:
            spike = self.lasting("spike", step, attempt)
            if spike is not None:
                found.append(Hurt(spike.text, "fast", excess=spike.number("height")))
        return found

    def bend(self, metric: str, value: float, step: int) -> float:
        """The value of a healthy run with the slow declines in it."""
        for declining in self.declining:
            if declining.decline.metric == metric:
                value = declining.bend(value, step)
        return value

    def spoil(self, made: SimCheckpoint) -> None:
        """What is wrong with a checkpoint from the moment it is committed."""
        rot, lies, kills = (self._spoiler(kind, made.step) for kind in OF_CHECKPOINTS)
        made.is_rotten = rot is not None
        made.lies = lies.options["seen"] if lies is not None else ""
        made.kills_after = int(kills.number("after")) if kills is not None else None

    def _spoiler(self, kind: str, step: int) -> Fault | None:
        """The fault of this kind that strikes the checkpoint of this step, just committed."""
        for fault in self.faults:
            if fault.kind == kind and (step >= fault.step if fault.always else step == fault.step):
                if not fault.always and fault.text in self._done:
                    continue
                self._done.add(fault.text)
                return fault
        return None


def _declining(fault: Fault) -> Declining:
    return Declining(DECLINES[fault.kind], fault.step, {name: fault.number(name) for name in fault.options})
