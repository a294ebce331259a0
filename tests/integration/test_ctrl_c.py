"""Ctrl-C ends every command alike: exit code 130, no traceback, whether it waits for it or is in the middle of something.

(`top` on a terminal: tests/unit/cli/test_top.py; `run` and `demo`, which stop the run: test_bad_input.py.)"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from sentinel.client.run_layout import attempts_folder
from tests.integration.supervised import DEADLINE_S, wait_for
from tests.unit.report.streamed_run import write_streamed

Ready = Callable[["subprocess.Popen[bytes]", Path], object]


@contextmanager
def started(words: list[str], folder: Path, program: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`sentinel WORDS` in a group of its own, as a shell starts it; what it says in folder/out; or a program around it."""
    argv = [sys.executable, "-m", "sentinel", *words] if program is None else [sys.executable, "-c", program, *words]
    with (folder / "out").open("w") as out:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        child = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(DEADLINE_S)


def said(_: subprocess.Popen[bytes], out: Path) -> bool:
    return bool(out.read_text())


def has_workers(child: subprocess.Popen[bytes], _: Path) -> bool:
    return bool(psutil.Process(child.pid).children())


def interrupted(words: list[str], folder: Path, ready: Ready, program: str | None = None) -> None:
    """Ctrl-C reaches the whole group."""
    out = folder / "out"
    with started(words, folder, program) as child:
        wait_for("sign of work", lambda: child.poll() is not None or ready(child, out))
        assert child.poll() is None, f"it ended before it was interrupted: {out.read_text()}"
        os.killpg(child.pid, signal.SIGINT)
        code = child.wait(DEADLINE_S)
    assert code == 130, out.read_text()
    assert "Traceback" not in out.read_text()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run that has not ended: what follows it goes on."""
    found = write_streamed(tmp_path / "run", until=100)
    logs = attempts_folder(found) / "0003" / "logs"
    logs.mkdir(parents=True)
    (logs / "launcher.out").write_text("step 351\n")
    return found


@pytest.mark.parametrize("words", ["logs -f", "events -f", "web --listen 127.0.0.1:0", "mirror push --follow --to {mirror}"])
def test_what_goes_on_with_a_run(run_dir: Path, tmp_path: Path, words: str) -> None:
    interrupted([*words.format(mirror=tmp_path / "mirror").split(), str(run_dir)], tmp_path, said)


def test_what_watches_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f'{{"step": {n}, "loss": {2.0 if n < 300 else "NaN"}}}\n' for n in range(1, 320)))
    interrupted(["watch", str(log)], tmp_path, said)


def test_a_replay_of_several_logs_with_its_workers(tmp_path: Path) -> None:
    for number in range(4):
        rows = (f'{{"step": {n}, "loss": {2.0 + n % 7 / 100}}}\n' for n in range(1, 200_000))
        (tmp_path / f"{number}.jsonl").write_text("".join(rows))
    interrupted(["replay", *(str(tmp_path / f"{number}.jsonl") for number in range(4))], tmp_path, has_workers)


HELD = """
import sys, threading
import {module} as module

def hang(*_, **__):
    print("working", flush=True)
    threading.Event().wait()

module.{name} = hang
from sentinel.cli import main
sys.argv[0] = "sentinel"
main()
"""


@pytest.mark.parametrize(
    ("words", "module", "name"),
    [
        ("autopsy {run}", "sentinel.report.autopsy", "examine"),
        ("report {run}", "sentinel.report.html.writing", "report_command"),
        ("drill --seed 1", "sentinel.sim.drill", "drill_seed"),
        ("policy test x.yaml", "sentinel.sim.cases", "run_case_files"),
        ("mirror verify {run}", "sentinel.mirrors.verifying", "verify_mirror"),
    ],
)
def test_what_is_in_the_middle_of_its_work(run_dir: Path, tmp_path: Path, words: str, module: str, name: str) -> None:
    """The work is made to last, so that the signal comes within it."""
    interrupted(words.format(run=run_dir).split(), tmp_path, said, HELD.format(module=module, name=name))
