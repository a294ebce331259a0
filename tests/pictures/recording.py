"""The two runs that the pictures show: the demonstration, and a night that nothing repairs. Both are real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sentinel.cli.top import TopOfRun
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.report.reading import read_run
from tests.loopback import HttpServer
from tests.pictures.film import Moment, moment_of

ROOT = Path(__file__).resolve().parents[2]
SENTINEL = [sys.executable, "-m", "sentinel"]
TRAINER = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trainer"]
NIGHT = ["--preset", "micro", "--set", "schedule.steps=160", "checkpoint.every=20", "--fault", "nan_state@step=90:always"]
LOOK_S = 0.5
DEADLINE_S = 1800.0
MOMENTS = "moments.json"  # beside the runs


def record_demo(folder: Path, options: Sequence[str] = ()) -> list[Moment]:
    """Run the demonstration, and look at it twice a second as `sentinel top` does. Kept in the folder for `read_moments`.

    Raises RuntimeError where it does not end as it should.
    """
    words = [*SENTINEL, "demo", "--run-dir", "demo", "--listen", "off", *options]
    with (folder / "demo.log").open("w") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, env=_environment())
    try:
        moments = list(_looks(folder / "demo", process))
    finally:
        process.terminate()
        code = process.wait(60)
    if code != 0:
        raise RuntimeError(f"the demonstration ended with exit code {code}; see {folder / 'demo.log'}")
    check_incidents(folder / "demo", ("crash", "hang", "spike"))
    (folder / MOMENTS).write_text(json_of(moments))
    return moments


def check_incidents(run_dir: Path, kinds: tuple[str, ...]) -> None:
    """A machine that is busy with something else hangs a rank where nobody asked for it, and the pictures would tell of that."""
    found = tuple(str(incident.kind) for incident in read_run(run_dir).state.incidents)
    if found != kinds:
        shown = ", ".join(found) or "nothing"
        raise RuntimeError(f"{run_dir}: {shown} happened, and not {', '.join(kinds)}; try again on a quiet machine")


def json_of(moments: Sequence[Moment]) -> str:
    return json.dumps([moment.as_json() for moment in moments])


def read_moments(folder: Path) -> list[Moment]:
    return [Moment.from_json(document) for document in json.loads((folder / MOMENTS).read_text())]


def record_night(folder: Path) -> None:
    """A run whose weights become NaN in every attempt, until the ladder is exhausted and a person is called."""
    with HttpServer() as receiver:
        options = ["--run-dir", "night", "--policy", "demo", "--listen", "off", "--page", f"webhook={receiver.url}"]
        words = [*SENTINEL, "run", *options, "--", *TRAINER, *NIGHT]
        with (folder / "night.log").open("w") as log:
            code = subprocess.run(words, cwd=folder, stdout=log, stderr=log, env=_environment()).returncode
    if code != 1:
        raise RuntimeError(f"a run that nothing repairs ended with exit code {code} and not 1; see {folder / 'night.log'}")
    check_incidents(folder / "night", ("non_finite",))


@contextmanager
def served(folder: Path, runs: Sequence[str]) -> Iterator[str]:
    """`sentinel web` over these; its address."""
    words = [*SENTINEL, "web", *runs, "--listen", "127.0.0.1:0"]
    with (folder / "web.log").open("w") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, env=_environment())
    try:
        yield _address(folder / "web.log", process)
    finally:
        process.terminate()
        process.wait(30)


def _looks(run_dir: Path, process: subprocess.Popen[bytes]) -> Iterator[Moment]:
    deadline = time.monotonic() + DEADLINE_S
    while (top := _open(run_dir)) is None:
        if process.poll() is not None:
            raise RuntimeError(f"the demonstration did not begin; see {run_dir.parent / 'demo.log'}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"the demonstration has not begun within {DEADLINE_S:.0f} s; see {run_dir.parent / 'demo.log'}")
        time.sleep(LOOK_S)
    with closing(top):
        while True:
            is_over = process.poll() is not None  # asked first: then the last look sees the end
            picture = top.refresh()
            if picture is not None:
                yield moment_of(picture)
            if is_over and (picture is None or picture.state.ended):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"the demonstration was not over after {DEADLINE_S:.0f} s; see {run_dir.parent / 'demo.log'}")
            time.sleep(LOOK_S)


def _open(run_dir: Path) -> TopOfRun | None:
    """None while it has no fact yet."""
    if not (run_dir / JOURNAL_NAME).exists():
        return None
    try:
        return TopOfRun(run_dir, SystemClock(), blocks=True)
    except UsageError:
        return None


def _environment() -> dict[str, str]:
    """The runs lie in a folder of their own, and import this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found = [word for word in log.read_text().split() if word.startswith("http://")]
        if found:
            return found[0]
        time.sleep(0.1)
    raise RuntimeError(f"no page within a minute; see {log}")
