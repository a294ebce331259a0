"""One rank of a cheap training run: no torch, the contract through `sentinel.client`, a step in some milliseconds.

    python ranked_loop.py STEPS STEP_S

Ranks meet in files of the run's folder, as others meet in a collective: a step begins when every rank has done the one before.
Who waits for a peer for PATIENCE_S leaves as one that lost its peers. Rank 0 writes the stream and saves. That a process of an
attempt ran is noted in RUN_DIR/ran, with its times, so that two attempts that overlap are found out.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

from sentinel.client import Session, loads
from tests.integration.double_trainer import noise, save

PATIENCE_S = 6.0
SAVE_EVERY = 20


class Meeting:
    """Where the ranks of one attempt wait for each other."""

    def __init__(self, session: Session, world: int) -> None:
        self._folder = session.run_dir / "meeting" / f"{session.attempt:04d}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._own, self._world = self._folder / str(session.rank), world

    def has_met(self, step: int, is_over: threading.Event) -> bool:
        """Whether every rank has come to this step within PATIENCE_S."""
        aside = self._own.with_suffix(".new")
        aside.write_text(str(step))
        aside.rename(self._own)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if all(self._step_of(rank) >= step for rank in range(self._world)):
                return True
            is_over.wait(0.005)
        return False

    def stops_at(self, step: int, wants: bool) -> bool:
        """All at one step: the one that rank 0 has named. It names the next, which nobody has passed."""
        place = self._folder / "stop"
        if wants and self._own.name == "0" and not place.exists():
            place.with_suffix(".new").write_text(str(step + 1))
            place.with_suffix(".new").rename(place)
        return place.exists() and step >= int(place.read_text())

    def _step_of(self, rank: int) -> int:
        try:
            return int((self._folder / str(rank)).read_text() or -1)
        except FileNotFoundError:
            return -1


def note(session: Session, word: str) -> None:
    folder = session.run_dir / "ran"
    folder.mkdir(exist_ok=True)
    name = f"{session.attempt}-{session.rank}-{socket.gethostname()}-{os.getpid()}"
    with open(folder / name, "a") as file:
        file.write(f"{word} {time.time():.3f}\n")


def main() -> int:
    steps, step_s = int(sys.argv[1]), float(sys.argv[2])
    session = Session.from_environment()
    assert session is not None, "run me under sentinel"
    asked, world = threading.Event(), int(os.environ["WORLD_SIZE"])
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    note(session, "began")
    session.heartbeat(0, "init")
    meeting, resume = Meeting(session, world), session.spec.resume
    state = {"step": 0, "cursor": 0, "damage": 0.0}
    if resume is not None:
        state = loads((session.run_dir / resume.path / "state.json").read_bytes())
    first = int(state["step"]) + 1
    if session.rank == 0:
        session.start(resume_step=first - 1, resume_digest=resume.digest if resume else None, world_size=world, params=1,
                      tokens_per_step=16, effective={"lr": 1.0, "lr_scale": 1.0, "clip_norm": 1.0})  # fmt: skip
    pause, wants = threading.Event(), False
    for step in range(first, steps + 1):
        session.heartbeat(step, "forward")
        note(session, "lives")
        if not meeting.has_met(step, pause):
            session.record_exit(1, "a peer is gone", peer_lost=True)
            return 1
        pause.wait(step_s)
        session.heartbeat(step, "optimizer")
        request = session.poll_overrides()
        wants = wants or asked.is_set() or (request is not None and request.request is not None)
        stops = meeting.stops_at(step, wants)
        state = {"step": step, "cursor": 16 * step, "damage": 0.0}
        if session.rank == 0:
            session.step(step, samples=[[16 * step - 16, 16 * step]], loss=2.0 + 0.05 * noise(step), grad_norm=1.0, lr=1.0)
            if (step % SAVE_EVERY == 0 or step == steps or stops) and not (
                session.run_dir / "checkpoints" / f"step-{step:08d}"
            ).exists():
                save(session, state, step)
        if stops:
            if session.rank == 0:
                session.end(step, "stopped_on_request")
            session.record_exit(6, step=step)
            return 6
    if session.rank == 0:
        session.end(steps, "finished")
    session.record_exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
