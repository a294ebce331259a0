"""samples.jsonl: what an inspection wrote of each sample it looked at (PROTOCOL.md 'Inspection'). Bounded, and only whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import samples_path, stream_path
from sentinel.client.strict_json import as_float
from sentinel.errors import GiveUp
from sentinel.model.records import SampleSeen
from sentinel.plan.sample_attribution import CONTROLS, SAMPLES_MAX
from sentinel.run_files.stream_lines import parse_object, whole_number

LINES_MAX = SAMPLES_MAX + CONTROLS + 2
LINE_BYTES_MAX = 1 << 16
SHARD_CHARS_MAX = 500


def has_stream(run_dir: Path, attempt: int) -> bool:
    """Whether the attempt wrote a stream of steps: one that inspects never does."""
    try:
        return os.stat(stream_path(run_dir, attempt)).st_size > 0
    except OSError:
        return False


def read_samples(run_dir: Path, attempt: int) -> tuple[SampleSeen, ...]:
    """Every sample, in the order written. Raises GiveUp, with place and reason, where the file is not there or not whole."""
    path = samples_path(run_dir, attempt)
    found: list[SampleSeen] = []
    try:
        with open(path, "rb", opener=regular) as file:
            for number in range(1, LINES_MAX + 1):
                line = file.readline(LINE_BYTES_MAX)
                if not line:
                    raise GiveUp(f"{path}: ends after {len(found)} samples, without its end line")
                fields = _object(path, number, line)
                if fields.get("kind") == "sample":
                    found.append(_sample(path, number, fields))
                elif fields.get("kind") == "end":
                    _check_count(path, fields, len(found))
                    return tuple(found)
    except OSError as error:
        raise GiveUp(f"{path}: cannot be read ({error.strerror}): the trainer wrote nothing about the samples") from error
    raise GiveUp(f"{path}: holds more than {LINES_MAX} lines")


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        return parse_object(line)
    except ValueError as error:
        raise GiveUp(f"{path}:{number}: is no line of samples ({error})") from None


def _sample(path: Path, number: int, fields: dict[str, Any]) -> SampleSeen:
    index, norm = whole_number(fields.get("index"), -1), fields.get("grad_norm")
    try:
        if index < 0:
            raise ValueError("index is not a whole number")
        return SampleSeen(
            index,
            as_float(fields.get("loss")),
            None if norm is None else as_float(norm),
            str(fields.get("shard") or "")[:SHARD_CHARS_MAX],
            whole_number(fields.get("offset"), -1) if fields.get("offset") is not None else None,
        )
    except (ValueError, TypeError) as error:
        raise GiveUp(f"{path}:{number}: is no sample ({error})") from None


def _check_count(path: Path, fields: dict[str, Any], count: int) -> None:
    if whole_number(fields.get("samples"), count) != count:
        raise GiveUp(f"{path}: holds {count} samples, and its end line says {fields.get('samples')!r}")
