"""`sentinel stop`: a run stops after a checkpoint, whether or not a supervisor lives.

A living supervisor is asked by SIGTERM and waited for. Where none lives but training does, this process becomes the
supervisor for as long as stopping takes: the engine's own deadlines (ask, SIGTERM, SIGKILL) bound it.
"""

from __future__ import annotations

import math
import os
import select
from contextlib import closing
from pathlib import Path

from sentinel.errors import PolicyError, RetryLater, UsageError
from sentinel.journal.identity import ProcessIdentity
from sentinel.journal.run_file import read_run_file
from sentinel.model.amounts import time_words
from sentinel.model.attempts import Unseen
from sentinel.model.state import RunState
from sentinel.operator.stopping import ask_to_stop, supervisor_here
from sentinel.policy_files.loading import load_policy
from sentinel.report.reading import is_attempt_alive, read_run, view_attempt
from sentinel.run_files.stream import read_newest_step
from sentinel.supervisor.app import supervise
from sentinel.supervisor.run_request import RunRequest
from sentinel.terminal.choose import choose_narrator

LONGEST_POLL_S = 86_400.0
NOT_OVER = (
    "nothing trains, and this is not the end of it: whatever starts it again (a job in the queue, systemd) goes on with the run. "
    "To end it for good, take that away: scancel JOB, systemctl disable --now sentinel@NAME. "
    "By hand, the `sentinel run` that it had goes on"
)


def stop_run(run_dir: Path, timeout: float) -> str:
    """Stop the run; a sentence about how it stands afterwards.

    Raises:
        UsageError: not the directory of a run, or it is supervised from another machine.
        RetryLater: the supervisor is still stopping it after `timeout` seconds.
    """
    before = read_run(run_dir).state
    holder = supervisor_here(run_dir)
    if holder is not None:
        _ask_and_wait(run_dir, holder, timeout)
        return _standing(read_run(run_dir).state)
    if before.ended == "suspended":
        return f"{_standing(before)}\n{NOT_OVER}"
    if before.ended:
        return f"already over: {_standing(before)}"
    alive = is_attempt_alive(run_dir, before)
    if alive is None:
        view = view_attempt(run_dir, before)
        if isinstance(view, Unseen) and view.has_ended_here:
            raise UsageError(f"{run_dir}: it is not known to have ended, and cannot be stopped from here: {view.reason}")
        raise UsageError(f"{run_dir}: whether its processes live cannot be seen from this machine; stop it where it runs")
    if not alive:
        return f"{before.run_id}: none of its processes lives, nothing to stop (newest step {_seen_step(run_dir, before)})"
    _take_over_and_stop(run_dir, before)
    return _standing(read_run(run_dir).state)


def _ask_and_wait(run_dir: Path, holder: ProcessIdentity, timeout: float) -> None:
    """SIGTERM to exactly this process, then wait for its end."""
    try:
        handle = os.pidfd_open(holder.pid)
    except OSError:
        return  # it left between two looks
    try:
        ask_to_stop(run_dir, holder)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(math.ceil(min(timeout, LONGEST_POLL_S) * 1000)):
            raise RetryLater(
                f"{run_dir}: still stopping after {time_words(timeout)} (supervisor pid {holder.pid}); a second `sentinel stop` "
                "does not "
                "wait for a checkpoint any more",
                retry_in_s=timeout,
            )
    finally:
        os.close(handle)


def _take_over_and_stop(run_dir: Path, state: RunState) -> None:
    run = read_run_file(run_dir)
    policy = None  # the run's own
    try:
        load_policy(run.policy.path)
    except PolicyError:
        policy = "default"  # the file is gone or was changed since: stopping must work all the same
    request = RunRequest(run_dir, policy, (), run.cwd, state.observe_only, stop_at_once=True)
    with closing(choose_narrator(run_dir)) as narrator:
        supervise(request, narrator)


def _standing(state: RunState) -> str:
    step = _newest_step(state)
    newest = state.checkpoints[-1].step if state.checkpoints else None
    kept = f"newest checkpoint of step {newest}" if newest is not None else "no checkpoint"
    if not state.ended:
        return f"{state.run_id}: its supervisor left without ending the run ({state.label}, step {step}); ask again"
    return f"{state.run_id}: {state.ended} at step {step}, {kept} ({state.end_reason})"


def _newest_step(state: RunState) -> int:
    """As far as the journal knows."""
    attempt = state.attempt
    return max(attempt.last_step, attempt.resumed_step) if attempt is not None else 0


def _seen_step(run_dir: Path, state: RunState) -> int:
    """As far as the stream itself tells: the journal of a supervisor that was killed may be behind it."""
    attempt = state.attempt
    newest = read_newest_step(run_dir, attempt.attempt) if attempt is not None else None
    return _newest_step(state) if newest is None else newest
