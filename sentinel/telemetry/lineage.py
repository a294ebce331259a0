"""The end of a run's surviving past: the last steps before the step an attempt resumed at, from its parents' streams.

Attempt N resumed at step r. Its parent is the attempt that wrote the checkpoint at r: the manifest names it; without one it is
the newest earlier attempt that started below r and reached it. The parent's own steps above its resume step and up to r
survived; what came before lies with the parent's parent. Streams are read backwards from their ends, within bounds; what is
missing or damaged makes the history shorter and nothing worse.

    read_history(Path("runs/demo"), attempt=3, resume_step=1000, limit=500)   # oldest first
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import CHECKPOINTS, spec_path, stream_path
from sentinel.model.readings import StepReading
from sentinel.run_files.stream import lines_backwards, read_receipt
from sentinel.run_files.stream_lines import parse_line, parse_object, whole_number

HISTORY_LIMIT = 500
GENERATIONS_MAX = 20
ATTEMPTS_MAX = 100  # looked at to find one parent
BYTES_MAX = 256 << 20  # read backwards, over all generations: an abandoned branch may be long
BLOCK_BYTES = 256 << 10
END_BYTES = 256 << 10
JSON_FILE_BYTES_MAX = 16 << 20  # a manifest names every file of a checkpoint
STEP_PROBE_LINES = 4


def read_history(run_dir: Path, attempt: int, resume_step: int, limit: int = HISTORY_LIMIT) -> tuple[StepReading, ...]:
    """The last `limit` surviving steps at or below `resume_step`, oldest first. Never raises for what is damaged."""
    found: list[StepReading] = []  # newest first
    bound, child, bytes_left = resume_step, attempt, BYTES_MAX
    for _ in range(GENERATIONS_MAX):
        if bound <= 0 or len(found) >= limit:
            break
        parent = _find_parent(run_dir, child, bound)
        if parent is None:
            break
        start = _resume_step_of(run_dir, parent)
        newest = bound
        for block in lines_backwards(stream_path(run_dir, parent), bytes_left, BLOCK_BYTES):
            bytes_left -= sum(len(line) + 1 for line in block)
            newest, is_done = _take_block(block, parent, start, newest, limit, found)
            if is_done:
                break
        bound, child = start, parent
    return tuple(reversed(found))


def read_own(run_dir: Path, attempt: int, last_step: int, limit: int) -> tuple[int, tuple[StepReading, ...]]:
    """Where the attempt began, and the last `limit` steps at or below `last_step` that it trained itself, oldest first."""
    start = _resume_step_of(run_dir, attempt)
    found: list[StepReading] = []
    newest, bytes_left = last_step, BYTES_MAX
    for block in lines_backwards(stream_path(run_dir, attempt), bytes_left, BLOCK_BYTES):
        newest, is_done = _take_block(block, attempt, start, newest, limit, found)
        if is_done:
            break
    return start, tuple(reversed(found))


def read_world_size(run_dir: Path, attempts: Iterable[int]) -> int | None:
    """How many ranks these attempts had, by their receipts; None where they differ, or one does not say."""
    sizes = set()
    for attempt in attempts:
        receipt = read_receipt(run_dir, attempt)
        sizes.add(None if receipt is None else receipt.world_size)
    return sizes.pop() if len(sizes) == 1 else None


def _find_parent(run_dir: Path, child: int, bound: int) -> int | None:
    """The attempt whose checkpoint at step `bound` the child resumed from; None when no stream can be it."""
    named = _attempt_of_checkpoint(run_dir, bound)
    if named is not None and named < child and _resume_step_of(run_dir, named) < bound:
        return named
    nearest: tuple[int, int] | None = None  # a trainer that logs every 10th step may end just short of its checkpoint
    for candidate in range(child - 1, max(-1, child - 1 - ATTEMPTS_MAX), -1):
        start, newest = _resume_step_of(run_dir, candidate), _newest_step(stream_path(run_dir, candidate))
        if start < bound <= newest:
            return candidate
        if start < bound and newest > (nearest[0] if nearest else start):
            nearest = (newest, candidate)
    return nearest[1] if nearest else None


def _attempt_of_checkpoint(run_dir: Path, step: int) -> int | None:
    fields = _read_object(run_dir / CHECKPOINTS / f"step-{step:08d}" / "manifest.json")
    attempt = whole_number(fields.get("attempt"), -1)
    return attempt if attempt >= 0 else None


def _resume_step_of(run_dir: Path, attempt: int) -> int:
    """Where the attempt really began: its receipt's word, else what its spec asked for, else the beginning."""
    receipt = read_receipt(run_dir, attempt)
    if receipt is not None:
        return receipt.resume_step
    resume = _read_object(spec_path(run_dir, attempt)).get("resume")
    return whole_number(resume.get("step"), 0) if isinstance(resume, dict) else 0


def _newest_step(path: Path) -> int:
    """The newest step the stream reached, judged by its end; -1 when no step stands there."""
    for block in lines_backwards(path, END_BYTES, BLOCK_BYTES):
        steps = [step for step in map(_step_of, block) if step is not None]
        if steps:
            return max(steps)
    return -1


def _take_block(
    lines: list[bytes], attempt: int, start: int, newest: int, limit: int, found: list[StepReading]
) -> tuple[int, bool]:
    """Add the block's surviving steps, newest first; returns the step below which to go on, and whether that was all."""
    first_step = next((step for step in map(_step_of, lines[:STEP_PROBE_LINES]) if step is not None), None)
    if first_step is not None and first_step > newest:
        return newest, False  # the whole block lies in the abandoned branch, or was read already
    for line in reversed(lines):
        try:
            reading = parse_line(line, attempt)
        except ValueError:
            continue
        if not isinstance(reading, StepReading) or reading.step > newest:
            continue
        if reading.step <= start or len(found) >= limit:
            return newest, True
        found.append(reading)
        newest = reading.step - 1
    return newest, len(found) >= limit


def _step_of(line: bytes) -> int | None:
    try:
        fields = parse_object(line)
    except ValueError:
        return None
    if fields.get("kind", "step") != "step":
        return None
    step = whole_number(fields.get("step"), -1)
    return step if step >= 0 else None


def _read_object(path: Path) -> dict[str, object]:
    """A small JSON file's object; empty when it is missing, damaged or too large to be one of ours."""
    try:
        with open(path, "rb", opener=regular) as file:
            data = file.read(JSON_FILE_BYTES_MAX)
        return parse_object(data)
    except (OSError, ValueError):
        return {}
