"""Runs programs to their end or their deadline, and ends them with everything that they started.

A compiler is a tree of processes. Killing only the first would leave the others running, and its output open.
"""

from __future__ import annotations

import codecs
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LEFT_OPEN_S = 10.0
READ_BYTES = 1 << 16
TICK_S = 1.0
OnOutput = Callable[[str], None]
"""Called with each piece of output as it comes, and with "" in every second without one."""


@dataclass(frozen=True)
class Completed:
    code: int | None
    """None: it met its deadline."""
    output: str


class Programs:
    """Programs that run beside one another, in threads, and can be ended together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def run(
        self, command: Sequence[str], limit_s: float, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Completed:
        """Waits for it. Raises OSError where it cannot be started."""
        with self._lock:
            if self._over:
                return Completed(-signal.SIGKILL, "")
            process = subprocess.Popen(
                command, env=environ, cwd=folder, process_group=0, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._running.add(process)
        try:
            output, _ = process.communicate(timeout=limit_s)
            return Completed(process.returncode, output)
        except subprocess.TimeoutExpired:
            end(process)
            return Completed(None, remaining_output(process))
        except BaseException:  # Ctrl-C does not reach a group of its own
            end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)

    def end_all(self) -> None:
        """Ends those that run, and starts no more."""
        with self._lock:
            self._over = True
            for process in self._running:
                end(process)


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def remaining_output(process: subprocess.Popen[str]) -> str:
    """Its output so far. A process that left its group may hold the pipe open: wait LEFT_OPEN_S at most."""
    try:
        return process.communicate(timeout=LEFT_OPEN_S)[0]
    except subprocess.TimeoutExpired as error:
        output = error.output or ""
        return output if isinstance(output, str) else output.decode(errors="replace")


def run_streaming(
    argv: Sequence[str], limit_s: float, environ: Mapping[str, str], folder: Path, on_output: OnOutput
) -> Completed:
    """Like `Programs.run`, of one program that is heard while it speaks, so that what it said outlives a kill."""
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
                on_output(piece)
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
