"""`sentinel` without the wait for its imports: a server that imports it once and forks every command.

What is forked is the real command line in a process of its own, with the words, environment, directory and output it was given;
it can be killed, stopped and waited for like any other. Only the imports are saved, a second and a half of every process. That
`python -m sentinel` itself starts is tested where it is started so: under a terminal in test_bad_input, twice at once in
test_page_of_a_run, and by the demonstration.

As a program this file is the server: a JSON line in for each command or question, a JSON line out.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.forked_ranks import Server

ROOT = Path(__file__).resolve().parents[2]
SERVER = Server([sys.executable, "-m", "tests.integration.forked_sentinel"])


def _ask(question: dict[str, Any]) -> Any:
    return SERVER.ask(question, dict(os.environ), str(ROOT))


class ForkedSentinel:
    """One command, with the part of subprocess.Popen that the tests use. `dies_at`: see mortal_supervisor."""

    def __init__(
        self,
        words: list[str],
        out: Path,
        err: Path,
        cwd: Path | None = None,
        dies_at: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        asked = {"words": words, "out": str(out), "err": str(err), "cwd": str(cwd or Path.cwd()), "dies_at": dies_at}
        self.pid: int = _ask(asked | {"environ": dict(os.environ if environ is None else environ)})
        self.returncode: int | None = None
        self._ended = os.pidfd_open(self.pid)  # not yet reaped, whatever became of it: that is done when it is asked for

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("sentinel", timeout)
            self.returncode = int(_ask({"reap": self.pid}))
            os.close(self._ended)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def run_sentinel(
    *words: str, cwd: Path | None = None, deadline_s: float = 60.0, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself: its code and what it printed."""
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        code = ForkedSentinel(list(words), out, err, cwd, environ=environ).wait(deadline_s)
        return subprocess.CompletedProcess(["sentinel", *words], code, out.read_text(), err.read_text())


def serve() -> dict[str, Any]:
    """Returns in a forked process, with what it is to become; in the server never."""
    for line in sys.stdin:
        question = json.loads(line)
        if "reap" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["reap"], 0)[1])
        elif (answer := os.fork()) == 0:
            return dict(question)
        print(json.dumps(answer), flush=True)
    os._exit(0)


def become(asked: dict[str, Any]) -> None:
    appended = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, asked["out"], appended), (2, asked["err"], appended)):
        os.dup2(os.open(path, flags), number)
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv = ["sentinel", *asked["words"]]
    if asked["dies_at"] is not None:
        make_mortal(asked["dies_at"])


if __name__ == "__main__":
    import typer.main

    import sentinel.cli.stop
    import sentinel.report.html.page
    import sentinel.report.html.writing
    import sentinel.report.reading
    import sentinel.report.text
    import sentinel.telemetry.inotify
    import sentinel.terminal.choose
    import sentinel.web.opening  # noqa: F401 - what every command would import
    from sentinel.cli.root import app, main
    from tests.integration.mortal_supervisor import make_mortal

    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)  # every option of every command, built once
    become(serve())
    main()
