"""What a run says: to the run directory through sentinel.client when it is supervised, and to people as plain lines."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from sentinel.client import Session
from trainer.statistics import UpdateStatistics

LINE_EVERY = 10  # steps between the lines for people
MANIFEST_METRICS = 20  # how many step lines a checkpoint's manifest repeats


class Telemetry:
    """Of one rank. Only rank 0 prints and writes the stream; every rank beats."""

    def __init__(self, session: Session | None, rank: int) -> None:
        self.session = session
        self.recent: deque[dict[str, Any]] = deque(maxlen=MANIFEST_METRICS)
        self._talks = rank == 0
        self._step = 0

    @staticmethod
    def clock() -> float:
        """Seconds, for intervals only."""
        return time.perf_counter()

    def phase(self, phase: str, step: int | None = None) -> None:
        """Beat. `step` is the one being worked on from here on."""
        self._step = self._step if step is None else step
        if self.session is not None:
            self.session.heartbeat(self._step, phase)

    def start(self, **receipt: Any) -> None:
        if self.session is not None:
            self.session.start(**receipt)
        self.say(f"start: {receipt['params']} parameters, {receipt['world_size']} ranks, from step {receipt['resume_step']}")

    def step(self, step: int, samples: list[list[int]], metrics: Mapping[str, Any], *, last: bool) -> None:
        self.recent.append({"step": step, "samples": samples, **metrics})
        if self.session is not None:
            self.session.step(step, samples=samples, **metrics)
        if step % LINE_EVERY == 0 or step == 1 or last or "val_loss" in metrics or metrics["skipped"]:
            shown = ("loss", "val_loss", "grad_norm", "lr", "step_time_s", "skipped")
            self.say(f"step {step}  " + "  ".join(f"{name} {metrics[name]:.4g}" for name in shown if name in metrics))

    def event(self, event: str, step: int, **fields: Any) -> None:
        if self.session is not None:
            self.session.event(event, step=step, **fields)
        self.say(f"{event} at step {step}: " + ", ".join(f"{key} {value}" for key, value in fields.items()))

    def end(self, step: int, reason: str) -> None:
        if self.session is not None:
            self.session.end(step, reason)
        self.say(f"end at step {step}: {reason}")

    def say(self, line: str) -> None:
        if self._talks:
            print(line, flush=True)


def metrics_of(statistics: UpdateStatistics, fp16: bool) -> dict[str, Any]:
    """The step line's numbers that come from the update: the one place of a step where the host waits for the device."""
    metrics: dict[str, Any] = dict(zip(statistics.names, statistics.values.tolist(), strict=True))
    metrics |= {name: int(metrics[name]) for name in ("skipped", "overflow", "nonfinite_count")}
    if not fp16:
        del metrics["loss_scale"], metrics["overflow"]
    return metrics
