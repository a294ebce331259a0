"""Megatron-LM's output and that of its forks (Megatron-DeepSpeed, GPT-NeoX, BLOOM's): one line an iteration, fields between bars.

     iteration     1200/ 100000 | consumed samples: 307200 | elapsed time per iteration (ms): 812.3 | learning rate: 3.000E-04 |
     global batch size: 256 | lm loss: 2.3E+00 | loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations: 0 | ...

    validation loss at iteration 1200 on validation set | lm loss value: 2.4E+00 | lm loss PPL: 1.1E+01 |

The loss of a validation line is `val_loss` of its iteration. Of several validation sets the first that is met is; the others get
their names behind it (`val_loss/1`). A test set is no validation set.
Where a loss is NaN several forks leave the field out: then the metric is absent, which `non_finite` notices, and nothing is
invented here. `number of skipped iterations` becomes `skipped` and, from two on, `skipped_iterations`; `number of nan iterations`
becomes `nan_iterations` and counts as skipped as well, for such an update was not applied. Prefixes (times, log levels) and every
other line are passed over; where ranks stand in front, one rank is listened to. nanotron shortens its numbers
(`consumed_tokens: 1.02K`). NeMo 2 prints such lines too, with the newest validation loss on each: it is told once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import LARGEST_INT, ensure_step
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical
from sentinel.telemetry.ranks import Speaker

_COUNT = rb"iteration:?\s+(\d{1,30})\s*/\s*\d+\s*\|"
_ITERATION = re.compile(rb"(?:^|[\s|:\]])" + _COUNT)
_AT_THE_START = rb"[\s|:\]]?" + _COUNT  # with nothing in front that may name a rank
_VALIDATION = re.compile(
    rb"(?:^|[\s|:\]>])(validation|valid|test)-?([\w-]*) (?:loss|results) at iteration (\d{1,30})([^|]{0,200})\|", re.IGNORECASE
)
_SET = re.compile(rb"\[([^\]]{1,99})\]")
_VALUE = " value"
_NUMBER = re.compile(
    rb"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI][nN][fF](?:inity)?))([KMBGT]?)(?![\w.])"
)
_NO_METRIC = frozenset({"global batch size"})
_ELAPSED_MS, _ELAPSED_S = "elapsed ms", "elapsed s"  # within this module
_ELAPSED = {
    "elapsed time per iteration (ms)": _ELAPSED_MS,
    "elapsed_time_per_iteration_ms": _ELAPSED_MS,
    "elapsed time per iteration (s)": _ELAPSED_S,
}
_SHORT = {b"K": 1e3, b"M": 1e6, b"B": 1e9, b"G": 1e9, b"T": 1e12}
_VAL_LOSS = "val_loss"
_GLOBAL_STEP = "step"  # NeMo's iterations begin again with each epoch
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
        self._whole: re.Pattern[bytes] | None = None  # the same, from the start of a line on
        self._layout_names: tuple[str, ...] = ()
        self._shape = b""
        self._is_nemo = False  # its lines name the global step and the newest validation loss
        self._val_loss: float | None = None  # as told last
        self._judged_set: bytes | None = None  # the validation set whose loss is `val_loss`
        self._other_sets = False

    @property
    def remark(self) -> str:
        if self._other_sets and self._judged_set is not None:
            name = self._judged_set.decode(errors="replace") or "the one without a name"
            return f"several validation sets; val_loss is that of {name}"
        return "several ranks print into it; the first of them is listened to" if self._speaker.passed_over else ""

    def __call__(self, line: bytes) -> StepReading | None:
        whole = self._whole.fullmatch(line) if self._whole is not None else None
        if whole is not None:
            digits, *texts = whole.groups()
            fields = self._values(texts)
            if fields:
                return self._reading(_step(digits), fields)
        if b"iteration" not in line:
            return None
        found = _ITERATION.search(line)
        if found is None and b" at iteration" in line:
            return self._validation(line)
        if found is None or (found.start() > 1 and self._speaker.is_other(line)):
            return None
        step, start = _step(found[1]), found.end()
        same = self._layout.fullmatch(line, start) if self._layout is not None else None
        fields = (same is not None and self._values(same.groups())) or self._fields_one_by_one(line[start:])
        if not fields:
            raise ValueError("an iteration without a field")
        return self._reading(step, fields)

    def _reading(self, step: int, fields: dict[str, float]) -> StepReading:
        if self._is_nemo:
            step = int(fields.pop(_GLOBAL_STEP, step))
            before, self._val_loss = self._val_loss, fields.get(_VAL_LOSS)
            if before is not None and before == self._val_loss:
                del fields[_VAL_LOSS]
        elapsed_s = fields.pop(_ELAPSED_MS, 0.0) * 1e-3 or fields.pop(_ELAPSED_S, 0.0)
        if 0.0 < elapsed_s < math.inf:
            last = self._last_step
            self._elapsed_s += elapsed_s * (step - last if last is not None and step > last else 1)
        self._last_step = step
        skipped, nans = fields.pop(_SKIPPED, 0.0), fields.pop(_NAN, 0.0)
        if skipped or nans:
            fields["skipped"] = 1.0
        if skipped > 1.0:
            fields["skipped_iterations"] = skipped
        if nans:
            fields["nan_iterations"] = nans
        return StepReading(ATTEMPT, step, self._elapsed_s, (), fields)

    def _validation(self, line: bytes) -> StepReading | None:
        """The line of an evaluation. Of which held-out data it is stands in front of the iteration, or behind it."""
        found = _VALIDATION.search(line)
        if found is None or b"test" in (found[1].lower(), *found[4].lower().split()) or self._speaker.is_other(line):
            return None
        named = _SET.search(found[4])
        data = named[1] if named is not None else found[2]
        if self._judged_set is None:
            self._judged_set = data
        behind = "" if data == self._judged_set else f"/{data.decode(errors='replace')}"
        self._other_sets = self._other_sets or bool(behind)
        metrics: dict[str, float] = {}
        for part in line[found.end() :].split(b"|"):
            name, _, text = part.decode(errors="replace").rpartition(":")
            value = _value(text.encode())
            if value is not None and name.endswith(_VALUE) and canonical(name.removesuffix(_VALUE)) == "loss":
                metrics.setdefault(_VAL_LOSS + behind, value)
        return StepReading(ATTEMPT, _step(found[3]), self._elapsed_s, (), metrics) if metrics else None

    def _values(self, texts: Sequence[bytes]) -> dict[str, float] | None:
        """The fields of a line that has the layout of the line before; None where one of them is no number."""
        try:
            return dict(zip(self._layout_names, map(float, texts)))  # noqa: B905 - a group a name
        except ValueError:  # a number with something behind it, such as nanotron's "1.2K"
            values = tuple(map(_value, texts))
        fields = {name: value for name, value in zip(self._layout_names, values, strict=True) if value is not None}
        return fields if len(fields) == len(values) else None

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
            value = _value(text)
            if value is None:
                shape.append(b"$^")  # this field is no number here: the next line may have one
                continue
            fields[known] = value
        self._learn_layout(b"[|]".join(shape), tuple(fields))
        return fields

    def _learn_layout(self, shape: bytes, names: tuple[str, ...]) -> None:
        """Two lines of one shape, and the third is read in one go."""
        if shape == self._shape and len(shape) < LAYOUT_BYTES_MAX:
            self._layout, self._layout_names = re.compile(shape), names
            self._whole = re.compile(_AT_THE_START + shape)
        self._shape = shape

    def _learn_name(self, name: bytes) -> str:
        """Empty for what is no metric."""
        plain = " ".join(name.decode(errors="replace").lower().split())
        known = "" if plain in _NO_METRIC else _ELAPSED.get(plain) or canonical(plain)
        self._is_nemo = self._is_nemo or known == _GLOBAL_STEP
        if len(self._names) < NAMES_MAX:
            self._names[name] = known
        return known


def _step(digits: bytes) -> int:
    step = int(digits)
    if step >= LARGEST_INT:
        ensure_step(step)
    return step


def _value(text: bytes) -> float | None:
    """The number that a field begins with; None for none."""
    try:
        return float(text)
    except ValueError:
        number = _NUMBER.match(text.strip())
    return float(number[1]) * _SHORT.get(number[2], 1.0) if number is not None else None


def looks_like_megatron(head: bytes) -> bool:
    return _ITERATION.search(head) is not None
