"""`make bench-long-life`: a run of sixty days is made, and everything that reads it is timed.

    python -m tests.bench.long_life [--dir DIR] [--only commands,page,loop]

Wall time is the median of three, after one that warms the caches and stands in a column of its own; the processor's seconds are
of the same three, because other work on the machine moves the first and not the second. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .shape import ATTEMPTS, INCIDENTS, STEPS, STRIDE, WHOLE

GOAL_S = 2.0
RUNS = 3
TIMEOUT_S = 300.0
PARTS = ("commands", "page", "loop")
MAKE = """
import sys, time
from pathlib import Path
from tests.bench.long_life.folder import write_run
from tests.bench.long_life.shape import Shape
write_run(Path(sys.argv[1]), Shape(), time.time())
"""
SCRAPE = """
import sys
from pathlib import Path
from sentinel.metrics.exposition import exposition
from sentinel.report.following import FollowedRun
sys.stdout.buffer.write(exposition([FollowedRun(Path(sys.argv[1])).refresh()]))
"""


@dataclass(frozen=True)
class Took:
    """One call of a command."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    printed_bytes: int
    status: int


def measure(words: Sequence[str | Path]) -> Took:
    """The peak is of the process alone, unless it is below this one's own, which a child inherits."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as it is installed
    command = [str(word) for word in words]
    with tempfile.TemporaryFile() as out:
        began_s = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environ)
        _, status, used = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - began_s
        child.returncode = os.waitstatus_to_exitcode(status)
        size = os.fstat(out.fileno()).st_size
        return Took(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, size, child.returncode)


def commands(run_dir: Path, scratch: Path) -> dict[str, list[str]]:
    """Every command that reads a run, by how it is called."""
    newest, middle = str(ATTEMPTS), str(INCIDENTS // 2)
    ran = {
        "status": ["status"],
        "status --json": ["status", "--json"],
        "doctor": ["doctor"],
        "incidents": ["incidents"],
        "incidents --json": ["incidents", "--json"],
        f"incidents show {middle}": ["incidents", "show", middle],
        "lineage": ["lineage"],
        "lineage --json": ["lineage", "--json"],
        "events": ["events"],
        "events --json": ["events", "--json"],
        f"events --incident {middle}": ["events", "--incident", middle],
        "logs": ["logs"],
        f"logs --attempt {newest} --rank 0 --tail 10": ["logs", "--attempt", newest, "--rank", "0", "--tail", "10"],
        "top --once": ["top", "--once"],
        "report": ["report", "--out", str(scratch / "run.html")],
        f"report {middle}": ["report", middle, "--out", str(scratch / "incident.html")],
        f"report {INCIDENTS}": ["report", str(INCIDENTS), "--out", str(scratch / "last.html")],
        "chronicle": ["chronicle"],
        "checkpoints list": ["checkpoints", "list"],
        "journal verify": ["journal", "verify"],
    }
    python = [sys.executable, "-m", "sentinel"]
    made = {name: [*python, *words, str(run_dir)] for name, words in ran.items()}
    made["(/metrics, as a process of its own)"] = [sys.executable, "-c", SCRAPE, str(run_dir)]
    return made


def time_commands(run_dir: Path, chosen: Sequence[str]) -> None:
    print("\n| `sentinel …` | first | median of 3 | processor | peak | prints | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name, words in commands(run_dir, Path(scratch)).items():
            if chosen and not any(name.startswith(one) for one in chosen):
                continue
            first, *rest = [measure(words) for _ in range(RUNS + 1)]
            wall_s, cpu_s = (statistics.median(getattr(one, what) for one in rest) for what in ("wall_s", "cpu_s"))
            peak = max(one.peak_mib for one in rest)
            verdict = "" if wall_s < GOAL_S else "over 2 s"
            verdict += "" if rest[-1].status in (0, 1) else f" exit {rest[-1].status}"
            size = f"{rest[-1].printed_bytes / 1e3:,.0f} kB"
            seconds = " | ".join(f"{one:.2f} s" for one in (first.wall_s, wall_s, cpu_s))
            print(f"| {name} | {seconds} | {peak:.0f} MiB | {size} | {verdict} |", flush=True)


def make_run(run_dir: Path) -> None:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", MAKE, str(run_dir)], check=True)
    took_s = time.perf_counter() - began_s
    size = sum(path.stat().st_size for path in run_dir.rglob("*") if path.is_file())
    made = f"{ATTEMPTS} attempts of {STEPS:,} steps, {INCIDENTS} incidents, {size / 1e9:.2f} GB"
    print(f"made in {took_s:.0f} s: {made}", flush=True)
    print(f"the newest {WHOLE} attempts have a line for every step, the older ones for every {STRIDE}th")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-long-life", description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the run is made, and kept; one that is there is taken as it is")
    parser.add_argument("--only", default=",".join(PARTS), help="which parts: " + ",".join(PARTS))
    parser.add_argument("chosen", nargs="*", help="only commands that begin so")
    arguments = parser.parse_args()
    place = arguments.dir or Path(tempfile.mkdtemp(prefix="sentinel-long-life-"))
    try:
        take_part(place / "run", arguments.only.split(","), arguments.chosen)
    finally:
        if arguments.dir is None:
            shutil.rmtree(place)
    return 0


def take_part(run_dir: Path, parts: Sequence[str], chosen: Sequence[str]) -> None:
    if not run_dir.exists():
        make_run(run_dir)
    if "commands" in parts:
        time_commands(run_dir, chosen)
    for part in ("page", "loop"):
        if part in parts:
            subprocess.run([sys.executable, "-m", f"{__package__}.{part}", str(run_dir)], check=True)


if __name__ == "__main__":
    sys.exit(main())
