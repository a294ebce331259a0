"""What the keeper starts for a trainer under a profile: makes its folder ready, starts the follower, becomes the trainer.

    python -P -m sentinel.trainers.start RUN_DIR ATTEMPT

It replaces itself by the trainer's command (exec), so that exit status, signals and process numbers are the trainer's own.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import select
import socket
import sys
import time
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.closed_files import open_closed
from sentinel.client.masking import Masking
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import attempt_folder, rank_file, spec_path
from sentinel.client.strict_json import dumps, loads
from sentinel.run_files.attempt_files import FOLLOWER_VARIABLE
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.life import first_beat
from sentinel.trainers.mismatch import reason_against_scratch
from sentinel.trainers.profile import CheckpointFiles
from sentinel.trainers.sealing import move_aside, put_back
from sentinel.trainers.sources import count_rows, write_counts
from sentinel.trainers.spec import TrainerSpec, read_trainer_spec

BEFORE_NAME = "trainer_before.json"  # which checkpoints lay in the trainer's folder before this run began
AGAIN_S, AGAIN_MAX_S = 1.0, 30.0  # between two starts of a follower
OWNED_WAIT_S, OWNED_LOOK_S = 10.0, 0.1  # the follower of the attempt before may be about to end
CANNOT_PREPARE = 3  # as a configuration error: no relaunch would help


def prepare(run_dir: Path, attempt: int, spec: TrainerSpec) -> list[str]:
    """Make the trainer's folder such that it goes on from the checkpoint that was chosen and from no other; what was done, a
    sentence each. Raises OSError, and ValueError where a start from the beginning would lose what was trained."""
    places, root = spec.profile.spec.checkpoints, spec.root
    if places is None or root is None:
        return []
    if spec.is_first and not (run_dir / BEFORE_NAME).exists():
        _note_before(run_dir, places, root)
    others = read_before(run_dir)
    done: list[str] = []
    if spec.resume_step is None and not spec.is_first and (reason := reason_against_scratch(run_dir, places, root)):
        raise ValueError(reason)
    if spec.resume_step is not None:
        put_back(run_dir, places, spec.resume_step)
    if not spec.is_first:
        step = spec.resume_step or 0
        for found in find_checkpoints(places, root):
            if found.step > step and found.key not in others:
                moved = move_aside(found.path, root, f"attempt-{attempt:04d}")
                done.append(f"{found.path.name} was moved to {moved}")
        done += _mend_tracker(places, root, spec.resume_step)
    return done


def _note_before(run_dir: Path, places: CheckpointFiles, root: Path) -> None:
    known = {found.key: str(found.path) for found in find_checkpoints(places, root)}
    write_atomically(run_dir / BEFORE_NAME, dumps({"checkpoints": known}).encode() + b"\n")


def read_before(run_dir: Path) -> frozenset[str]:
    """Keys of the checkpoints that lay in the trainer's folder before the run began, and are none of this run."""
    try:
        return frozenset(loads(read_regular(run_dir / BEFORE_NAME))["checkpoints"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def forget_before(run_dir: Path, root: Path, places: CheckpointFiles, step: int) -> None:
    """The trainer itself went on from a checkpoint that lay there: those up to it are of this run now. Raises OSError."""
    kept = {found.key: str(found.path) for found in find_checkpoints(places, root) if found.step > step}
    others = read_before(run_dir)
    known = {key: path for key, path in kept.items() if key in others}
    write_atomically(run_dir / BEFORE_NAME, dumps({"checkpoints": known}).encode() + b"\n")


def _mend_tracker(places: CheckpointFiles, root: Path, step: int | None) -> list[str]:
    """Make the tracker name the checkpoint that the attempt begins with."""
    if places.tracker is None:
        return []
    tracker = root / places.tracker.file
    if step is None:
        if not tracker.exists():
            return []
        moved = move_aside(tracker, root, "trackers")
        return [f"{tracker.name} was moved to {moved}: the attempt starts from the beginning"]
    text = places.tracker.text.replace("{step}", str(step))
    if tracker.exists() and read_regular(tracker).decode("utf-8", "replace").strip() == text:
        return []
    write_atomically(tracker, text.encode())
    return [f"{tracker.name} now names {text}"]


def main(arguments: list[str] | None = None) -> int:
    run_dir_text, attempt_text = sys.argv[1:] if arguments is None else arguments
    run_dir, attempt = Path(run_dir_text), int(attempt_text)
    spec = read_trainer_spec(run_dir, attempt)
    assert spec is not None, f"{spec_path(run_dir, attempt)} names a trainer"
    owned = None
    try:
        owned = own_folder(spec.root, time.monotonic() + OWNED_WAIT_S) if spec.root is not None else None
        write_counts(run_dir, attempt, count_rows(spec))
        for sentence in prepare(run_dir, attempt, spec):
            print(f"sentinel: {sentence}", file=sys.stderr)
    except (OSError, ValueError) as error:
        print(f"sentinel: the trainer's folder {spec.root} cannot be made ready: {error}", file=sys.stderr)
        _record_refusal(run_dir, attempt, str(error))
        return CANNOT_PREPARE
    sys.stderr.flush()
    os.environ.update(spec.environment)
    first_beat(run_dir, attempt)
    start_follower(run_dir, attempt, owned)
    if spec.profile.spec.metrics.merged:
        os.dup2(1, 2)
    try:
        os.execvp(spec.argv[0], list(spec.argv))
    except OSError as error:
        print(f"sentinel: {spec.argv[0]!r} cannot be started: {error.strerror}; check the path, or PATH", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


def _record_refusal(run_dir: Path, attempt: int, reason: str) -> None:
    """As rank 0 would leave it, so that the incident and its page say why and not only that it exited."""
    with contextlib.suppress(OSError):
        path = rank_file(attempt_folder(run_dir, attempt) / "exits", 0)
        write_atomically(path, dumps({"rank": 0, "code": CANNOT_PREPARE, "error": Masking.of(os.environ).text(reason)}).encode())


def own_folder(root: Path, deadline_s: float) -> int:
    """A lock on the trainer's folder for as long as somebody follows it on this machine: two runs in one folder would move each
    other's checkpoints aside.

    Raises OSError: another run has it, and kept it until the deadline.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    while True:
        try:
            lock.bind(f"\0sentinel-{name}")  # a name in the kernel: it leaves no file, and goes with the last process that has it
            return lock.detach()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline_s:
                lock.close()
                raise OSError("another run of Sentinel trains in it; give this one a folder of its own") from error
            time.sleep(OWNED_LOOK_S)


def start_follower(run_dir: Path, attempt: int, owned: int | None = None) -> None:
    """A grandchild, so that the trainer does not find a child it never had. It is no rank, and no rank's variable tells it so.
    `owned`: the lock that it keeps."""
    trainer = os.getpid()
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork() == 0:
        environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK", "PYTHONPATH")}
        paths = [str(Path(__file__).resolve().parents[2])]
        environment |= {"PYTHONPATH": os.pathsep.join(paths), FOLLOWER_VARIABLE: "1"}
        nothing = os.open(os.devnull, os.O_RDWR)
        log = open_closed(attempt_folder(run_dir, attempt) / "logs" / "follower.err", os.O_WRONLY | os.O_APPEND)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        if owned is not None:
            os.set_inheritable(owned, True)
        words = [sys.executable, "-P", "-m", "sentinel.trainers.follow", str(run_dir), str(attempt), str(trainer)]
        _keep_following(words, environment, trainer)
    os._exit(0)


def _keep_following(words: list[str], environment: dict[str, str], trainer: int) -> None:
    """Start the follower again if it dies before its trainer: a full disk, a lack of memory. A run that nobody follows would look
    as if it hung."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(trainer)
        wait_s = AGAIN_S
        while True:
            child = os.fork()
            if child == 0:
                os.execve(words[0], words, environment)
            os.waitpid(child, 0)
            if select.select([handle], [], [], wait_s)[0]:
                return
            wait_s = min(2 * wait_s, AGAIN_MAX_S)


if __name__ == "__main__":
    sys.exit(main())
