"""A conforming trainer in one process and no torch: PROTOCOL.md through `sentinel.client`, a step in a few milliseconds.

    python double_trainer.py STEPS STEP_S [--bad A-B] [--kill N] [--hang N] [--crash N] [--oom N]
                             [--exit CODE] [--die] [--missing] [--ranks N] [--slow RANK] [--unsaved N]
                             [--nan N] [--hurried] [--polite]
                             [--read N] [--saving S] [--pruned N] [--warmed]

The loss is a pure function of the step and of the damage in the state, so two runs can be compared value by value. Training
on a bad sample damages the state; the damage stands in the checkpoints. Faults strike once per run, recorded durably.
`--ranks N` speaks for so many ranks, of which the slow one takes four step times for its data while the others wait in forward;
after step `--unsaved N` nothing is saved any more. `--nan N`: a safetensors file lies in each checkpoint, from step N of the
first attempt on with a NaN in it. `--hurried`: steps take no time once RUN_DIR/hurry is there. `--polite`: on SIGTERM it saves
and leaves with 0, and writes no end line, as many trainers do. `--read N`: it reads RUN_DIR's neighbour `slow/shard` at that
step. `--saving S`: seconds that a save takes until its checkpoint is in place. `--pruned N`: the last step waits until the
checkpoint of step N has been deleted. `--warmed`: it offers its imports (as with WARM=1, tests/warm.py), and a fault strikes
once a reserve is ready.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path

from sentinel.client import Session, dumps, loads, warm, write_atomically

BATCH = 16
SAVE_EVERY = 25


class MemoryRanOut(RuntimeError):
    """Printed as torch's own: its traceback ends in torch.OutOfMemoryError."""

    __module__, __qualname__ = "torch", "OutOfMemoryError"


def noise(step: int) -> float:
    return int(hashlib.sha256(str(step).encode()).hexdigest()[:8], 16) / 2**32 - 0.5


def take(cursor: int, skip: list[tuple[int, int]]) -> tuple[list[list[int]], int]:
    """The first BATCH indices at or after the cursor that are not skipped, as ranges; and the cursor behind them."""
    ranges: list[list[int]] = []
    left = BATCH
    while left:
        hit = next((end for start, end in skip if start <= cursor < end), None)
        if hit is not None:
            cursor = hit
            continue
        if ranges and ranges[-1][1] == cursor:
            ranges[-1][1] += 1
        else:
            ranges.append([cursor, cursor + 1])
        cursor += 1
        left -= 1
    return ranges, cursor


def save(session: Session, state: dict[str, float], step: int, weight: float | None = None, takes_s: float = 0.0) -> None:
    """`weight`: one of the values of its safetensors file; None: it has no such file."""
    folder = session.run_dir / "checkpoints"
    folder.mkdir(exist_ok=True)
    aside = folder / f".step-{step:08d}.{os.getpid()}.tmp"
    aside.mkdir()
    contents = {"state.json": dumps(state).encode()}
    if weight is not None:
        header = b'{"layer.3.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
        contents["model.safetensors"] = struct.pack("<Q", len(header)) + header + struct.pack("<4f", 1.0, 0.5, weight, 0.0)
    files = {}
    for name, data in contents.items():
        write_atomically(aside / name, data)
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {"v": 1, "step": step, "attempt": session.attempt, "cursor": state["cursor"], "files": files}
    write_atomically(aside / "manifest.json", dumps(manifest).encode())
    if takes_s:
        session.heartbeat(step, "checkpoint")
        threading.Event().wait(takes_s)
    if not session.may_commit():
        raise SystemExit(1)
    os.rename(aside, folder / f"step-{step:08d}")
    write_atomically(folder / "latest", f"step-{step:08d}\n".encode())  # a habit of its own, which sentinel sets right
    session.event("checkpoint_committed", step=step, path=f"checkpoints/step-{step:08d}", seconds=0.001)


def load(ranks: list[Session], step: int, slow: int | None, slow_s: float, tick: threading.Event) -> None:
    """Every rank loads its data; the slow one is still at it when the others have gone on to meet it."""
    for rank in ranks:
        rank.heartbeat(step, "data")
    for rank in sorted(ranks, key=lambda rank: rank.rank == slow):
        if rank.rank == slow:
            tick.wait(slow_s)
        rank.heartbeat(step, "forward")


def strikes(session: Session, name: str) -> bool:
    """Whether a fault that strikes once may strike now; recorded before it does."""
    path = session.run_dir / f"struck-{name}"
    if path.exists():
        return False
    if "--warmed" in sys.argv:
        wait_for_reserve(session, int(name.rpartition("-")[2]))
    write_atomically(path, b"1")
    return True


def wait_until_gone(session: Session, step: int, tick: threading.Event) -> None:
    """Until the checkpoint of this step is there no longer. 60 s at most: a test says what is wrong then."""
    end = time.monotonic() + 60.0
    while (session.run_dir / "checkpoints" / f"step-{step:08d}").exists() and time.monotonic() < end:
        tick.wait(0.05)


def wait_for_reserve(session: Session, step: int) -> None:
    """Until the next attempt's ranks are there. 60 s at most: a test says what is wrong then."""
    end, tick = time.monotonic() + 60.0, threading.Event()
    while time.monotonic() < end and b'"state":"ready"' not in (session.run_dir / "warm.json").read_bytes():
        session.heartbeat(step, "idle")
        tick.wait(0.05)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("step_s", type=float)
    parser.add_argument("--bad")
    for name in ("kill", "hang", "crash", "exit", "oom", "slow", "unsaved", "nan", "read", "pruned"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--warmed", action="store_true")
    parser.add_argument("--hurried", action="store_true")
    parser.add_argument("--polite", action="store_true")
    parser.add_argument("--saving", type=float, default=0.0)
    parser.add_argument("--die", action="store_true")
    parser.add_argument("--liar", action="store_true", help="obey nothing, and let the receipt repeat the request")
    parser.add_argument("--missing", action="store_true", help="import a module that is not installed, before anything else")
    options = parser.parse_args()
    if options.missing:
        __import__("flash_attention_of_nobody")
    bad = tuple(int(x) for x in options.bad.split("-")) if options.bad else (0, 0)
    session = Session.from_environment()
    assert session is not None, "run me under sentinel"
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    session.heartbeat(0, "init")
    if options.die:
        session.record_exit(1, "dies before its first step")
        return 1
    if options.exit is not None:
        session.record_exit(options.exit, "asked to leave with this code")
        return options.exit
    resume = session.spec.resume
    state = {"step": 0, "cursor": 0, "damage": 0.0}
    if resume is not None:
        state = loads((session.run_dir / resume.path / "state.json").read_bytes())
    skip = [(a, b) for a, b, *_ in session.spec.overrides.skip]
    lr = session.spec.overrides.lr_scale or 1.0
    effective = {"lr": lr, "lr_scale": lr, "clip_norm": session.spec.overrides.clip_norm or 1.0}
    if options.liar:
        skip, lr, effective = [], 1.0, {"clip_norm": session.spec.overrides.clip_norm or 1.0}
    session.start(
        resume_step=int(state["step"]), resume_digest=resume.digest if resume else None, world_size=options.ranks, params=1,
        tokens_per_step=BATCH, effective=effective, **({"steps": options.steps} if options.polite else {}),
    )  # fmt: skip
    if options.warmed or os.environ.get("WARM", "0") not in ("", "0"):
        warm.offer("argparse", "sentinel.client")
    tick = threading.Event()
    ranks = [session, *(Session(session.run_dir, session.spec, rank) for rank in range(1, options.ranks))]
    for step in range(int(state["step"]) + 1, options.steps + 1):
        load(ranks, step, options.slow, 4 * options.step_s, tick)
        if options.pruned is not None and step == options.steps:
            session.heartbeat(step, "idle")
            wait_until_gone(session, options.pruned, tick)
        if step == options.kill and strikes(session, f"kill-{step}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if step == options.hang and strikes(session, f"hang-{step}"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if step == options.read and strikes(session, f"read-{step}"):
            (session.run_dir.parent / "slow" / "shard").read_bytes()
        if step == options.crash and strikes(session, f"crash-{step}"):
            session.record_exit(1, "crash asked for")
            return 1
        if step == options.oom and strikes(session, f"oom-{step}"):
            raise MemoryRanOut("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB.")
        ranges, cursor = take(int(state["cursor"]), skip)
        poisoned = any(a < bad[1] and bad[0] < b for a, b in ranges)
        damage = state["damage"] + (0.4 if poisoned else 0.0)
        loss = 2.0 + 2.0 * math.exp(-step / 50) + 0.05 * noise(step) + damage + (3.0 if poisoned else 0.0)
        for rank in ranks:
            rank.heartbeat(step, "optimizer")
        if not (options.hurried and (session.run_dir / "hurry").exists()):
            tick.wait(options.step_s)
        state = {"step": step, "cursor": cursor, "damage": damage}
        session.step(step, samples=ranges, loss=loss, grad_norm=1.0 + 0.1 * noise(-step) + damage, lr=lr)
        request = session.poll_overrides()
        stop = request.request if request is not None and request.request else None
        if request is not None:
            skip += [(a, b) for a, b, *_ in request.skip]
            lr = request.lr_scale if request.lr_scale is not None else 1.0 if "lr_scale" in request.given else lr
            session.event("override_applied", step=step + 1, id=request.id, effective={"lr": lr, "lr_scale": lr})
        if asked_to_stop.is_set():
            stop = "stop_after_checkpoint"
        is_due = step % SAVE_EVERY == 0 or step == options.steps or stop == "stop_after_checkpoint"
        is_due = is_due and (options.unsaved is None or step <= options.unsaved)
        if is_due and not (session.run_dir / "checkpoints" / f"step-{step:08d}").exists():
            is_nan = options.nan is not None and step >= options.nan and session.attempt == 1
            save(session, state, step, None if options.nan is None else math.nan if is_nan else 0.25, options.saving)
        if options.polite and asked_to_stop.is_set():
            return 0
        if stop in ("stop_after_checkpoint", "stop_now"):
            session.end(step, "stopped_on_request")
            session.record_exit(6, step=step)
            return 6
    session.end(options.steps, "finished")
    session.record_exit(0)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.exit(main())
