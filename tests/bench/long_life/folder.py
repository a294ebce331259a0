"""The run directory of a long life: run.json, journal, lease, streams, specs, exits, heartbeats, logs, checkpoints.

Everything but the step lines is written by Sentinel's own writers or the client's; the step lines are formatted here, because the
client's writer stamps each with the time at which it writes, and one of them is compared with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sentinel.client.checkpoint_files import commit, make_aside, name_of
from sentinel.client.run_layout import CHECKPOINTS, JOURNAL_NAME, rank_file, stream_path
from sentinel.client.stream import Stream
from sentinel.client.strict_json import dumps
from sentinel.journal.lease import Lease
from sentinel.journal.run_file import PolicyReference, RunFile, write_run_file
from sentinel.journal.run_folder import ensure_run_dir
from sentinel.journal.run_lock import RunLock
from sentinel.journal.store import Journal
from sentinel.launcher.exit_report import write_report
from sentinel.launcher.spec_file import write_spec
from sentinel.model.attempts import AttemptSpec
from sentinel.model.state import RunState
from sentinel.policy_files.loading import load_policy, read_policy_file
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.run_files.detector_standings import StandingsFile
from tests.builders import report_of

from .life import COMMAND, Life
from .shape import BATCH, RANKS, Shape, Told

RUN_ID = "long-life"
POLICY = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
extends: default
metadata: {name: long-life}
spec:
  checkpoints: {retain: {last: 5, every: 1000000 steps}}
"""
WEIGHTS = b"\0" * 1024
LOG_LINES, NEWEST_LOG_LINES = 50, 20_000
LINES_AT_ONCE = 10_000

Tell = Callable[[str], None]


def write_run(run_dir: Path, shape: Shape, now_s: float, tell: Tell = print) -> Life:
    """The run as it stands a little before `now_s` (Unix seconds): the newest attempt has just written its newest line, and the
    supervisor was killed."""
    ensure_run_dir(run_dir)
    policy_path = run_dir / "policy.yaml"
    policy_path.write_text(POLICY)
    policy, digest = load_policy(policy_path), read_policy_file(policy_path).digest
    life = Life(policy, shape, now_s - shape.seconds, _digest_of, RUN_ID, digest)
    life.live()
    tell(f"decided: {len(life.rows):,} facts, {len(life.state.incidents)} incidents, {len(life.told)} attempts")
    reference = PolicyReference(str(policy_path), digest, policy.metadata.name)
    created = datetime.fromtimestamp(life.rows[0][1], UTC).isoformat(timespec="seconds")
    write_run_file(run_dir, RunFile(RUN_ID, COMMAND, "/", reference, "local", created))
    with Journal.open(run_dir / JOURNAL_NAME) as journal:
        journal.fill(life.rows, life.epoch)
    with RunLock.acquire(run_dir) as lock:
        Lease.publish(lock, life.epoch, life.told[-1].attempt)  # never released: it was killed
    StandingsFile(run_dir).write(life.now_s, life.engine)
    lines = sum(_write_attempt(run_dir, told, life.state) for told in life.told)
    for checkpoint in life.state.checkpoints:
        found = _write_checkpoint(run_dir, checkpoint.attempt, checkpoint.step)
        assert found == checkpoint.digest, f"the journal has another checkpoint of step {checkpoint.step}"
    tell(f"written: {lines:,} step lines, {len(life.state.checkpoints)} checkpoints")
    return life


def _write_attempt(run_dir: Path, told: Told, state: RunState) -> int:
    """How many step lines it has."""
    files = AttemptFiles.of(run_dir, told.attempt)
    attempt = next(one for one in state.attempts if one.attempt == told.attempt)
    write_spec(files, AttemptSpec(told.attempt, COMMAND, "/", attempt.resume, attempt.overrides))
    last_s = told.time_s(told.last_step)
    for rank in range(RANKS):
        beat = {"step": told.last_step, "phase": "data", "time_s": last_s, "pid": 100 + rank, "host": "node-0"}
        rank_file(files.heartbeats, rank).write_text(json.dumps(beat))
        count = NEWEST_LOG_LINES if told.attempt == state.attempts[-1].attempt else LOG_LINES
        first = told.last_step - count + 1
        text = "".join(f"step {step} loss {told.metrics(step)['loss']}\n" for step in range(first, told.last_step + 1))
        (files.logs / f"rank-{rank:05d}.out").write_text(text)
    keeper = {"v": 1, "pid": 7000 + told.attempt, "create_time": 0.0, "boot_id": "another", "host": "node-0"}
    files.keeper.write_text(json.dumps(keeper | {"started_at": told.began_s, "command_pid": 99}))
    if told.attempt != state.attempts[-1].attempt:
        write_report(files, report_of(signal=9, ranks=RANKS))
    return _write_stream(run_dir, told)


def _write_stream(run_dir: Path, told: Told) -> int:
    path = stream_path(run_dir, told.attempt)
    stream = Stream(path, told.attempt)
    receipt = {"resume_step": told.resume_step, "resume_digest": None, "world_size": RANKS, "params": 1_000_000}
    total = told.shape.steps * told.shape.attempts
    stream.start(**receipt, tokens_per_step=BATCH * 1024, effective={"lr_scale": None, "skip": []}, overrides={}, steps=total)
    saves, steps = set(told.saves()), told.steps()
    with path.open("a") as file:
        for first in range(0, len(steps), LINES_AT_ONCE):
            file.write("".join(step_line(told, step, step in saves) for step in steps[first : first + LINES_AT_ONCE]))
    return len(steps)


def step_line(told: Told, step: int, is_save: bool) -> str:
    """As `Stream.step` writes it, but of the time that it is told; behind a save, the event that tells of it."""
    metrics, (first, end), time_s = told.metrics(step), told.samples(step), f"{told.time_s(step):.3f}"
    loss = metrics["loss"] if metrics["loss"] == metrics["loss"] else '"NaN"'
    line = (
        f'{{"kind":"step","step":{step},"time_s":{time_s},"samples":[[{first},{end}]],"loss":{loss},'
        f'"grad_norm":{metrics["grad_norm"]},"lr":{metrics["lr"]},"tokens_per_s":{metrics["tokens_per_s"]},'
        f'"step_time_s":{metrics["step_time_s"]}}}\n'
    )
    if is_save:
        line += f'{{"kind":"event","event":"checkpoint_committed","step":{step},"time_s":{time_s},"save_s":1.5}}\n'
    return line


def _manifest(attempt: int, step: int) -> dict[str, object]:
    files = {"weights.bin": {"bytes": len(WEIGHTS), "sha256": hashlib.sha256(WEIGHTS).hexdigest()}}
    return {"v": 1, "step": step, "time_s": 0.0, "samples": step * BATCH, "attempt": attempt, "world_size": RANKS, "files": files}


def _digest_of(attempt: int, step: int) -> str:
    return hashlib.sha256((dumps(_manifest(attempt, step)) + "\n").encode()).hexdigest()


def _write_checkpoint(run_dir: Path, attempt: int, step: int) -> str:
    aside = make_aside(run_dir / CHECKPOINTS, step)
    (aside / "weights.bin").write_bytes(WEIGHTS)
    return commit(aside, run_dir / CHECKPOINTS / name_of(step), _manifest(attempt, step), lambda: True)
