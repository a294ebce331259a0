"""RUN_DIR/run.json: what the run is. Written when the run is created; keys that others put there are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import RUN_FILE_NAME
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import UsageError
from sentinel.model.capabilities import CAPABILITIES, MORE


@dataclass(frozen=True, slots=True)
class PolicyReference:
    """The policy in force: where it is read from, the digest of its text, and the name it gives itself.

    `source`: of one that was applied while the run went on: its file, of which `path` is a copy; else empty. `named`,
    `named_digest`: the file that the supervisor's command line named when this one came into force; empty where it named none."""

    path: str
    digest: str
    name: str
    source: str = ""
    named: str = ""
    named_digest: str = ""


@dataclass(frozen=True, slots=True)
class RunFile:
    """`created` is wall time in ISO 8601, for people; `capabilities` is what the trainer supports (`CAPABILITIES`), None where
    the file does not say. `code`: files and directories that are the program's source, in the place of what is found.
    `digest_key`: under which the journal has a digest of the command, whose secrets it does not have; empty in older files.
    `trainer`: the profile of its trainer, as `--trainer` named it.
    `pages`: routes asked for on the command line beside the policy's, as they were written there. `launcher_options`: settings of
    the launcher by name, as text. `track`: experiment trackers that the run is written to, as `--track` named them.
    `mirror`: where the run is mirrored to, and how often, as texts by name; empty: nowhere."""

    id: str
    command: tuple[str, ...]
    cwd: str
    policy: PolicyReference
    launcher: str
    created: str
    capabilities: tuple[str, ...] | None = None
    code: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    launcher_options: Mapping[str, str] = field(default_factory=dict)
    trainer: str | None = None
    track: tuple[str, ...] = ()
    mirror: Mapping[str, str] = field(default_factory=dict)
    digest_key: str = ""

    @property
    def command_digest(self) -> str:
        """Tells two commands apart that are masked alike. Under a key, so that nobody can try values on a journal."""
        words = "\0".join(self.command).encode(errors="surrogateescape")
        return hmac.new(self.digest_key.encode(), words, hashlib.sha256).hexdigest() if self.digest_key else ""


def new_digest_key() -> str:
    return secrets.token_hex(16)


def write_run_file(run_dir: Path, run: RunFile) -> None:
    """Write run.json atomically; unknown keys of an earlier one stay.

    Raises:
        UsageError: the earlier file is not a run.json, or the directory cannot be written.
    """
    path = run_dir / RUN_FILE_NAME
    plain = _read_plain(path) or {}
    policy = plain.get("policy")
    ours = asdict(run)
    if isinstance(policy, dict):
        ours["policy"] = {**policy, **ours["policy"]}
    try:
        write_atomically(path, dumps({**plain, **ours}).encode() + b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; check the disk and the rights of this user") from error


def find_run_file(run_dir: Path) -> RunFile | None:
    """run.json, or None when the directory holds no run yet. UsageError when it is there and cannot be used."""
    path = run_dir / RUN_FILE_NAME
    plain = _read_plain(path)
    if plain is None:
        return None
    policy = _field(path, plain, "policy", dict)
    return RunFile(
        id=_field(path, plain, "id", str),
        command=_words(path, plain, "command"),
        cwd=_field(path, plain, "cwd", str),
        policy=PolicyReference(
            path=_policy_path(_field(path, policy, "path", str, "policy."), _field(path, plain, "cwd", str)),
            digest=_field(path, policy, "digest", str, "policy."),
            name=_field(path, policy, "name", str, "policy."),
            **{key: _field(path, policy, key, str, "policy.") for key in ("source", "named", "named_digest") if key in policy},
        ),
        launcher=_field(path, plain, "launcher", str),
        created=_field(path, plain, "created", str),
        capabilities=_words(path, plain, "capabilities") if plain.get("capabilities") is not None else None,
        code=_words(path, plain, "code") if "code" in plain else (),
        pages=_words(path, plain, "pages") if "pages" in plain else (),
        launcher_options=_texts(path, plain, "launcher_options") if "launcher_options" in plain else {},
        trainer=_field(path, plain, "trainer", str) if plain.get("trainer") is not None else None,
        track=_words(path, plain, "track") if "track" in plain else (),
        mirror=_texts(path, plain, "mirror") if "mirror" in plain else {},
        digest_key=_field(path, plain, "digest_key", str) if "digest_key" in plain else "",
    )


def _policy_path(written: str, cwd: str) -> str:
    """Older versions wrote it as it was typed: it counts from where sentinel was started."""
    beside = Path(cwd) / written
    return str(beside) if beside.is_file() else written


def declared_capabilities(
    known: RunFile | None, without: tuple[str, ...], more: tuple[str, ...] = (), profile: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """What the trainer declares, as run.json has it, less what the command line says it lacks, and with what it says
    it has. `profile`: of a trainer under a profile, what that gives it.

    Raises:
        UsageError: `without` or `more` names no capability.
    """
    for option, words in (("--without", without), ("--with", more)):
        for word in words:
            if word not in (*CAPABILITIES, *MORE):
                raise UsageError(f"{option} {word}: no such capability; use one of {', '.join((*CAPABILITIES, *MORE))}")
    given = CAPABILITIES if profile is None else profile
    declared = known.capabilities if known is not None and known.capabilities is not None else given
    return tuple(word for word in dict.fromkeys((*declared, *more)) if word not in without)


def read_run_file(run_dir: Path) -> RunFile:
    """run.json of an existing run. UsageError when there is none or it cannot be used."""
    run = find_run_file(run_dir)
    if run is None:
        raise UsageError(f"{run_dir}: holds no {RUN_FILE_NAME}, so it is not the directory of a run (sentinel run makes one)")
    return run


def _read_plain(path: Path) -> dict[str, Any] | None:
    try:
        plain = loads(read_regular(path))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        what = "is a file" if path.parent.exists() else "cannot be: something above it is a file"
        raise UsageError(f"{path.parent}: {what}; the directory of a run is wanted") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; check the rights of this user") from error
    except ValueError as error:
        raise UsageError(f"{path}: is not valid JSON ({error}); restore it from a copy, or choose a new run directory") from error
    if not isinstance(plain, dict):
        raise UsageError(f"{path}: must hold a JSON object, not {type(plain).__name__}")
    return plain


def _field(path: Path, plain: dict[str, Any], key: str, kind: type, within: str = "") -> Any:
    if key not in plain:
        raise UsageError(f"{path}: {within}{key}: is missing; restore the file from a copy, or choose a new run directory")
    if not isinstance(plain[key], kind):
        raise UsageError(f"{path}: {within}{key}: {plain[key]!r} must be {'text' if kind is str else 'an object'}")
    return plain[key]


def _words(path: Path, plain: dict[str, Any], key: str) -> tuple[str, ...]:
    words = plain.get(key)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{path}: {key}: {words!r} must be a list of texts")
    return tuple(words)


def _texts(path: Path, plain: dict[str, Any], key: str) -> dict[str, str]:
    texts = plain.get(key)
    if not isinstance(texts, dict) or not all(isinstance(value, str) for value in texts.values()):
        raise UsageError(f"{path}: {key}: {texts!r} must be an object of texts")
    return dict(texts)
