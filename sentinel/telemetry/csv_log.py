"""CSV with a header line, as spreadsheets and loggers write it: `step,loss,grad_norm,loss_scale,lr` and any further number.

An empty cell is a metric that was not logged (so are NA, null and None); `nan` and `inf` are values. Columns are found by name
(see `metric_names`), in any order; comma, semicolon and tab are known, with decimal commas between semicolons. A column of words
is no metric. A row with too few or too many cells is damaged, for it cannot be known which is missing. Known as well:
Lightning's metrics.csv, what Weights & Biases exports (`RUN - train/loss`, its `__MIN` and `__MAX` are left out), and what
TensorBoard downloads, where the name of the file says what the values are.

    >>> parser = CsvLines(); parser(b"step,loss,lr"); parser(b"7,nan,")
    StepReading(attempt=1, step=7, time_s=0.0, samples=(), metrics={'loss': nan})
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

from sentinel.model.metrics import BY_NAME
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import LARGEST_INT, ensure_step
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical

DELIMITERS = b",;\t"
COLUMNS_MAX = 4096
NOT_LOGGED = frozenset({b"na", b"n/a", b"null", b"none", b"-", b"<na>"})
_OTHER_NAN = re.compile(rb"[+-]?(?:nan\(.*\)|1\.#(?:qnan|snan|ind)\d*)", re.IGNORECASE)  # as C libraries print it


class CsvLines:
    """A line parser that learns its columns from the first line that is not empty, and again where a header comes again."""

    remark = ""

    def __init__(self, value: str = "") -> None:
        """`value`: what a column is that is called just `Value`."""
        self._value = value
        self._names: list[str] = []
        self._delimiter = b","
        self._step = -1
        self._time: int | None = None
        self._metrics: list[tuple[int, str]] = []
        self._undecided: set[str] = set()  # columns that were empty so far: their first cell says whether they hold numbers

    def __call__(self, line: bytes) -> StepReading | None:
        if not self._names:
            self._learn_header(line)
            return None
        if b'"' in line:
            cells = self._split_quoted(line)
        else:
            cells = line.rstrip(b"\r").split(self._delimiter)
        if len(cells) != len(self._names):
            if cells == [b""] or self._learns_again(line):
                return None
            raise ValueError(f"{len(cells)} cells under {len(self._names)} columns")
        try:
            step = int(cells[self._step])
        except ValueError:
            if self._learns_again(line):
                return None  # a run that was continued wrote its header again
            step = _whole(cells[self._step])
        if not 0 <= step < LARGEST_INT:
            ensure_step(step)
            raise ValueError(f"{step} is no step")
        try:
            metrics = {name: float(cells[index]) for index, name in self._metrics if cells[index]}
        except ValueError:
            metrics = self._numbers(cells)
        if self._undecided:
            self._undecided.difference_update(metrics)
        return StepReading(ATTEMPT, step, self._time_of(cells), (), metrics)

    def _learn_header(self, line: bytes) -> None:
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            return
        self._delimiter = max((DELIMITERS[i : i + 1] for i in range(len(DELIMITERS))), key=text.count)
        cells = self._split_quoted(text) if b'"' in text else text.split(self._delimiter)
        titles = [cell.decode(errors="replace").strip(' "') for cell in cells[:COLUMNS_MAX]]
        names = [canonical(_untitled(title)) for title in titles]
        if self._value:
            names = [self._value if name.lower() == "value" else name for name in names]
        if "step" not in names:
            raise ValueError(_why_no_header(titles))
        self._names = names
        self._step = names.index("step")
        self._time = names.index("time_s") if "time_s" in names else None
        taken = {"step", "time_s", ""}
        self._metrics = []
        for index, name in enumerate(self._names):
            if name == "loss" and name in taken and " - " in titles[index]:
                raise ValueError("several runs stand side by side in it; export each on its own")
            if name not in taken:
                taken.add(name)
                self._metrics.append((index, name))
        self._undecided = {name for _, name in self._metrics}

    def _learns_again(self, line: bytes) -> bool:
        """Is it a header? Then its columns are in force from here on."""
        first = line.removeprefix(b"\xef\xbb\xbf").split(self._delimiter)[0].strip(b' "\r')
        if not first or first[:1] in b"0123456789+-.":
            return False
        try:
            self._learn_header(line)
        except ValueError:
            return False
        return True

    def _split_quoted(self, line: bytes) -> list[bytes]:
        text = line.rstrip(b"\r").decode(errors="replace")
        try:
            cells = next(csv.reader([text], delimiter=self._delimiter.decode()), [])
        except csv.Error as error:
            raise ValueError(str(error)) from None
        return [cell.encode() for cell in cells]

    def _numbers(self, cells: list[bytes]) -> dict[str, float]:
        """The slow way: some cell is a word or blank. A column that begins with a word is no metric from then on."""
        found: dict[str, float] = {}
        for index, name in tuple(self._metrics):
            cell = cells[index].strip()
            if not cell:
                continue
            if cell.lower() in NOT_LOGGED:
                continue
            try:
                found[name] = _real(cell)
            except ValueError:
                if name not in self._undecided:
                    raise ValueError(f"{name} is no number") from None
                self._metrics.remove((index, name))
        return found

    def _time_of(self, cells: list[bytes]) -> float:
        if self._time is None:
            return 0.0
        try:
            time_s = float(cells[self._time])
        except ValueError:
            return 0.0
        return time_s if math.isfinite(time_s) else 0.0


def named_by_file(path: Path) -> str:
    """TensorBoard's button writes one tag into a CSV of `Wall time,Step,Value`, and the tag into the name of the file:
    `run-2024-tag-train_loss.csv`. Empty where the name is that of no metric."""
    tag = path.name.removesuffix(".gz").rpartition(".")[0].rpartition("tag-")[2]
    names = (canonical(name) for name in (tag, tag.replace("_", "/", 1)))
    return next((name for name in names if name in BY_NAME), "")


def _whole(cell: bytes) -> int:
    try:
        value = float(cell)
    except ValueError:
        raise ValueError("the step is no number") from None
    if not value.is_integer():
        raise ValueError("the step is no whole number")
    return int(value)


def _real(cell: bytes) -> float:
    """The number in an unusual cell: with a decimal comma, or a NaN as C libraries print it. ValueError for none."""
    return math.nan if _OTHER_NAN.fullmatch(cell) else float(cell.replace(b",", b"."))


def _untitled(title: str) -> str:
    """A column's name without the run that Weights & Biases puts in front; empty for its ranges."""
    return "" if title.endswith(("__MIN", "__MAX")) else title.rpartition(" - ")[2]


def _why_no_header(titles: list[str]) -> str:
    if all(_is_number(title) for title in titles):
        return "its first line holds numbers and no names; put a header line such as 'step,loss,grad_norm' in front of a copy"
    shown = ", ".join(titles[:8]) + (", …" if len(titles) > 8 else "")
    return f"no column of its header is the step (it has {shown}); call one step, iteration or global_step in a copy"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
