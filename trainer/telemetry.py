"""What a run reports: the stream of steps and events, in the run directory or beside the checkpoints, and plain lines for people.

The loop never waits for a number: they leave the device through `MetricsRing`, and a step's line is written once they have
arrived. All lines, printed ones too, come in the order of the calls. Heartbeats are the main thread's own.

    telemetry.begin(step); …; telemetry.loaded(); …; telemetry.measured(statistics.names, statistics.values)
    telemetry.step(step, samples, {"lr": 1e-3}, tokens=2048, seq_len=128, last=False)
    for done, metrics in telemetry.settled(): ...
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sentinel.client import Session, Stream
from sentinel.client.disk_trouble import is_of_disk

from .metrics_ring import MetricsRing
from .rates import ClipShare, Mfu, peak_memory_bytes

LINE_EVERY = 10  # steps between the lines for people
MANIFEST_METRICS = 20  # how many step lines a checkpoint's manifest repeats
STREAM_NAME = "metrics.jsonl"
UNSUPERVISED = 0  # the attempt number of a run without a supervisor
COUNTS = ("skipped", "overflow", "nonfinite_count", "nonfinite_activations", "nonfinite_logits")  # numbers that are counts
OF_FP16 = ("overflow", "loss_scale")
SHOWN = ("loss", "val_loss", "grad_norm", "lr", "step_time_s", "skipped")


class Telemetry:
    """Of one rank. Only rank 0 prints and writes the stream; every rank writes heartbeats and gets the numbers.

    A context manager: however the run ends, the lines that have arrived are written.
    """

    def __init__(
        self,
        session: Session | None,
        rank: int,
        root: Path,
        device: torch.device,
        *,
        fp16: bool,
        mfu: Mfu | None = None,
        ring: MetricsRing | None = None,
    ) -> None:
        """`root`: without a session the stream is kept there, appended to by every launch. `ring`: for tests."""
        self.session = session
        self.recent: deque[dict[str, Any]] = deque(maxlen=MANIFEST_METRICS)
        self.clipped = ClipShare()
        self._own_stream = Stream(root / STREAM_NAME, UNSUPERVISED) if session is None and rank == 0 else None
        self._stream: Session | Stream | None = session if session is not None else self._own_stream
        self._ring = ring if ring is not None else MetricsRing(device)
        self._device = device
        self._omitted = frozenset(() if fp16 else OF_FP16)
        self._mfu = mfu
        self._prints = rank == 0
        self._step = 0  # being worked on
        self._settled_step = 0
        self._arrived: deque[tuple[int, dict[str, Any]]] = deque()
        self._names: Sequence[str] = ()
        self._began_s = self._data_time_s = 0.0

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ring.abandon()
        if kind is not None and self._own_stream is not None and self._own_stream.is_begun:
            with contextlib.suppress(OSError):  # the error that ends the run is the one to report
                self._own_stream.end(self._step, "failed")

    @staticmethod
    def clock() -> float:
        """Seconds, for intervals only."""
        return time.perf_counter()

    def phase(self, phase: str, step: int | None = None) -> None:
        """Write a heartbeat. `step`: the step being worked on from here on."""
        self._step = self._step if step is None else step
        if self.session is not None:
            self.session.heartbeat(self._step, phase)

    # -- a step --------------------------------------------------------------------------------------------------------

    def begin(self, step: int) -> None:
        """A step begins, with its data. Waits where the device is a whole ring behind."""
        self._ring.begin()
        self._began_s = self.clock()
        self.phase("data", step)

    def loaded(self) -> None:
        """Its batch is there."""
        self._data_time_s = self.clock() - self._began_s

    def measured(self, names: Sequence[str], values: torch.Tensor) -> None:
        """Its update is enqueued, and these will be its numbers: float64 (len(names),) on the device."""
        self._names = names
        self._ring.fill(values)

    def step(
        self, step: int, samples: list[list[int]], more: Mapping[str, float], *, tokens: int, seq_len: int, last: bool
    ) -> None:
        """It is done. `more`: numbers the host knows itself. `tokens`: trained on, over all ranks; `seq_len`: in one sequence."""
        names, known = self._names, {**more, "data_time_s": self._data_time_s}

        def on_arrival(numbers: list[float], seconds: float) -> None:
            metrics = self._metrics(names, numbers)
            metrics |= self._derived(metrics, seconds, tokens, seq_len)
            metrics |= known
            self._write_step(step, samples, metrics, last)

        self._settled_step = max(self._settled_step, step - self._ring.lag)
        self._ring.send(on_arrival)

    def settled(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The steps not given out yet whose numbers every rank has by now: up to the newest on a CPU, a ring behind on a GPU, all
        of them after `drain`. Each once, in order; the same on every rank, so that all decide alike."""
        while self._arrived and self._arrived[0][0] <= self._settled_step:
            yield self._arrived.popleft()

    def drain(self) -> None:
        """Wait until every line is written. On every rank at the same step, or `settled` would differ."""
        self._ring.drain()
        self._settled_step = max(self._settled_step, self._arrived[-1][0] if self._arrived else 0)

    # -- what a checkpoint keeps ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """For a manifest: the last step lines without per-layer metrics, and the window of clip_fraction."""
        self.drain()
        recent = [{name: value for name, value in line.items() if "/" not in name} for line in self.recent]
        return {"recent": recent, "clipped": self.clipped.state()}

    def restore(self, manifest: Mapping[str, Any]) -> None:
        self.recent.clear()
        self.recent.extend(manifest.get("recent", []))
        self.clipped.restore(manifest.get("clipped", ""))

    # -- lines that are no steps ---------------------------------------------------------------------------------------

    def start(self, **receipt: Any) -> None:
        words = f"start: {receipt['params']} parameters, {receipt['world_size']} ranks, from step {receipt['resume_step']}"
        receipt |= {"overrides": {}} if self.session is None else {}
        self._post(lambda stream: stream.start(**receipt), words)

    def event(self, event: str, step: int, **fields: Any) -> None:
        words = f"{event} at step {step}: " + ", ".join(f"{key} {value}" for key, value in fields.items())
        self._post(lambda stream: stream.event(event, step=step, **fields), words)

    def end(self, step: int, reason: str) -> None:
        """The last line, on disk when this returns."""
        self._post(lambda stream: stream.end(step, reason), f"end at step {step}: {reason}")
        self._ring.close()

    def log(self, line: str) -> None:
        self._ring.post(lambda: self._print(line))

    def _post(self, write: Callable[[Any], None], words: str) -> None:
        def act() -> None:
            if self._stream is not None:
                write(self._stream)
            self._print(words)

        self._ring.post(act)

    def _print(self, line: str) -> None:
        if not self._prints:
            return
        try:
            print(line, flush=True)
        except OSError as error:  # a log on a full disk ends no run; a reader that has gone does, as ever
            if not is_of_disk(error):
                raise

    # -- when the numbers have arrived ---------------------------------------------------------------------------------

    def _metrics(self, names: Sequence[str], numbers: Sequence[float]) -> dict[str, Any]:
        metrics: dict[str, Any] = dict(zip(names, numbers, strict=True))
        for name in self._omitted:
            metrics.pop(name, None)
        for name in COUNTS:
            if name in metrics:
                metrics[name] = int(metrics[name])
        return metrics

    def _derived(self, metrics: Mapping[str, Any], seconds: float, tokens: int, seq_len: int) -> dict[str, float]:
        rate = tokens / seconds
        derived = {"tokens_per_s": rate, "step_time_s": seconds, "clip_fraction": self.clipped.take(metrics["clip_coef"])}
        if self._mfu is not None:
            derived["mfu"] = self._mfu(rate, seq_len)
        if self._prints:
            derived["peak_memory_bytes"] = peak_memory_bytes(self._device)
        return derived

    def _write_step(self, step: int, samples: list[list[int]], metrics: dict[str, Any], last: bool) -> None:
        self.recent.append({"step": step, "samples": samples, **metrics})
        self._arrived.append((step, metrics))
        if self._stream is not None:
            self._stream.step(step, samples=samples, **metrics)
        if step % LINE_EVERY == 0 or step == 1 or last or "val_loss" in metrics or metrics["skipped"]:
            self._print(f"step {step}  " + "  ".join(f"{name} {metrics[name]:.4g}" for name in SHOWN if name in metrics))
