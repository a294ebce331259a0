"""What `sentinel run` was asked for, and the run.json that follows from it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from sentinel.actions.runner import StartThread
from sentinel.client.masking import Masking
from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.journal.lease import STALE_AFTER_S
from sentinel.journal.run_file import PolicyReference, RunFile, find_run_file, new_digest_key
from sentinel.launcher.registry import DEFAULT
from sentinel.mirrors.settings import OFF
from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import policy_digest, shipped_policy_path
from sentinel.report.reading import is_attempt_alive
from sentinel.web.opening import Listen

LOADS = (
    "A checkpoint has to load under it, which only the trainer knows: the bundled one loads on any number of ranks, and refuses\n"
    "another model, other data and another batch, before its first step."
)


DEFAULT_POLICY = "default"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `sentinel run` was asked for. `command` empty: go on with the run directory's own command."""

    run_dir: Path
    policy: str | None  # None: the run's own, for a new run DEFAULT_POLICY
    command: tuple[str, ...]
    cwd: str
    observe_only: bool = False
    stop_at_once: bool = False  # take the run over only to stop it
    without: tuple[str, ...] = ()  # capabilities this trainer does not have
    tensorboard: bool = True
    more: tuple[str, ...] = ()  # and those that are there only where somebody says so
    code: tuple[str, ...] = ()  # what the program's source is, in the place of what its command leads to
    listen: Listen | None = None  # where the page in the browser is; None: there is none
    pages: tuple[str, ...] = ()  # routes beside the policy's; none: those the run already has
    launcher: str | None = None  # a kind of `launcher.registry`; None: the run's own, for a new run the default
    launcher_options: Mapping[str, str] = field(default_factory=dict)  # none: those the run already has
    time_limit_s: float | None = None  # how long this supervisor has the machine
    trainer: str | None = None  # a profile; None: the run's own, for a new run none
    track: tuple[str, ...] = ()  # experiment trackers; none: those the run already has
    mirror: Mapping[str, str] = field(default_factory=dict)  # off this machine; none: the one the run already has
    share_with: str | None = None  # a group that may read a new run directory
    nice: int | None = None  # how far this supervisor stands back behind the ranks; None: as by default
    pin: str | None = None  # the processors that it keeps to, as in 0,2-5; None: to none
    start_thread: StartThread | None = None  # starts the threads of actions; None: whoever asks for them does
    takeover_wait_s: float = 0.0  # how long to wait for the lease of a supervisor on another machine
    standby: bool = False  # wait until the run has lost its supervisor
    lease_s: float = STALE_AFTER_S  # how long this supervisor may go unheard
    changed_command: bool = False  # a person says that the run goes on under another command than its own


def policy_of(request: RunRequest, known: RunFile | None) -> Path:
    """The policy asked for; else the run's own, so that a run that is started again goes on by the rules that it had."""
    if request.policy is not None:
        return shipped_policy_path(request.policy)
    if known is None:
        return shipped_policy_path(DEFAULT_POLICY)
    own = Path(known.policy.path)
    was_shipped = own.parent.name == "policies" and own.stem == known.policy.name
    return shipped_policy_path(own.stem) if was_shipped and not own.exists() else own  # of an installation that has moved


def describe_run(
    run_dir: Path,
    known: RunFile | None,
    request: RunRequest,
    policy: Policy,
    policy_path: Path,
    applied: PolicyReference | None = None,
) -> RunFile:
    """run.json: as it is for a run that exists, from the request for a new one. A changed launcher is refused, and a command that
    was changed without a word about it. `applied`: of a policy that was applied while the run went on."""
    reference = applied
    if reference is None:
        place, digest = str(policy_path.absolute()), policy_digest(policy_path)
        named = (place, digest) if request.policy is not None else ("", "")
        reference = PolicyReference(place, digest, policy.metadata.name, named=named[0], named_digest=named[1])
    if known is None:
        return RunFile(
            id=run_dir.name,
            command=request.command,
            cwd=request.cwd,
            policy=reference,
            launcher=DEFAULT if request.launcher is None else request.launcher,
            created=datetime.fromtimestamp(SystemClock().wall_s(), UTC).isoformat(timespec="seconds"),
            code=request.code,
            launcher_options=request.launcher_options,
            trainer=request.trainer,
            track=request.track,
            mirror=_mirror_of(request.mirror),
            digest_key=new_digest_key(),
        )
    if is_changed(known, request.command) and not request.changed_command:
        raise UsageError(
            f"{run_dir}: is the directory of another command ({_shown(known.command)}); to go on with this run under the "
            "new one, add --changed-command; else choose another --run-dir, or repeat that command"
        )
    if request.launcher is not None and request.launcher != known.launcher:
        raise UsageError(
            f"--launcher {request.launcher}: the run in {run_dir} was launched by {known.launcher!r}; "
            "choose another --run-dir, or leave the option out to go on with this run"
        )
    if is_changed(known, request.command):
        known = replace(known, command=request.command, cwd=request.cwd)
    return replace(
        known,
        policy=reference,
        code=request.code or known.code,
        launcher_options=request.launcher_options or known.launcher_options,
        trainer=known.trainer if request.trainer is None else request.trainer,
        track=request.track or known.track,
        mirror=_mirror_of(request.mirror or known.mirror),
        digest_key=known.digest_key or new_digest_key(),
    )


def _mirror_of(asked: Mapping[str, str]) -> Mapping[str, str]:
    """`--mirror off` ends it."""
    return {} if asked.get("to") == OFF else asked


def _shown(command: tuple[str, ...]) -> str:
    return shlex.join(Masking.of(os.environ).words(command))


def is_changed(known: RunFile | None, command: tuple[str, ...]) -> bool:
    """Whether a run that exists is asked to go on under another command than its own."""
    return known is not None and bool(command) and command != known.command


def question_about(run_dir: Path, command: tuple[str, ...]) -> str:
    """What a person is asked before a run goes on under another command; empty where it is its own, or there is no run yet."""
    known = find_run_file(run_dir)
    if known is None or not is_changed(known, command):
        return ""
    return (
        f"{run_dir} is the directory of another command.\n"
        f"  it was:    {_shown(known.command)}\n"
        f"  it is now: {_shown(command)}\n"
        f"The run would go on from its newest good checkpoint, with its lineage, skips and budgets. {LOADS}\n"
        "Go on with this run under the new command?"
    )


def refuse_while_it_trains(run_dir: Path, run: RunFile, state: RunState) -> None:
    """Raises UsageError where an attempt under the command before may live: it would be adopted, and not what was asked for."""
    known, attempt = find_run_file(run_dir), state.attempt
    if not is_changed(known, run.command) or attempt is None or attempt.is_over:
        return
    alive = is_attempt_alive(run_dir, state)
    if alive is not False:
        seen = "still trains" if alive else "may still train: it cannot be seen from here"
        raise UsageError(
            f"{run_dir}: attempt {attempt.attempt}, launched under the command before, {seen}. "
            f"Stop it first, which keeps a checkpoint: sentinel stop {run_dir}"
        )
