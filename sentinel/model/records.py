"""What is read from files and judged elsewhere: two attempts compared (evidence of a diagnosis), and what an inspection found of
single samples. What is read of one checkpoint stands in `saved`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentinel.model.attempts import SampleRange
from sentinel.model.readings import CheckpointReading

Cause = Literal["data", "hardware", "transient", "unknown"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Attributes:
    compared: steps that both attempts recorded, counted up to the first difference. 0: nothing can be said.
    differs_at: the first step at which a number (or the data trained on) differs; None when all are equal to the bit.
    metric, before, now: the first differing number there; metric `samples` when the data was not the same.
    ranks: ranks whose own statistics differ at that step; empty when the trainer writes none.
    """

    compared: int
    differs_at: int | None = None
    metric: str = ""
    before: float = 0.0
    now: float = 0.0
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a repetition proved. `ranks`: whom the evidence blames."""

    cause: Cause
    reason: str
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundCheckpoints:
    """Every committed checkpoint of the run, by rising step."""

    checkpoints: tuple[CheckpointReading, ...]


@dataclass(frozen=True, slots=True)
class SampleSeen:
    """One sample as an inspection measured it: mean loss in nats, L2 norm of its own gradient (None: not computed), and where
    a person finds its text; `offset` is in the trainer's own units, bytes for the bundled one."""

    index: int
    loss: float
    grad_norm: float | None = None
    shard: str = ""
    offset: int | None = None


Verdict = Literal["guilty", "nobody", "failed"]


@dataclass(frozen=True, slots=True)
class Attribution:
    """What an inspection came to. `ranges`: the guilty samples, few enough to be skipped one by one; empty unless guilty.
    `attempt`: whose samples.jsonl holds the numbers. `suspect`: the samples that could have been found guilty."""

    verdict: Verdict
    reason: str
    attempt: int
    suspect: SampleRange | None = None
    ranges: tuple[SampleRange, ...] = ()
    guilty: int = 0
    inspected: int = 0


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy that may act on this run, as it was read. `path`: its file. `digest`: of its text. `named`, `named_digest`: the
    file that the supervisor's command line names, and its digest; empty where it names none."""

    path: str
    digest: str
    name: str
    named: str = ""
    named_digest: str = ""
