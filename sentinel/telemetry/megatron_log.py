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
from sentinel.run_files.stream_lines import LARGEST_INT
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical
from sentinel.telemetry.ranks import Speaker

_ITERATION = re.compile(rb"(?:^|[\s|:\]])iteration:?\s+(\d{1,16})\s*/\s*\d+\s*\|")
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)\b", re.IGNORECASE)
_NO_METRIC = frozenset({"global batch size"})
_CONSUMED = {"consumed samples": "consumed_samples", "consumed tokens": "consumed_tokens"}
_ELAPSED = "elapsed time per iteration (ms)"
NAMES_MAX = 4096
LAYOUT_BYTES_MAX = 8192
_SKIPPED = "number of skipped iterations"
_NAN = "number of nan iterations"


class MegatronLines:
    """A line parser; it remembers the seconds of the iterations, which the lines give one by one, and the names it has met."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._last_step: int | None = None
        self._names: dict[bytes, str] = {}
        self._speaker = Speaker()
        self._layout: re.Pattern[bytes] | None = None  # of the line before: nearly every line has the same fields
        self._layout_names: tuple[str, ...] = ()
        self._shape = b""

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
        if elapsed_ms is not None and 0.0 < elapsed_ms < math.inf:
            last = self._last_step
            self._elapsed_s += elapsed_ms * 1e-3 * (step - last if last is not None and step > last else 1)
        self._last_step = step
        skipped, nans = fields.pop(_SKIPPED, 0.0), fields.pop(_NAN, 0.0)
        if skipped or nans:
            fields["skipped"] = 1.0
        if nans:
            fields["nan_iterations"] = nans
        return StepReading(ATTEMPT, step, self._elapsed_s, (), fields)

    def _fields(self, rest: bytes) -> dict[str, float]:
        same = self._layout.fullmatch(rest) if self._layout is not None else None
        if same is not None:
            try:
                return dict(zip(self._layout_names, map(float, same.groups()), strict=True))
            except ValueError:
                pass  # a number with something behind it
        return self._fields_one_by_one(rest)

    def _fields_one_by_one(self, rest: bytes) -> dict[str, float]:
        fields: dict[str, float] = {}
        names = self._names
        shape: list[bytes] = []
        for part in rest.split(b"|"):
            name, colon, text = part.rpartition(b":")
            known = names.get(name) if colon else ""
            if known is None:
                known = self._learn_name(name)
            is_field = bool(known) and known not in fields
            shape.append(re.escape(name) + (b":([^|:]*)" if is_field else colon + b"[^|:]*"))
            if not is_field:
                continue
            try:
                value = float(text)
            except ValueError:
                number = _NUMBER.match(text.strip())
                if number is None:
                    shape.append(b"$^")  # this field is no number here: the next line may have one
                    continue
                value = float(number[0])
            fields[known] = value
        self._learn_layout(b"[|]".join(shape), tuple(fields))
        return fields

    def _learn_layout(self, shape: bytes, names: tuple[str, ...]) -> None:
        """Two lines of one shape, and the third is read in one go."""
        if shape == self._shape and len(shape) < LAYOUT_BYTES_MAX:
            self._layout, self._layout_names = re.compile(shape), names
        self._shape = shape

    def _learn_name(self, name: bytes) -> str:
        """Empty for what is no metric."""
        plain = " ".join(name.decode(errors="replace").lower().split())
        known = "" if plain in _NO_METRIC else _CONSUMED.get(plain) or canonical(plain)
        if len(self._names) < NAMES_MAX:
            self._names[name] = known
        return known


def looks_like_megatron(head: bytes) -> bool:
    return _ITERATION.search(head) is not None
