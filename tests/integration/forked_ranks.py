"""Ranks without the wait for `import torch`: a server that imports it once and forks every launch.

What is forked is the real trainer, in processes of its own, with the environment torchrun gives and a store of its own for their
rendezvous; it can be killed, stopped and waited for like any other. Only the imports are saved, two and a half seconds a rank and
as much again for torchrun. What is about torchrun itself (its codes, its signals, its sessions) is tested under torchrun.

As a program this file is the server: a JSON line in for each launch or question, a JSON line out. With arguments it is a launcher
by itself, in the place of torchrun in a supervised command: `supervised_ranks(2, "--preset", "micro")`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND
GRACE_S = 10.0  # between SIGTERM and SIGKILL for the ranks that are left when one fails


class Server:
    """Of one test process; starts at the first question, ends with the test process."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, Any], environ: dict[str, str], cwd: str) -> Any:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=cwd
            )
            atexit.register(self._process.kill)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


SERVER = Server([sys.executable, __file__])


def supervised_ranks(ranks: int, *arguments: str) -> list[str]:
    """The command of a supervised run whose ranks share one import of torch at each launch."""
    return [sys.executable, __file__, str(ranks), "-m", "trainer", *arguments]


class Forked:
    """A launch, with the part of subprocess.Popen that the tests use. `pid` is of the launcher, which waits for the ranks.

    `says`: the file that gets what the ranks print; `first`: Python that every rank runs before it trains.
    """

    def __init__(
        self, arguments: list[str], ranks: int, environ: dict[str, str], cwd: str, says: str = os.devnull, first: str = ""
    ) -> None:
        self._where = environ, cwd
        asked = {"arguments": arguments, "ranks": ranks, "environ": environ, "says": says, "first": first}
        self.pid: int = SERVER.ask(asked, *self._where)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = SERVER.ask({"poll": self.pid}, *self._where)
        return self.returncode

    def kill(self) -> None:
        """The launcher alone; its ranks have sessions of their own, as under torchrun."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        give_up_s = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > give_up_s:
                raise subprocess.TimeoutExpired("forked ranks", timeout)
            time.sleep(0.005)
        return code


def _import_once() -> Any:
    """What every rank would import; torch._dynamo, which FSDP asks for at the first layer, is half of it."""
    import torch
    import torch._dynamo
    import torch.profiler

    import trainer.train  # noqa: F401

    torch.set_num_threads(1)
    return torch


def _serve() -> None:
    torch = _import_once()
    stores: dict[int, Any] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if "poll" in question:
            pid, status = os.waitpid(question["poll"], os.WNOHANG)
            answer = None if pid == 0 else os.waitstatus_to_exitcode(status)
            if pid:
                stores.pop(pid, None)
        else:
            store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
            answer = os.fork()
            if answer == 0:
                os.setsid()
                _redirect(question["says"])
                _launch(question["arguments"], question["ranks"], question["environ"], store.port, question["first"])
            stores[answer] = store
        print(json.dumps(answer), flush=True)


def _launch_supervised(ranks: int, arguments: list[str]) -> None:
    torch = _import_once()
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    _launch(arguments, ranks, dict(os.environ), store.port)


def _launch(arguments: list[str], ranks: int, environ: dict[str, str], port: int, first: str = "") -> None:
    """As torchrun: when one rank fails the others are ended, and the code is 1; a single rank's code is its own."""
    pids = {}
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
            together = {key: str(value) for key, value in world.items()} | {"TORCHELASTIC_USE_AGENT_STORE": "True"}
            _become_rank(arguments, environ | (together if ranks > 1 else {}), first)
        pids[pid] = rank
    worst = 0
    while pids:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        pids.pop(pid)
        if code and not worst:
            worst = code
            for other in pids:
                os.kill(other, signal.SIGTERM)
            signal.signal(signal.SIGALRM, lambda *_: [_kill(other) for other in pids])
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)
    if ranks == 1 and worst < 0:
        os.kill(os.getpid(), -worst)  # as the rank itself
    os._exit(worst if ranks == 1 else int(worst != 0))


def _redirect(says: str) -> None:
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, says, APPENDED), (2, says, APPENDED)):
        os.dup2(os.open(path, flags, 0o600), number)


def _become_rank(arguments: list[str], environ: dict[str, str], first: str) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["trainer", *arguments]
    exec(first, {})
    from trainer.__main__ import main

    try:
        main()
    except SystemExit as left:
        os._exit(int(left.code or 0))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _launch_supervised(int(sys.argv[1]), sys.argv[4:]) if sys.argv[1:] else _serve()
