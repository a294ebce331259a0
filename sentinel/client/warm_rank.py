"""A rank in reserve: a program, run by its path in the trainer's Python. It imports what was offered, waits for its orders, and
then is the rank: the attempt's variables, the output's files, the trainer's program from disk.

    PYTHON -u .../warm_rank.py SOCKET module|script NAME KEEPER_PID IMPORTS...

docs/design/warm.md tells the protocol. It must not import `sentinel`: the trainer's own is the one that counts. On its socket, a
JSON line each: it says `ready` or `refused`; hears `orders`, with the files for its output; says `marked`; hears `go`. The end of
the socket, and the end of the keeper, end it, until `go`.
"""

from __future__ import annotations

import sys

if not sys.flags.safe_path:  # this file's own folder: names in it would hide others
    del sys.path[0]

import contextlib
import ctypes
import importlib
import json
import os
import runpy
import signal
import socket
from importlib.machinery import SourceFileLoader

ROOM = "SENTINEL_WARM_ROOM"  # the last variable it is started with: blanks, where the attempt's variables will stand
LINE_MAX = 1 << 20
_PR_SET_PDEATHSIG = 1
_ENV_START, _ENV_END = 47, 48  # of /proc/self/stat, counted behind the command's name

Stamp = tuple[int, int]


class RefusedOrder(Exception):
    """It cannot be a rank of that attempt; why, in words for a person."""


def watch_sources() -> dict[str, Stamp]:
    """Path → time and size of every source, taken before it is read, from now on."""
    seen: dict[str, Stamp] = {}
    plain = SourceFileLoader.path_stats

    def noting(self: SourceFileLoader, path: str) -> object:
        seen.setdefault(path, stamp_of(path))
        return plain(self, path)

    SourceFileLoader.path_stats = noting  # type: ignore[method-assign, assignment]
    return seen


def stamp_of(path: str) -> Stamp:
    """(-1, -1) where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return -1, -1
    return found.st_mtime_ns, found.st_size


def stamps_of_the_rest(seen: dict[str, Stamp]) -> None:
    """Whatever was loaded otherwise: libraries in machine code, and what this Python had imported before."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and os.path.isabs(path):
            seen.setdefault(path, stamp_of(path))


def find_changed(seen: dict[str, Stamp]) -> str:
    """A file that is another one now; empty where there is none."""
    return next((path for path, stamp in seen.items() if stamp_of(path) != stamp), "")


def import_offered(modules: list[str]) -> None:
    """Raises RefusedOrder."""
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - whatever a module does at its import, it is thrown away with this process
            raise RefusedOrder(f"import {name}: {type(error).__name__}: {error}") from None
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        raise RefusedOrder("an offered module touches the GPU at its import; offer others")


def write_marks(variables: dict[str, str]) -> None:
    """Put the variables in force, and into the block that /proc/self/environ shows, in the place of ROOM. Raises RefusedOrder."""
    entries = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in variables.items())
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    block = ctypes.string_at(start, end - start)
    at = block.rfind(ROOM.encode() + b"=")
    if at < 0 or (at and block[at - 1] != 0) or len(entries) > len(block) - at:
        raise RefusedOrder(f"the {len(entries)} bytes of this attempt's variables do not fit into its environment")
    os.environ.pop(ROOM, None)
    os.environ.update(variables)
    ctypes.memset(start + at, 0, len(block) - at)
    ctypes.memmove(start + at, entries, len(entries))


def live_with(keeper_pid: int) -> None:
    """End with the keeper, whatever this process is busy with."""
    _death_signal(signal.SIGKILL)
    if os.getppid() != keeper_pid:
        os._exit(0)


def _death_signal(number: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def prefer_to_die(is_first: bool, score: list[str]) -> None:
    """To the kernel's killer, for as long as it waits."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+") as file:
        score.append(file.read().strip())
        file.seek(0)
        file.write("1000" if is_first else score[0])


def say(line: socket.socket, **words: object) -> None:
    line.sendall(json.dumps(words).encode() + b"\n")


def hear(line: socket.socket) -> tuple[dict[str, object], list[int]]:
    """A line and the files that came with it. Does not return at the end of the socket."""
    text, files = b"", []
    while not text.endswith(b"\n"):
        data, came, _, _ = socket.recv_fds(line, LINE_MAX, 2)
        files += came
        if not data:
            os._exit(0)  # the keeper gave it up
        text += data
    message: dict[str, object] = json.loads(text)
    return message, files


def main() -> None:
    number, kind, name, keeper_pid, *modules = sys.argv[1:]
    live_with(int(keeper_pid))
    score: list[str] = []
    prefer_to_die(True, score)
    line = socket.socket(fileno=int(number))
    os.set_inheritable(line.fileno(), False)
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(os.path.realpath(name)) if kind == "script" else os.getcwd())
    try:
        seen = watch_sources()
        import_offered(modules)
        stamps_of_the_rest(seen)
        say(line, ready=len(seen))
        orders, files = hear(line)
        if changed := find_changed(seen):
            raise RefusedOrder(f"{changed} is not the file any more that was imported")
        if kind == "script" and not os.path.isfile(name):
            raise RefusedOrder(f"{name} is not there any more")
        write_marks(dict(orders["variables"]))  # type: ignore[call-overload]
        say(line, marked=True)
    except RefusedOrder as refused:
        say(line, refused=str(refused))
        os._exit(0)
    hear(line)
    for file, standard in zip(files, (1, 2), strict=True):
        os.dup2(file, standard)
        os.close(file)
    prefer_to_die(False, score)
    _death_signal(0)
    line.close()
    run(kind, name, list(orders["arguments"]))  # type: ignore[call-overload]


def run(kind: str, name: str, arguments: list[str]) -> None:
    """The trainer's program, as Python would have run it."""
    sys.argv = [name, *arguments]
    if kind == "module":
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    main()
