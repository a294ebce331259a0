"""What `sentinel run` was asked for, and the run.json that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.journal.run_file import PolicyReference, RunFile
from sentinel.launcher.registry import DEFAULT
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import policy_digest
from sentinel.web.opening import Listen


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `sentinel run` was asked for. `command` empty: go on with the run directory's own command."""

    run_dir: Path
    policy: str
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


def describe_run(run_dir: Path, known: RunFile | None, request: RunRequest, policy: Policy, policy_path: Path) -> RunFile:
    """run.json: as it is for a run that exists, from the request for a new one. A changed command or launcher is refused."""
    reference = PolicyReference(str(policy_path), policy_digest(policy_path), policy.metadata.name)
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
        )
    if request.command and request.command != known.command:
        raise UsageError(
            f"{run_dir}: is the directory of another command ({' '.join(known.command)}); "
            "choose another --run-dir, or repeat that command to go on with this run"
        )
    if request.launcher is not None and request.launcher != known.launcher:
        raise UsageError(
            f"--launcher {request.launcher}: the run in {run_dir} was launched by {known.launcher!r}; "
            "choose another --run-dir, or leave the option out to go on with this run"
        )
    return replace(
        known,
        policy=reference,
        code=request.code or known.code,
        launcher_options=request.launcher_options or known.launcher_options,
    )
