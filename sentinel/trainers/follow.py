"""Follows a trainer that knows nothing of Sentinel: writes its stream of steps, and seals its checkpoints.

    python -P -m sentinel.trainers.follow RUN_DIR ATTEMPT TRAINER_PID

It reads what the profile names (what the trainer prints, a file, TensorBoard's files) and writes `attempts/N/metrics.jsonl` as a
trainer with Sentinel's client would. It ends after the trainer.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from sentinel.client.run_layout import stream_path
from sentinel.client.stream import Stream
from sentinel.trainers.life import Life
from sentinel.trainers.remarks import FollowerNotes
from sentinel.trainers.sealer import Sealer
from sentinel.trainers.sources import open_sources
from sentinel.trainers.spec import read_trainer_spec
from sentinel.trainers.stream_writer import Writer
from sentinel.trainers.unread import Unread

POLL_S = 0.2


def follow(run_dir: Path, attempt: int, trainer_pid: int) -> None:
    """Until the trainer is gone."""
    spec = read_trainer_spec(run_dir, attempt)
    assert spec is not None, "the attempt has a profile"
    try:
        trainer = os.pidfd_open(trainer_pid)
    except ProcessLookupError:  # it is gone already; what it left is read
        trainer = os.open(os.devnull, os.O_RDONLY)
    os.nice(10)
    sources = open_sources(run_dir, attempt, spec)
    stream = Stream(stream_path(run_dir, attempt), attempt, raises=True)  # who follows is started again, and loses nothing
    writer = Writer(stream, spec)
    writer.recall(run_dir, attempt)
    remarks, unread = FollowerNotes(run_dir, attempt), Unread(run_dir, attempt, spec, time.monotonic())
    sealer, life = Sealer(run_dir, attempt, spec, remarks), Life(run_dir, attempt, trainer_pid)
    while not _is_over(trainer, POLL_S):
        now_s = time.monotonic()
        rows = [row for source in sources for row in source.poll()]
        writer.take(rows, now_s)
        if writer.newest < 0 and not writer.waiting and (why := unread.why(now_s)):
            remarks.add(why)
        sealer.turn(writer.stream, writer.resume_step, now_s)
        if rows:
            life.row(writer.numbering.reached, now_s)
        life.turn(sealer.has_saved(writer.newest), now_s)
    writer.take([row for source in sources for row in source.finish()], time.monotonic())
    writer.begin()
    if writer.newest < 0 and (why := unread.why_at_end()):
        remarks.add(why)
    sealer.finish(writer.stream, writer.resume_step)


def _is_over(trainer: int, wait_s: float) -> bool:
    import select

    return bool(select.select([trainer], [], [], wait_s)[0])


def main(arguments: list[str] | None = None) -> int:
    run_dir, attempt, pid = sys.argv[1:] if arguments is None else arguments
    follow(Path(run_dir), int(attempt), int(pid))
    return 0


if __name__ == "__main__":
    sys.exit(main())
