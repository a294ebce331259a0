"""The supervisor's loop over a long run: the fold, the catch-up, and thousands of turns while the trainer goes on.

    python -m tests.bench.long_life.loop RUN_DIR [TURNS]

A real journal, engine, daemon and telemetry; the launcher says that the attempt lives, and what is decided succeeds at once. A
turn is timed with what a supervisor does at each: lease, detectors' standings, journal. Two step lines are written before each
turn, and nothing waits. Boards and reports have threads of their own in a supervisor, and none here.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

from sentinel.client.run_layout import stream_path
from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.journal.run_file import find_run_file
from sentinel.journal.session import RunSession, take_run
from sentinel.model.events import SupervisorStarted
from sentinel.model.readings import StepReading
from sentinel.policy_files.loading import load_policy
from sentinel.run_files.detector_standings import StandingsFile
from sentinel.run_files.stream_end import find_newest
from sentinel.run_files.stream_lines import parse_line
from sentinel.supervisor.daemon import Daemon
from sentinel.telemetry.run_telemetry import RunTelemetry
from tests.bench.willing_world import AtOnce, StillAlive

from .folder import step_line
from .shape import STEP_S, Shape, Told

TURNS = 6000
LINES = 2
MEMORY_EVERY = 1000
CATCH_UP_TURNS_MAX = 100_000


def rss_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Trainer:
    """Goes on with the newest attempt's stream where it ends."""

    def __init__(self, path: Path, attempt: int) -> None:
        with path.open("rb") as file:
            file.seek(find_newest(path, 1))
            newest = parse_line(file.readline(), attempt)
        assert isinstance(newest, StepReading)
        self.step = newest.step
        self._told = Told(Shape(), attempt, 0, newest.time_s - newest.step * STEP_S)
        self._file = path.open("a")

    def write(self, lines: int) -> None:
        self._file.write("".join(step_line(self._told, step, False) for step in range(self.step + 1, self.step + 1 + lines)))
        self._file.flush()
        self.step += lines


def shares(ms: list[float]) -> tuple[float, ...]:
    """Median, p99, longest."""
    ordered = sorted(ms)
    return tuple(ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99, 1))


def supervise(run_dir: Path, session: RunSession, turns: int) -> None:
    run = find_run_file(run_dir)
    assert run is not None
    began_s = time.perf_counter()
    engine = Engine(load_policy(run.policy.path))
    engine.restore(session.journal.read_entries())
    facts = session.journal.end().seq
    print(f"| fold of {facts:,} facts | {time.perf_counter() - began_s:.2f} s |")
    clock = SystemClock(session.journal.last_at_s())
    daemon = Daemon(engine, session.journal, RunTelemetry(run_dir, StillAlive()), AtOnce(), session.epoch)
    name, digest = run.policy.name, run.policy.digest
    standings = StandingsFile(run_dir)
    daemon.start(clock.now_s(), SupervisorStarted(session.epoch, "h", 1, run.id, run.command, "/", name, digest, False))

    def turn() -> tuple[float, bool]:
        before_s, now_s = time.perf_counter(), clock.now_s()
        session.lease.renew(now_s)
        assert not session.lease.is_lost()
        standings.keep(now_s, engine)
        session.journal.fold_when_quiet(now_s)
        has_more = daemon.turn(now_s) == 0.0
        return time.perf_counter() - before_s, has_more

    began_s, behind, used, has_more = time.perf_counter(), list[float](), list[float](), True
    while has_more and len(behind) < CATCH_UP_TURNS_MAX:
        before_s = time.process_time()
        took_s, has_more = turn()
        behind.append(1e3 * took_s)
        used.append(1e3 * (time.process_time() - before_s))
    attempt = engine.watched
    read = engine.detectors.newest_step
    print(f"| catch-up to step {read:,} of attempt {attempt} | {time.perf_counter() - began_s:.1f} s in {len(behind)} turns |")
    median, p99, longest = shares(behind)
    print(f"| a turn of the catch-up | median {median:.1f} ms, p99 {p99:.1f} ms, max {longest:.1f} ms |")
    median, p99, longest = shares(used)
    print(f"| of the processor | median {median:.1f} ms, p99 {p99:.1f} ms, max {longest:.1f} ms |")
    trainer = Trainer(stream_path(run_dir, attempt), attempt)
    gc.collect()
    memory, took = [rss_mib()], []
    for number in range(1, turns + 1):
        trainer.write(LINES)
        took.append(turn()[0])
        if number % MEMORY_EVERY == 0:
            memory.append(rss_mib())
    assert engine.detectors.newest_step == trainer.step, "the loop has read what was written"
    median, p99, longest = shares([1e3 * one for one in took])
    print(f"| {turns:,} turns of {LINES} lines | median {median:.1f} ms, p99 {p99:.1f} ms, max {longest:.1f} ms |")
    print(f"| memory, each {MEMORY_EVERY:,} turns | {' '.join(f'{one:.0f}' for one in memory)} MiB |")
    print(f"| facts written meanwhile | {session.journal.end().seq - facts} |")


def main() -> int:
    run_dir, turns = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    began_s = time.perf_counter()
    print("\n| the supervisor's loop | |\n|---|---|")
    with take_run(run_dir) as session:
        print(f"| the run is taken (journal checked) | {time.perf_counter() - began_s:.2f} s |")
        supervise(run_dir, session, turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
