"""One program of a stage: run to its end or its deadline, and heard while it speaks, so that what it said outlives a kill."""

from __future__ import annotations

import codecs
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..processes import LEFT_OPEN_S, Completed, end

READ_BYTES = 1 << 16
TICK_S = 1.0
Heard = Callable[[str], None]
"""Called with each piece of output as it comes, and with "" in every second without one."""


def run_heard(argv: Sequence[str], limit_s: float, environ: Mapping[str, str], folder: Path, heard: Heard) -> Completed:
    """Waits for it, and ends it with everything that it started at its deadline. Raises OSError where it cannot be started."""
    process = subprocess.Popen(
        argv, env=environ, cwd=folder, process_group=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(process, pieces), daemon=True).start()
    until_s, output, is_open = time.monotonic() + limit_s, [], True
    try:
        while is_open:
            piece = next_piece(pieces, until_s)
            is_open = piece is not None
            if piece is not None:
                output.append(piece)
                heard(piece)
        code: int | None = process.wait(timeout=max(0.0, until_s - time.monotonic()))
    except (queue.Empty, subprocess.TimeoutExpired):
        end(process)
        output += _rest(pieces) if is_open else []
        code = None
    except BaseException:  # Ctrl-C does not reach a group of its own
        end(process)
        raise
    return Completed(code, "".join(output))


def next_piece(pieces: queue.SimpleQueue[str | None], until_s: float) -> str | None:
    """ "" after a second without any; None where the output ends. Raises queue.Empty at `until_s`."""
    left_s = until_s - time.monotonic()
    try:
        return pieces.get(timeout=max(0.0, min(TICK_S, left_s)))
    except queue.Empty:
        if left_s <= TICK_S:
            raise
        return ""


def _read(process: subprocess.Popen[bytes], pieces: queue.SimpleQueue[str | None]) -> None:
    """To the end of its output, character by character whole; then None."""
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with process.stdout as stream:
        while piece := os.read(stream.fileno(), READ_BYTES):
            pieces.put(decoder.decode(piece))
    pieces.put(decoder.decode(b"", final=True))
    pieces.put(None)


def _rest(pieces: queue.SimpleQueue[str | None]) -> list[str]:
    """What was still on its way. A process that left its group may hold the pipe open: LEFT_OPEN_S at most."""
    rest: list[str] = []
    until_s = time.monotonic() + LEFT_OPEN_S
    while True:
        try:
            piece = pieces.get(timeout=max(0.0, until_s - time.monotonic()))
        except queue.Empty:
            return rest
        if piece is None:
            return rest
        rest.append(piece)
