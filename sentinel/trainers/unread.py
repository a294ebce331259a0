"""Why no row comes: what the source that a profile names holds by now, and which profile would read what is printed.

A trainer may talk and compile for long before its first step, so a source without a row is told of when what is printed shows
rows of another format, when as much stands in it as trainers print before they train, or when that has lasted.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sentinel.client.run_layout import attempt_folder
from sentinel.model.amounts import size_words, time_words
from sentinel.run_files.stream import read_newest_metrics
from sentinel.telemetry.log_formats import PREAMBLE_BYTES
from sentinel.trainers.adding import how_to_add_rows
from sentinel.trainers.probe.recognise import printed_format, profiles_of_format
from sentinel.trainers.sources import metric_places
from sentinel.trainers.spec import TrainerSpec

LONG_S = 600.0
OTHER_S = 60.0
BEFORE_MAX = 10  # attempts
LOOK_EVERY_S = 5.0


class Unread:
    """Of one attempt, until its first row."""

    def __init__(self, run_dir: Path, attempt: int, spec: TrainerSpec, began_s: float) -> None:
        self._run_dir, self._attempt = run_dir, attempt
        logs = attempt_folder(run_dir, attempt) / "logs"
        self._printed = tuple(logs / f"launcher.{end}" for end in ("out", "err"))
        self._spec, self._began_s = spec, began_s
        self._looked_s = float("-inf")
        self._looked_at = 0  # bytes that were printed at the last look for another format
        self._others: tuple[str, ...] = ()
        self._given: set[str] = set()  # the reasons

    def why(self, now_s: float) -> str:
        """A sentence where there is a new reason for one; else empty. Asked while no row has come."""
        metrics = self._spec.profile.spec.metrics
        if now_s - self._looked_s < LOOK_EVERY_S or metrics.from_ == "none":
            return ""
        self._looked_s = now_s
        printed = sum(map(_size, self._printed))
        if printed >= 2 * self._looked_at:  # a look reads all of it
            self._looked_at = max(printed, 1)
            self._others = self._profiles_of_printed()
        lasted_s = now_s - self._began_s
        held = printed if metrics.from_ == "output" else max((_size(place) for place in self._places()), default=0)
        is_sure = metrics.from_ == "output" or lasted_s >= OTHER_S  # what is printed beside a file of rows is usually no mistake
        reasons = {"other": bool(self._others) and is_sure, "much": held >= PREAMBLE_BYTES, "long": lasted_s >= LONG_S}
        new = {reason for reason, is_true in reasons.items() if is_true} - self._given
        self._given |= new
        lasted = f"no row in {time_words(lasted_s)}" if lasted_s >= 1.0 else "no row yet"
        return self._sentence(lasted, printed) if new else ""

    def why_at_end(self) -> str:
        """The trainer is gone and no row came: the same with all that it left, also of one that did not last. Empty where the
        profile asks for none, and where it has read rows of an attempt before: then the trainer died before its first."""
        if self._spec.profile.spec.metrics.from_ == "none" or self._has_read_before():
            return ""
        self._others = self._profiles_of_printed()
        return self._sentence("the trainer ended without a row", sum(map(_size, self._printed)))

    def _has_read_before(self) -> bool:
        before = range(self._attempt - 1, max(0, self._attempt - 1 - BEFORE_MAX), -1)
        return any(read_newest_metrics(self._run_dir, attempt) is not None for attempt in before)

    def _profiles_of_printed(self) -> tuple[str, ...]:
        """Shipped profiles that read what was printed, where this one does not."""
        metrics = self._spec.profile.spec.metrics
        found = [format for path in self._printed if (format := printed_format(path)) is not None]
        if metrics.from_ == "output" and (metrics.format == "auto" or metrics.format in found):
            return ()
        return tuple(dict.fromkeys(name for format in found for name in profiles_of_format(format)))

    def _places(self) -> Iterator[Path]:
        for place in metric_places(self._spec):
            yield from map(Path, glob.glob(place, recursive=True))

    def _sentence(self, what: str, printed: int) -> str:
        profile = self._spec.profile
        metrics, name = profile.spec.metrics, profile.metadata.name
        field = f"spec.metrics (from: {metrics.from_}" + (f", format: {metrics.format})" if metrics.format != "auto" else ")")
        seen = f"{what}: {field} of the profile {name} saw {self._saw(printed)}"
        if self._others and metrics.from_ != "output":
            return f"{seen}; what is printed has rows: --trainer {name}:metrics=output?"
        if self._others:
            named = " or ".join(f"--trainer {other}" for other in self._others)
            return f"{seen}; what is printed reads as that of {named}? sentinel probe tells"
        return f"{seen}; {how_to_add_rows(metrics, name)}"

    def _saw(self, printed: int) -> str:
        metrics = self._spec.profile.spec.metrics
        if metrics.from_ == "output":
            return f"{size_words(printed)} of what it prints, and no line that it knows"
        if metrics.from_ == "trainer_state":
            return f"no trainer_state.json in a checkpoint under {self._spec.root}"
        found = list(self._places())
        if not found:
            return f"nothing at {' and '.join(metric_places(self._spec))}"
        size = max(map(_size, found))
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return f"{found[0]}{more}, {size_words(size)}, and no row that it knows"


def _size(path: Path) -> int:
    """0 for what is not there, and for a folder."""
    with suppress(OSError):
        return 0 if path.is_dir() else os.stat(path).st_size
    return 0
