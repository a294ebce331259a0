"""`sentinel.yaml`: what `sentinel run` does when it is started without a command in the folder where it lies.

What stands on the command line wins over the file. Paths in the file count from the file's own folder, and the command is started
there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sentinel.errors import PolicyError, UsageError
from sentinel.mirrors.settings import MirrorSettings, is_address, plain_place
from sentinel.policy.problems import print_problems
from sentinel.policy.schema_fields import Count, Flag, Model, written
from sentinel.policy.schema_problems import validate_model
from sentinel.policy_files.yaml_positions import read_yaml
from sentinel.supervisor.run_request import RunRequest

NAME = "sentinel.yaml"
BYTES_MAX = 256 * 1024


class MirrorCheckpoints(Model):
    """Which checkpoints are mirrored."""

    every: str = "5000 steps"
    """The newest good one, once it lies so far beyond the newest there; `off`: none."""
    keep: Count = 2
    """How many whole ones stay there."""


class MirrorConfig(Model):
    """A mirror of the run off this machine."""

    to: str
    """A directory, or an address such as s3://bucket/runs."""
    journal: str = "1m"
    """How often the journal is pushed."""
    streams: str = "10m"
    """How often streams, logs, evidence and reports are."""
    checkpoints: MirrorCheckpoints = MirrorCheckpoints()


class RunConfig(Model):
    """One key for each option of `sentinel run` that belongs to a run and not to one start of it."""

    api_version: Literal["sentinel/v1"] = written("sentinel/v1", alias="apiVersion")
    kind: Literal["RunConfig"] = "RunConfig"
    command: tuple[str, ...] = ()
    """The training command, a word each."""
    trainer: str | None = None
    """As `--trainer`: a profile, for a trainer that was not written for Sentinel."""
    policy: str | None = None
    """A policy file, or the name of a shipped one."""
    run_dir: str | None = None
    """Where the run lives."""
    pages: tuple[str, ...] = ()
    """As `--page`: where to page, beside the policy's routes."""
    track: tuple[str, ...] = ()
    """As `--track`: experiment trackers that every attempt is written to."""
    mirror: MirrorConfig | None = None
    """As `--mirror`: where the run is mirrored to, off this machine."""
    launcher: str | None = None
    """What starts and stops the training."""
    launcher_options: Mapping[str, str] = {}
    """Its settings."""
    share_with: str | None = None
    """As `--share-with`: a group that may read the run directory."""
    nice: int | None = None
    """As `--nice`: how far the supervisor stands back behind the ranks."""
    pin: str | None = None
    """As `--pin`: the processors that the supervisor keeps to."""
    observe_only: Flag = False
    """Decide and record, change nothing."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """`path`: absolute."""

    path: Path
    config: RunConfig

    @property
    def run_dir(self) -> Path:
        """Absolute; by default `runs/` and the name of the program's file, as without a file."""
        named = self.config.run_dir
        return self.path.parent / (named if named is not None else default_run_dir(self.config.command))

    @property
    def trainer(self) -> str | None:
        return _beside(self.config.trainer, self.path.parent)

    def lay_under(self, asked: RunRequest, gave_run_dir: bool) -> RunRequest:
        """The request with what the file says where the command line says nothing."""
        config, folder = self.config, self.path.parent
        return replace(
            asked,
            command=asked.command or config.command,
            cwd=asked.cwd if asked.command else str(folder),
            run_dir=asked.run_dir if gave_run_dir else self.run_dir,
            trainer=asked.trainer if asked.trainer is not None else self.trainer,
            policy=asked.policy if asked.policy is not None else _beside(config.policy, folder),
            pages=asked.pages or config.pages,
            track=asked.track or config.track,
            mirror=asked.mirror or _mirror_texts(config.mirror, self.path),
            launcher=asked.launcher if asked.launcher is not None else config.launcher,
            launcher_options=asked.launcher_options or dict(config.launcher_options),
            share_with=asked.share_with if asked.share_with is not None else config.share_with,
            nice=asked.nice if asked.nice is not None else config.nice,
            pin=asked.pin if asked.pin is not None else config.pin,
            observe_only=asked.observe_only or config.observe_only,
        )


def default_run_dir(command: tuple[str, ...]) -> Path:
    return Path("runs") / (Path(command[0]).stem if command else "run")


def find_config(named: Path | None, command: tuple[str, ...], run_dir: Path | None) -> ConfigFile | None:
    """The file that counts: the one that was named; else `sentinel.yaml` where `sentinel run` is started without a command, and
    without the directory of another run. Raises UsageError, PolicyError."""
    if named is not None:
        return read_config(named)
    if command or not os.path.isfile(NAME):
        return None
    found = read_config(Path(NAME))
    is_other = run_dir is not None and os.path.realpath(run_dir) != os.path.realpath(found.run_dir)
    return None if is_other else found


def read_config(path: Path) -> ConfigFile:
    """Raises UsageError where it cannot be read, PolicyError with every problem, its line, a caret and the remedy."""
    text = _read(path)
    read = read_yaml(text)
    config, problems = (None, tuple(read.problems)) if read.problems else validate_model(RunConfig, read.value)
    if problems or config is None:
        located = tuple(sorted(map(read.locate, problems), key=lambda problem: (problem.line, problem.column)))
        raise PolicyError(print_problems(str(path), text, located), located)
    if not config.command:
        raise UsageError(f"{path}: command: is empty; write the training command, a word each: command: [python, train.py]")
    return ConfigFile(path.absolute(), config)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise UsageError(f"{path}: larger than {BYTES_MAX // 1024} KiB; is this the right file?")
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"--config {path}: there is no such file; sentinel init writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None


def _mirror_texts(config: MirrorConfig | None, path: Path) -> dict[str, str]:
    """As `parse_mirror` gives them. Raises UsageError."""
    if config is None:
        return {}
    to = plain_place(config.to)
    to = to if is_address(to) or not to else str(path.parent / to)
    every, keep = config.checkpoints.every, str(config.checkpoints.keep)
    texts = {"to": to, "journal": config.journal, "streams": config.streams, "every": every, "keep": keep}
    MirrorSettings.of(f"{path}: mirror", texts)
    return texts


def _beside(named: str | None, folder: Path) -> str | None:
    """A file beside this one under its absolute path, with the options behind it; a name as it is."""
    if named is None:
        return None
    name, colon, options = named.partition(":")
    path = folder / name
    return f"{path}{colon}{options}" if path.is_file() else named
