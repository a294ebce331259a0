"""Dictionaries printed beside a progress bar, as the Hugging Face Trainer prints them: one has the numbers, the other the step.

    {'loss': '2.345', 'grad_norm': '1.02', 'learning_rate': '4.9e-05', 'epoch': '0.4'}
      2%|▏         | 20/1000 [00:07<05:12,  3.13it/s]

tqdm draws its bar anew behind every line that is written through it, with the number of the step. The first bar of the text is
the training's; others (an evaluation's) have another total. A dictionary without a bar behind it has no step, and is left out;
the Trainer's summary at the end is none of these.
"""

from __future__ import annotations

import ast
import re

from sentinel.client.strict_json import as_float
from sentinel.model.readings import StepReading
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical

LINE_MAX = 16_384
_BAR = re.compile(rb"(\d{1,12})/(\d{1,12}) \[\d")
_SUMMARY = "train_runtime"
_NO_METRIC = frozenset({"step", "time_s", "samples", "kind"})


class ProgressLines:
    """A line parser (`log_reader.LineParser`)."""

    splits_at_returns = True

    def __init__(self) -> None:
        self._total: int | None = None
        self._waiting: dict[str, float] = {}

    def __call__(self, line: bytes) -> StepReading | None:
        if len(line) > LINE_MAX:
            return None
        text = line.strip()
        if text.startswith(b"{") and text.endswith(b"}"):
            self._waiting |= _numbers(text)
            return None
        bar = _BAR.search(line)
        if bar is None:
            return None
        step, total = int(bar[1]), int(bar[2])
        if self._total is None:
            self._total = total
        if not self._waiting or total != self._total:
            return None
        metrics, self._waiting = self._waiting, {}
        return StepReading(ATTEMPT, step, 0.0, (), metrics)


def _numbers(text: bytes) -> dict[str, float]:
    try:
        value = ast.literal_eval(text.decode("utf-8", "replace").replace(": nan", ": 'nan'").replace(": inf", ": 'inf'"))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    if not isinstance(value, dict) or _SUMMARY in value:
        return {}
    found: dict[str, float] = {}
    for name, number in value.items():
        try:
            number = float(number) if isinstance(number, str) else as_float(number)
        except (ValueError, TypeError):
            continue
        known = canonical(str(name))
        if known not in _NO_METRIC:
            found[known] = number
    return found
