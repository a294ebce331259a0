"""Which format a recorded log has, by its content and not by its name, and the reader for it.

    format_name, reader = open_log(Path("train.log"))
"""

from __future__ import annotations

import stat
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.model.readings import StepReading
from sentinel.telemetry.csv_log import CsvLines
from sentinel.telemetry.log_reader import ATTEMPT, LineLog, LogReader
from sentinel.telemetry.megatron_log import MegatronLines, looks_like_megatron
from sentinel.telemetry.stream_lines import parse_line, parse_object
from sentinel.telemetry.tensorboard import EventLog, event_files, looks_like_events
from sentinel.telemetry.trainer_state import TrainerStateLog, looks_like_trainer_state

FORMATS = ("metrics", "csv", "megatron", "tensorboard", "trainer-state")
HEAD_BYTES = 64 * 1024
PREAMBLE_BYTES = 8 << 20  # Megatron prints its arguments and its data sets before the first iteration


class UnreadableLog(UsageError):
    """No log that can be read; the sentence says why and what would be."""


class EmptyLog(UnreadableLog):
    """Nothing stands in it, or nothing yet."""


def open_log(path: Path, format: str = "auto") -> tuple[str, LogReader]:
    """The format's name and a reader at the start of the log. A directory is a TensorBoard log of several files.

    Raises UnreadableLog for what cannot be a log, and OSError for what cannot be read.
    """
    found = find_format(path) if format == "auto" else format
    if format != "auto":
        _ensure_there(path, found)
    match found:
        case "metrics":
            return found, LineLog(path, _metrics_line)
        case "csv":
            return found, LineLog(path, CsvLines())
        case "megatron":
            return found, LineLog(path, MegatronLines())
        case "tensorboard":
            return found, EventLog(path)
        case "trainer-state":
            return found, TrainerStateLog(path)
        case _:
            raise UnreadableLog(f"{found}: no such format; there are auto, {', '.join(FORMATS)}")


def find_format(path: Path) -> str:
    """Raises UnreadableLog with a sentence when the content is none of ours."""
    _ensure_there(path, "auto")
    if path.is_dir():
        if event_files(path):
            return "tensorboard"
        raise UnreadableLog(f"{path}: a directory without TensorBoard event files; name the logs inside it")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if looks_like_events(head) or "tfevents" in path.name:
            return "tensorboard"
        if not head.strip():
            raise EmptyLog(f"{path}: the file is empty; there is nothing to replay")
        if b"\0" in head:
            raise UnreadableLog(f"{path}: a binary file, and no TensorBoard event file")
        found = _by_first_line(head, path) or ("megatron" if looks_like_megatron(head) else None)
        if found is None and looks_like_megatron(head + file.read(PREAMBLE_BYTES)):
            found = "megatron"
    if found is None:
        raise UnreadableLog(
            f"{path}: not recognised as a log; known are metrics.jsonl, CSV with a header that names a step column, "
            "Megatron-LM's output, TensorBoard event files and trainer_state.json; name the format with --format"
        )
    return found


def _by_first_line(head: bytes, path: Path) -> str | None:
    if looks_like_trainer_state(head) or (path.name == "trainer_state.json" and head.lstrip()[:1] == b"{"):
        return "trainer-state"
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1] or [head]
    for line in lines[:20]:
        if not line.strip():
            continue
        try:
            if {"step", "kind"} & parse_object(line).keys():
                return "metrics"
        except ValueError:
            pass
    first = next((line for line in lines if line.strip()), b"")
    try:
        CsvLines()(first)
    except ValueError:
        return None
    return "csv"


def _ensure_there(path: Path, format: str) -> None:
    status = path.stat()  # FileNotFoundError is a sentence by itself
    if stat.S_ISDIR(status.st_mode) and format not in ("auto", "tensorboard"):
        raise UnreadableLog(f"{path}: a directory; only TensorBoard logs are directories")
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise UnreadableLog(f"{path}: not a regular file")
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise EmptyLog(f"{path}: the file is empty; there is nothing to replay")


def _metrics_line(line: bytes) -> StepReading | None:
    """Step lines only: what a recorded launch was asked for is not asked again."""
    reading = parse_line(line, ATTEMPT)
    return reading if isinstance(reading, StepReading) else None
