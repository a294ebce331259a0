"""Names and numbers in a printed line: `loss: 2.5`, `grad norm = 0.7`, `memory: 21.0GiB`, `tps: 12,345`, `mfu 31.2%`.

A line is read in plain form (`plain_line`): no colours, no quotes and braces, one blank between words. What a number means
depends on its unit: a time in milliseconds is the seconds of a step, memory is bytes, and an MFU in per cent is a share. A number
whose unit says nothing to Sentinel is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sentinel.telemetry.metric_names import LOSSES, canonical

NUMBER = (
    rb"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?:nan|inf(?:inity)?)(?!\w))"
)
_PAIR = re.compile(
    rb"(?<![\w/.\-])([a-z][\w/.\-]{0,99}(?: (?:loss|norm|rate|scale|time|in s))?) ?[:= ] ?"
    rb"(" + NUMBER + rb")(%|[kmgt]i?b| ?ms|s|k|m|b)?(?![\w.]|[:\-]\d|,\d{3}(?!\d))",
    re.IGNORECASE,
)
_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_QUOTES = bytes.maketrans(b"\"'{}", b"    ")
_HELD_OUT = re.compile(rb"(?<![\w/.\-])(?:valid(?:at(?:ion|e|ing))?|val|eval(?:uat(?:ion|e|ing))?)(?![\w/.\-])", re.IGNORECASE)
_ALIASES = {"trl": "loss", "tel": "val_loss", "norm": "grad_norm", "step_loss": "loss", "epoch": "epoch"}
_AVERAGES = frozenset({"avg_loss", "average_loss", "mean_loss", "running_loss", "smooth_loss"})
"""Taken for the loss where a line tells no other."""
_TIMES = frozenset({"time", "time_s", "dt", "step_time", "iter_time", "iter time", "step time", "step_time_s", "time_per_step"})
_MEMORY = frozenset({"memory", "mem", "max_mem", "max_memory", "peak_mem", "peak_memory", "gpu_mem", "peak_memory_bytes"})
_SECONDS = {b"ms": 1e-3, b"s": 1.0}
_COUNTS = {b"k": 1e3, b"m": 1e6, b"b": 1e9}
_BYTES = {b"kb": 1e3, b"mb": 1e6, b"gb": 1e9, b"tb": 1e12, b"kib": 2.0**10, b"mib": 2.0**20, b"gib": 2.0**30, b"tib": 2.0**40}
_NO_METRIC = frozenset({"step", "time_s", "s", "nan", "inf"})
_LITGPT = ((b"loss train:", b"train_loss:"), (b", val:", b", val_loss:"))
NAMES_MAX = 4096


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A metric of the line: where its number begins in the plain line, and by what it is multiplied."""

    value: float
    start: int
    factor: float


def plain_colours(line: bytes) -> bytes:
    """The line without what a terminal takes for colours and moves."""
    return _COLOUR.sub(b"", line) if b"\x1b" in line else line


def plain_line(line: bytes) -> bytes:
    plain = b" ".join(plain_colours(line).translate(_QUOTES).split())
    if b"loss train:" in plain:
        for theirs, ours in _LITGPT:
            plain = plain.replace(theirs, ours)
    return plain


def number_of(text: bytes) -> float:
    return float(text.replace(b",", b"")) if b"," in text else float(text)


class PairReader:
    """Reads the pairs of a plain line, and remembers the names it has met."""

    def __init__(self) -> None:
        self._names: dict[tuple[bytes, bytes], tuple[str, float]] = {}

    def read(self, plain: bytes) -> dict[str, PrintedNumber]:
        """By Sentinel's name; of two numbers under one name the first. The loss of a line about held-out data is `val_loss`."""
        numbers: dict[str, PrintedNumber] = {}
        first_loss = -1
        for pair in _PAIR.finditer(plain):
            name, text, unit = pair.groups()
            known, factor = self._names.get((name, unit or b"")) or self._learn(name, unit or b"")
            if not known:
                continue
            if known == "loss" and first_loss < 0:
                first_loss = pair.start()
            if known not in numbers:
                numbers[known] = PrintedNumber(number_of(text) * factor, pair.start(2), factor)
        if "loss" not in numbers and not numbers.keys().isdisjoint(_AVERAGES):
            average = next(name for name in numbers if name in _AVERAGES)
            numbers["loss"] = numbers.pop(average)
            first_loss = numbers["loss"].start
        if first_loss >= 0 and b"val" in plain[:first_loss].lower() and _HELD_OUT.search(plain, 0, first_loss):
            return {"val_loss": numbers["loss"]}
        return numbers

    def _learn(self, name: bytes, unit: bytes) -> tuple[str, float]:
        text = name.decode(errors="replace")
        known = _ALIASES.get(text.lower()) or canonical(text)
        if "_" not in known and known.replace(" ", "_").lower() in _AVERAGES:
            known = known.replace(" ", "_").lower()
        found = _by_unit(known, unit.lower().strip())
        if len(self._names) < NAMES_MAX:
            self._names[name, unit] = found
        return found


def _by_unit(known: str, unit: bytes) -> tuple[str, float]:
    """The metric and its factor; an empty name for what is none."""
    if not unit:
        return ("" if known in _NO_METRIC or known.endswith(".py") else known), 1.0  # `train.py:12` is a place in a source
    if unit == b"%":
        return (known, 0.01) if known == "mfu" else (known, 1.0)
    if unit in _SECONDS and known.lower() in _TIMES:
        return "step_time_s", _SECONDS[unit]
    if unit in _BYTES and known.lower() in _MEMORY:
        return "peak_memory_bytes", _BYTES[unit]
    if unit in _COUNTS and known not in LOSSES and known not in _NO_METRIC:
        return known, _COUNTS[unit]
    return "", 0.0
