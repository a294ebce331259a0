"""Megatron-LM's output and that of its forks (Megatron-DeepSpeed, GPT-NeoX, BLOOM's): one line an iteration, fields between bars.

     iteration     1200/ 100000 | consumed samples: 307200 | elapsed time per iteration (ms): 812.3 | learning rate: 3.000E-04 |
     global batch size: 256 | lm loss: 2.3E+00 | loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations: 0 | ...

Where a loss is NaN several forks leave the field out: then the metric is absent, which `non_finite` notices, and nothing is
invented here. `number of skipped iterations` becomes `skipped`, `number of nan iterations` becomes `nan_iterations` and counts as
skipped as well, for such an update was not applied. Prefixes (times, log levels) and every other line are passed over;
where ranks stand in front, one rank is listened to.
"""

from __future__ import annotations

import math
import re

from sentinel.model.readings import StepReading
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical
from sentinel.telemetry.ranks import Speaker
from sentinel.telemetry.stream_lines import LARGEST_INT

_ITERATION = re.compile(rb"(?:^|[\s|:\]])iteration:?\s+(\d{1,16})\s*/\s*\d+\s*\|")
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)\b", re.IGNORECASE)
_NO_METRIC = frozenset({"global batch size"})
_CONSUMED = {"consumed samples": "consumed_samples", "consumed tokens": "consumed_tokens"}
_ELAPSED = "elapsed time per iteration (ms)"
NAMES_MAX = 4096
_SKIPPED = "number of skipped iterations"
_NAN = "number of nan iterations"


class MegatronLines:
    """A line parser; it remembers the seconds of the iterations, which the lines give one by one, and the names it has met."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._last_step: int | None = None
        self._names: dict[bytes, str] = {}
        self._speaker = Speaker()

    @property
    def remark(self) -> str:
        return "several ranks print into it; the first of them is listened to" if self._speaker.passed_over else ""

    def __call__(self, line: bytes) -> StepReading | None:
        if b"iteration" not in line:
            return None
        found = _ITERATION.search(line)
        if found is None or (found.start() > 1 and self._speaker.is_other(line)):
            return None
        step = int(found[1])
        if step >= LARGEST_INT:
            raise ValueError(f"{step} is no step")
        fields = self._fields(line[found.end() :])
        if not fields:
            raise ValueError("an iteration without a field")
        elapsed_ms = fields.pop(_ELAPSED, None)
        if elapsed_ms is not None and math.isfinite(elapsed_ms) and elapsed_ms > 0:
            steps = max(1, step - self._last_step) if self._last_step is not None else 1
            self._elapsed_s += elapsed_ms * 1e-3 * steps
        self._last_step = step
        skipped, nans = fields.pop(_SKIPPED, 0.0), fields.pop(_NAN, 0.0)
        if skipped or nans:
            fields["skipped"] = 1.0
        if nans:
            fields["nan_iterations"] = nans
        return StepReading(ATTEMPT, step, self._elapsed_s, (), fields)

    def _fields(self, rest: bytes) -> dict[str, float]:
        fields: dict[str, float] = {}
        names = self._names
        for part in rest.split(b"|"):
            name, colon, text = part.rpartition(b":")
            if not colon:
                continue
            known = names.get(name)
            if known is None:
                known = self._learn_name(name)
            if not known:
                continue
            try:
                value = float(text)
            except ValueError:
                number = _NUMBER.match(text.strip())
                if number is None:
                    continue
                value = float(number[0])
            if known not in fields:
                fields[known] = value
        return fields

    def _learn_name(self, name: bytes) -> str:
        """Empty for what is no metric."""
        plain = " ".join(name.decode(errors="replace").lower().split())
        known = "" if plain in _NO_METRIC else _CONSUMED.get(plain) or canonical(plain)
        if len(self._names) < NAMES_MAX:
            self._names[name] = known
        return known


def looks_like_megatron(head: bytes) -> bool:
    return _ITERATION.search(head) is not None
