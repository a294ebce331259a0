"""Starts programs from a process that holds no file of the run.

A started program has all files of whoever started it open until it is executed, and closes them then. On a filesystem that hangs
(NFS, FUSE) that close waits, uninterruptibly: a page about that very filesystem would never be sent. So a small process is
started while all is well, and programs are its children, not the supervisor's. A call is a socket of its own, which is handed to
it: one JSON line there, one JSON line back. It leaves when whoever uses it is gone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

KEPT_BYTES = 4096  # of what a program writes, the end
LAST_OUTPUT_S = 1.0  # for what it wrote to arrive, when somebody it started still holds the pipe
ANSWER_S = 5.0  # for the answer behind the program's own time
READ_BYTES = 1 << 16


class Starter:
    """The process, from the side of who uses it; for any thread. It is started anew where it is gone, or after a fork."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._calls: socket.socket | None = None
        self._owner = 0

    def ensure_started(self) -> None:
        """Raises OSError."""
        with self._turn:
            if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
                return
            self._calls, theirs = socket.socketpair()
            with theirs:
                argv = [sys.executable, "-P", "-m", "sentinel.channels.program_starter", str(theirs.fileno())]
                self._process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True, pass_fds=[theirs.fileno()]
                )
            self._owner = os.getpid()

    def run(self, words: Sequence[str], given: bytes, within_s: float) -> dict[str, Any]:
        """Start a program with `given` as its standard input and wait for its end, `within_s` seconds; what came of it, as
        `_run` has it. Raises OSError, TimeoutError too: nothing is known of the program."""
        call = {"words": list(words), "given": given.decode(), "within_s": within_s, "env": dict(os.environ)}
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.ensure_started()
            assert self._calls is not None, "it has been started"
            socket.send_fds(self._calls, [b"."], [theirs.fileno()])
            theirs.close()
            ours.settimeout(2 * within_s + ANSWER_S)
            ours.sendall(json.dumps(call).encode())
            ours.shutdown(socket.SHUT_WR)
            answer = _read_all(ours)
        return dict(json.loads(answer)) if answer else {"failed": "the process that starts programs is gone"}


SHARED = Starter()


def main(handle: int) -> int:
    """The process. Handlers that do nothing, not SIG_IGN, which programs would inherit: who uses it is told to stop as well, and
    pages then."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    os.set_inheritable(handle, False)
    with socket.socket(fileno=handle) as calls:
        while True:
            word, handles, *_ = socket.recv_fds(calls, 1, 1)
            if not word:
                return 0
            for one in handles:
                os.set_inheritable(one, False)
                threading.Thread(target=_serve, args=(socket.socket(fileno=one),), daemon=True).start()


def _serve(call: socket.socket) -> None:
    with call, suppress(OSError, ValueError):
        asked = json.loads(_read_all(call))
        call.sendall(json.dumps(_run(asked)).encode())


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    """`refused`: it can never be started; `failed`: not now; `late`: it was ended after its time; else `code`, as `subprocess`
    has it, and `output`, the end of what it wrote."""
    with tempfile.TemporaryFile() as given:  # a file, not a pipe: a program that does not read it must not hang the writer
        given.write(asked["given"].encode())
        given.seek(0)
        try:
            process = subprocess.Popen(
                asked["words"], stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                env=asked["env"],
            )  # fmt: skip
        except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError) as error:
            return {"refused": getattr(error, "strerror", None) or str(error)}
        except OSError as error:
            return {"failed": error.strerror or str(error)}
    output = _Output(process)
    try:
        return {"code": process.wait(asked["within_s"]), "output": output.end()}
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(asked["within_s"])
        return {"late": True}


class _Output:
    """The end of what a program writes; the rest is read and forgotten, so that it neither blocks nor fills anything."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._pipe = process.stdout
        self._end = b""
        self._thread = threading.Thread(target=self._drain, name="sentinel-program-output", daemon=True)
        self._thread.start()

    def end(self) -> str:
        self._thread.join(LAST_OUTPUT_S)
        return self._end.decode("utf-8", "replace")

    def _drain(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            while part := self._pipe.read1(READ_BYTES):  # type: ignore[attr-defined]
                self._end = (self._end + part)[-KEPT_BYTES:]


def _read_all(call: socket.socket) -> bytes:
    blocks = []
    while block := call.recv(READ_BYTES):
        blocks.append(block)
    return b"".join(blocks)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
