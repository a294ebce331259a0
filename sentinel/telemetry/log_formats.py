"""Which format a recorded log has, by its content and not by its name, and the reader for it.

format_name, reader = open_log(Path("train.log"))
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.telemetry.compressed import CompressedLines, compression_of, open_compressed, read_block
from sentinel.telemetry.csv_log import CsvLines, named_by_file
from sentinel.telemetry.format_names import FORMATS
from sentinel.telemetry.json_document import JsonDocumentLog
from sentinel.telemetry.json_log import JsonLines, looks_like_json_lines
from sentinel.telemetry.log_reader import LineLog, LineParser, LogReader, splits_at_returns
from sentinel.telemetry.megatron_log import MegatronLines, looks_like_megatron
from sentinel.telemetry.mlflow_log import MlflowLog, is_mlflow_run
from sentinel.telemetry.no_log import LFS, why_no_log
from sentinel.telemetry.printed_log import PrintedLines, looks_like_printed
from sentinel.telemetry.progress_lines import ProgressLines
from sentinel.telemetry.tensorboard import EventLog, event_files, looks_like_events
from sentinel.telemetry.trainer_state import TrainerStateLog, looks_like_trainer_state
from sentinel.telemetry.wandb_log import WandbLog, looks_like_wandb, wandb_files

LINE_PARSERS: dict[str, Callable[[], LineParser]] = {
    "metrics": JsonLines,
    "csv": CsvLines,
    "megatron": MegatronLines,
    "progress": ProgressLines,
    "text": PrintedLines,
}
DOCUMENTS: dict[str, Callable[[Path], LogReader]] = {
    "tensorboard": EventLog,
    "wandb": WandbLog,
    "trainer-state": TrainerStateLog,
    "json": JsonDocumentLog,
}
FOLDERS = ("tensorboard", "wandb", "mlflow")
HEAD_BYTES = 64 * 1024
PREAMBLE_BYTES = 8 << 20  # trainers print their arguments and their data sets before the first iteration
KNOWN = (
    "known are JSON (lines, rows, columns) and CSV with a step in them, Megatron-LM's output, lines that name a step and a loss "
    "as most trainers print them, TensorBoard event files, runs of Weights & Biases and MLflow, and trainer_state.json; name the "
    "format with --format"
)


class UnreadableLog(UsageError):
    """No log that can be read; the sentence says why and what would be."""


class EmptyLog(UnreadableLog):
    """Nothing stands in it, or nothing yet."""


class NoStepYet(UnreadableLog):
    """Text without a line that is known, or a directory without a log. It may still come: a trainer talks before it trains."""


def open_log(path: Path, format: str = "auto") -> tuple[str, LogReader]:
    """The format's name and a reader at the start of the log. A directory is a TensorBoard log of several files, or a run of
    Weights & Biases or MLflow.

    Raises UnreadableLog for what cannot be a log, and OSError for what cannot be read.
    """
    if format not in ("auto", *FORMATS):
        raise UnreadableLog(f"{format}: no such format; there are auto, {', '.join(FORMATS)}")
    _ensure_there(path, format)
    if path.is_dir():
        return _open_folder(path)
    head, kind = _read_head(path, HEAD_BYTES)
    if head.startswith(LFS):
        _refuse_binary(path, head)
    found, document = _find_format(path, head) if format == "auto" else (format, None)
    if found in LINE_PARSERS:
        parse = CsvLines(named_by_file(path)) if found == "csv" else LINE_PARSERS[found]()
        packed = CompressedLines(path, kind, returns=splits_at_returns(parse)) if kind else None
        return found, LineLog(path, parse, packed)
    if kind:
        raise UnreadableLog(f"{path}: a {found} log is not read from {kind} data; unpack a copy and name that")
    return found, document or DOCUMENTS[found](path)


def format_at_end(path: Path) -> str | None:
    """The format of the lines at the end of a plain text log that is longer than what is searched at its beginning. None where it
    is shorter, or none is known there. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size <= HEAD_BYTES + PREAMBLE_BYTES:
            return None
        file.seek(size - HEAD_BYTES)
        tail = file.read(HEAD_BYTES)
    return None if compression_of(tail) or b"\0" in tail else _by_any_line(tail.partition(b"\n")[2])


def _open_folder(path: Path) -> tuple[str, LogReader]:
    if is_mlflow_run(path):
        return "mlflow", MlflowLog(path)
    if files := wandb_files(path):
        return "wandb", WandbLog(files[0])
    _refuse_pointers(event_files(path))
    return "tensorboard", EventLog(path)


def _read_head(path: Path, size: int) -> tuple[bytes, str | None]:
    """The first bytes, unpacked, and how the file is compressed."""
    with path.open("rb") as file:
        head = file.read(size)
    kind = compression_of(head)
    if kind is None:
        return head, None
    with open_compressed(path, kind) as packed:
        parts, missing = [], size
        try:
            while missing > 0 and (block := read_block(packed, min(missing, HEAD_BYTES))):
                parts.append(block)
                missing -= len(block)
        except EOFError:
            pass  # cut off: what is there is read
        except OSError as error:
            if not parts:
                raise UnreadableLog(f"{path}: damaged {kind} data ({error.strerror or error})") from None
    return b"".join(parts), kind


def _find_format(path: Path, head: bytes) -> tuple[str, LogReader | None]:
    """The format, with its reader where only a look at the whole document could tell. Raises UnreadableLog with a sentence when
    the content is none of ours."""
    if looks_like_events(head) or "tfevents" in path.name:
        return "tensorboard", None
    if looks_like_wandb(head):
        return "wandb", None
    if not head.strip():
        raise EmptyLog(f"{path}: the file is empty; there is nothing to replay")
    _refuse_binary(path, head)
    found, why_no_csv = _by_first_lines(head, path)
    found = found or _by_any_line(head)
    too_large: UsageError | None = None
    if found is None and head.lstrip()[:1] in (b"[", b"{"):  # before the preamble: no line of a long document is searched
        document = JsonDocumentLog(path)
        try:
            if document.holds_steps():
                return "json", document
        except UsageError as error:
            too_large = error  # printed lines may begin with a bracket, too
    found = found or _by_any_line(_read_head(path, HEAD_BYTES + PREAMBLE_BYTES)[0])
    if found is None and too_large:
        raise too_large
    if found is None:
        why = f": {why_no_csv}" if why_no_csv else ""
        raise NoStepYet(f"{path}: not recognised as a log{why}; {KNOWN}")
    return found, None


def _refuse_binary(path: Path, head: bytes) -> None:
    why = why_no_log(path, head)
    if why:
        raise UnreadableLog(why)


def _refuse_pointers(files: list[Path]) -> None:
    """A clone without its large files holds a pointer for each."""
    for file in files:
        with file.open("rb") as open_file:
            head = open_file.read(len(LFS))
        if head == LFS:
            _refuse_binary(file, head)


def _by_first_lines(head: bytes, path: Path) -> tuple[str | None, str]:
    """The format that the first lines tell; else why they are no CSV, where they look like one."""
    if looks_like_trainer_state(head) or (path.name.startswith("trainer_state.json") and head.lstrip()[:1] == b"{"):
        return "trainer-state", ""
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    whole = [line for line in lines[:-1] or lines if line.strip()] or [lines[-1]]
    if whole[0].lstrip()[:1] in (b"[", b"{") and whole[0].strip()[-1:] in (b"[", b"{", b","):
        return None, "a JSON document without steps in it; known are an array of rows, an object of columns, and golden values"
    if any(looks_like_json_lines(line) for line in whole[:20]):
        return "metrics", ""
    try:
        CsvLines()(whole[0])
    except ValueError as error:
        is_table = max(whole[0].count(mark) for mark in (b",", b";", b"\t")) > 0 and len(whole[0]) < HEAD_BYTES // 2
        same = len(whole) > 1 and whole[1].count(b",") == whole[0].count(b",")
        return None, str(error) if is_table and same else ""
    return "csv", ""


def _by_any_line(head: bytes) -> str | None:
    if looks_like_megatron(head):
        return "megatron"
    return "text" if looks_like_printed(head) else None


def _ensure_there(path: Path, format: str) -> None:
    status = path.stat()  # FileNotFoundError is a sentence by itself
    if stat.S_ISDIR(status.st_mode):
        if format not in ("auto", *FOLDERS):
            raise UnreadableLog(f"{path}: a directory; only logs of TensorBoard, Weights & Biases and MLflow are directories")
        if not (event_files(path) or is_mlflow_run(path) or wandb_files(path)):
            raise NoStepYet(f"{path}: a directory without a log in it; name the logs, or where they are")
    elif format == "mlflow":
        raise UnreadableLog(f"{path}: a file; name the folder of one run of MLflow, mlruns/EXPERIMENT/RUN")
    elif not stat.S_ISREG(status.st_mode):
        raise UnreadableLog(f"{path}: not a regular file; write what comes out of it into a file, and name that")
    elif status.st_size == 0:
        raise EmptyLog(f"{path}: the file is empty; there is nothing to replay")
