"""`sentinel init`: a commented `sentinel.yaml` for a command, to be read and changed by a person."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.errors import UsageError
from sentinel.launcher.checks import check_command as check_program
from sentinel.launcher.registry import DEFAULT, LAUNCHERS
from sentinel.policy_files.loading import shipped_policies
from sentinel.policy_files.yaml_positions import write_yaml
from sentinel.supervisor.config_file import NAME, RunConfig
from sentinel.supervisor.run_request import DEFAULT_POLICY
from sentinel.trainers.imported import attached_script_of, hint_of
from sentinel.trainers.launching import check_command
from sentinel.trainers.loading import load_profile, shipped_profiles
from sentinel.trainers.probe.recognise import candidates
from sentinel.trainers.shell_script import fit_to_command


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """`flags`: by which the trainer was recognised; empty where a person named it, or nobody knows it. `doubt`: what keeps this
    profile from driving this command; empty: nothing. `hint`: where nobody knows it, a profile for what it imports. `remarks`:
    what this command will not be offered, and why. `attached`: its script, where that speaks to sentinel itself."""

    path: Path
    trainer: str | None
    flags: tuple[str, ...]
    doubt: str = ""
    hint: str = ""
    remarks: tuple[str, ...] = ()
    attached: str = ""


def write_config(
    folder: Path, command: tuple[str, ...], trainer: str | None, policy: str | None, run_dir: str | None, force: bool
) -> WrittenConfig:
    """Raises UsageError, PolicyError: nothing was written."""
    path = folder / NAME
    if path.exists() and not force:
        raise UsageError(f"{path}: is there already; change it by hand, or write it anew with --force")
    if command:
        check_program(command, str(folder))
    found = candidates(command) if trainer is None else ()
    named = trainer if trainer is not None else found[0].profile if found else None
    doubt, remarks = _doubt(named, command, str(folder), is_asked=trainer is not None)
    config = RunConfig(
        command=command,
        trainer=named,
        policy=policy or DEFAULT_POLICY,
        run_dir=run_dir or f"runs/{_name_of(command)}",
        launcher=DEFAULT,
    )
    try:
        write_atomically(path, config_text(config).encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; choose another folder, or change its rights") from None
    hint = "" if named is not None else hint_of(command, str(folder))
    attached = "" if named is not None else attached_script_of(command, str(folder))
    return WrittenConfig(path, named, found[0].flags if found else (), doubt, hint, remarks, attached)


def _name_of(command: tuple[str, ...]) -> str:
    """Of the first script in the command, else of its program."""
    scripts = [word for word in command if word.endswith(".py") and not word.startswith("-")]
    return Path((*scripts[:1], *command, "run")[0]).stem


def _doubt(named: str | None, command: tuple[str, ...], cwd: str, is_asked: bool) -> tuple[str, tuple[str, ...]]:
    """What keeps the profile from driving the command, and what else is to be said of the two."""
    if named is None or not command:
        return "", ()
    fitted = fit_to_command(load_profile(named), command, cwd)
    try:
        check_command(fitted.profile, command, cwd)
    except UsageError as error:
        if is_asked:
            raise
        return str(error), fitted.remarks
    return "", fitted.remarks


def config_text(config: RunConfig) -> str:
    """YAML with a comment for each key."""
    named = _line("trainer", config.trainer) if config.trainer is not None else "# trainer: NAME"
    profiles, policies = ", ".join(shipped_profiles()), ", ".join(shipped_policies())
    launchers = ", ".join(row.kind for row in LAUNCHERS)
    parts: Sequence[tuple[str, str]] = (
        ("The training command, a word each. It is started in the folder of this file.", _line("command", list(config.command))),
        (
            f"The profile of a trainer that was not written for Sentinel:\n# {profiles},\n# or a file of your own, with options "
            "as in hf-trainer:root_flag=--out. Without one the trainer has to use sentinel.client.",
            named,
        ),
        (
            f"What is done about what goes wrong: {policies}, or a file of your own.",
            _line("policy", config.policy),
        ),
        ("Where the run lives. The same directory again goes on with the same run.", _line("run_dir", config.run_dir)),
        (
            "A group that may read the run directory; else it is yours alone.",
            _line("share_with", config.share_with) if config.share_with is not None else "# share_with: GROUP",
        ),
        (
            "Where people are paged, beside the routes of the policy, as in [slack]. Their secrets stand in the environment.",
            _line("pages", list(config.pages)),
        ),
        (
            'Experiment trackers that every attempt is written to, a run each, as in ["wandb:project=gpt"].',
            _line("track", list(config.track)),
        ),
        (
            "A mirror off this machine, from which `sentinel restore` brings the run back, as in\n"
            "# mirror: {to: s3://bucket/runs, journal: 1m, streams: 10m, checkpoints: {every: 5000 steps, keep: 2}}",
            "# mirror: {to: DIR}",
        ),
        (
            f"What starts and stops the training: {launchers}; its settings under launcher_options.",
            _line("launcher", config.launcher),
        ),
        (
            "Decide and record, change nothing: true for the first days of a new policy.",
            _line("observe_only", config.observe_only),
        ),
    )
    head = (
        "# Read by 'sentinel run' where it is started without a command in this folder. What stands on its command line wins.\n"
    )
    kind = f"apiVersion: {config.api_version}\nkind: {config.kind}\n"
    return head + kind + "".join(f"\n# {comment}\n{line.rstrip()}\n" for comment, line in parts)


def _line(key: str, value: object) -> str:
    """A scalar beside its key, a list in brackets, whatever has to be quoted in quotes."""
    words = write_yaml([value]).strip()
    return f"{key}: {words.removeprefix('- ') if isinstance(value, list) else words[1:-1]}"


def next_steps(written: WrittenConfig) -> list[str]:
    """For a person: what was written, and what comes next."""
    if written.attached:
        who = f"{written.attached} imports sentinel: a loop that speaks its contract needs no trainer profile"
    elif written.trainer is None:
        who = "no shipped profile's flags stand in the command: it names no trainer profile (sentinel trainers list)"
    else:
        by = f", recognised by {', '.join(written.flags)} in the command" if written.flags else ""
        who = f"its trainer is {written.trainer}{by}"
    doubt = [f"to be corrected before it can run: {written.doubt}"] if written.doubt else []
    doubt += [f"name it under `trainer`, if it is: {written.hint}"] if written.hint else []
    return [
        f"wrote {os.path.relpath(written.path)}; {who}",
        *doubt,
        *written.remarks,
        f"next: {'' if written.attached else 'sentinel probe tries it for some steps; '}sentinel run starts it",
    ]
