"""One log through the engine: the engine that supervises live runs, in observe-only mode, as fast as it can.

No clock is read: session time is the log's own where it has times, else one second a row. What a log cannot show is not judged:
heartbeats, exits and receipts are not in it, so hangs, crashes and mismatches are not found here. Where the log's steps fall back
(a run that was resumed and went on writing into the same log), the engine gets the receipt of a relaunch with the surviving past,
as telemetry gives it for a live run.

    result = replay_file(Path("train.csv"), load_policy(shipped_policy_path("default")))
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from sentinel.detectors.reference import Reference
from sentinel.detectors.registry import DETECTORS
from sentinel.engine import Engine
from sentinel.errors import SentinelError
from sentinel.model.events import ActionDone, Event, SupervisorStarted
from sentinel.model.facts import ActionDecided, Fact
from sentinel.model.readings import Receipt, StepReading
from sentinel.policy.schema import Policy
from sentinel.replay.findings import Collector, ReplayFinding, ReplayResult
from sentinel.streams.curve import Curve
from sentinel.telemetry.log_formats import UnreadableLog, open_log
from sentinel.telemetry.log_reader import ATTEMPT, read_to_end
from sentinel.telemetry.rewind import Rewind
from sentinel.telemetry.source import describe_os_error

DRAWN = ("loss", "grad_norm")  # metrics
NAMES_ROWS = 1000  # of a log without a loss: of so many rows the names are told
COLLECTED_AFTER = 50_000  # allocations: rows hold no cycles, and looking for some takes a twentieth of the time


class Replay:
    """An engine that believes it watches attempt 1 of a run, and may change nothing."""

    def __init__(self, result: ReplayResult, policy: Policy, reference: Reference | None = None) -> None:
        self.result = result
        self._engine = Engine(_of_a_log(policy), reference)
        self._collector = Collector(result)
        self._now_s = 0.0
        name, started = policy.metadata.name, f"start/{ATTEMPT}"
        self._rewind = Rewind()
        self._tell(SupervisorStarted(1, "replay", 0, "replay", ("replay",), "/", name, "0" * 64, True))
        assert started in self._engine.state.pending or self._engine.watched == ATTEMPT, "the replay's attempt was not launched"
        self._tell(Receipt(ATTEMPT, 0.0, 0, None, 1, {}, {}))

    def read(self, readings: Iterable[StepReading]) -> list[ReplayFinding]:
        """Feed rows in order; the findings that are new or changed."""
        touched: list[ReplayFinding] = []
        engine, result = self._engine, self.result
        now_s, rows, step, has_loss = self._now_s, result.rows, result.last_step, result.has_loss
        try:
            for reading in self._rewind.follow(readings):
                if isinstance(reading, Receipt):
                    self._now_s = now_s
                    self._relaunched(reading)
                    continue
                rows += 1
                if not has_loss:
                    has_loss = "loss" in reading.metrics
                    if rows < NAMES_ROWS:
                        result.metrics.update(reading.metrics)
                step, time_s = reading.step, reading.time_s
                now_s = time_s if time_s > now_s else now_s + 1e-3 if time_s else now_s + 1.0
                facts = engine.handle(now_s, reading)
                if facts:
                    self._now_s = now_s
                    touched += self._collector.take(facts, step)
                    self._confirm(facts)
                if result.first_step is None:
                    result.first_step = step
        finally:  # also of a log that cannot be read to its end
            self._now_s, result.rows, result.last_step, result.repeated = now_s, rows, step, self._rewind.repeated
            result.has_loss, result.counts_epochs = has_loss, self._rewind.counts_epochs
        return touched

    def _relaunched(self, receipt: Receipt) -> None:
        """Findings are known by attempt and step, and here all is one attempt: what comes at a step that comes again is new."""
        self._engine.state = replace(self._engine.state, findings=())
        self._tell(receipt)

    def _tell(self, event: Event) -> None:
        self._confirm(self._engine.handle(self._now_s, event))

    def _confirm(self, facts: tuple[Fact, ...]) -> None:
        """Whatever was decided counts as done: the launch of the run that was, and pages to nobody."""
        for fact in facts:
            if isinstance(fact, ActionDecided):
                self._tell(ActionDone(fact.action.key, "replayed"))


def _of_a_log(policy: Policy) -> Policy:
    """The policy without the detectors that judge by what no log has. Nothing asks them here, and two would look at every row."""
    detectors = policy.spec.detectors
    unseen = (row.name for row in DETECTORS if row.settings is not None and row.source != "metrics")
    off = {name: replace(getattr(detectors, name), enabled=False) for name in unseen}
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"detectors": detectors.model_copy(update=off)})})


def replay_file(
    path: Path,
    policy: Policy,
    format: str = "auto",
    file: str | None = None,
    draw: bool = False,
    reference: Reference | None = None,
) -> ReplayResult:
    """What would have been found in this log. Never raises for what stands in it: see `ReplayResult.error`.

    `draw`: keep the curves of loss and gradient norm as well. `reference`: the run that `behind_reference` compares with.
    """
    result = ReplayResult(file if file is not None else str(path))
    usual = gc.get_threshold()
    gc.set_threshold(max(COLLECTED_AFTER, usual[0]), *usual[1:])
    try:
        result.format, reader = open_log(path, format)
        replay = Replay(result, policy, reference)
        readings = read_to_end(reader)
        replay.read(_drawn(readings, result) if draw else readings)
        result.damaged, result.first_damage, result.remark = reader.damaged, reader.first_damage, reader.remark
        if not result.rows:
            other = "" if format != "auto" else "; if it is of another format, name that with --format"
            result.error = f"{result.file}: read as {result.format}, and not one step in it{other}"
            result.unrecognised = True
    except SentinelError as error:
        result.error = error.message
        result.unrecognised = isinstance(error, UnreadableLog)
    except OSError as error:
        result.error = f"{describe_os_error(error, path)}"
    finally:
        gc.set_threshold(*usual)
    return result


def _drawn(readings: Iterable[StepReading], result: ReplayResult) -> Iterator[StepReading]:
    """The readings, while the curves that a replayed log is drawn from are kept."""
    curves = {name: Curve() for name in DRAWN}
    for reading in readings:
        for name, curve in curves.items():
            value = reading.metrics.get(name)
            if value is not None:
                curve.add(reading.step, value)
        yield reading
    result.curves = {name: curve.buckets for name, curve in curves.items()}
