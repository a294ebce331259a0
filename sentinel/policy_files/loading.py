"""Policy files: YAML on disk to a checked `Policy`, every error with its line, a caret and the remedy.

    load_policy(shipped_policy_path("default"))

`yaml_positions` reads the text, `layers` lays it over what it extends and has it judged. This module knows files: where they are,
what cannot be one, and which files a policy extends.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentinel.channels import registry as _registry  # noqa: F401 - completes the language
from sentinel.errors import PolicyError, Problem
from sentinel.policy.problems import did_you_mean, print_problems
from sentinel.policy.schema import Policy
from sentinel.policy.schema_problems import validate_policy
from sentinel.policy_files.layers import Layers, SourceFile
from sentinel.policy_files.yaml_positions import read_yaml, write_yaml
from sentinel.shipped import shipped_folder

SIZE_MAX_BYTES = 256 * 1024
FILES_MAX = 8  # a policy, what it extends, what that extends …: nobody follows more

SHIPPED = shipped_folder("policies")
_NAME = re.compile(r"(?:policies/)?([A-Za-z0-9_-]+)(?:\.ya?ml)?")


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy that may act, with what was read and what a careful reader would ask about. `bases` are the files it extends, the
    nearest first, with their texts; `document` is what is in force, as YAML gives it."""

    path: str
    digest: str
    policy: Policy
    warnings: tuple[Problem, ...]
    text: str
    bases: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)

    def print_warnings(self) -> str:
        """The warnings, printed as errors are; empty when there are none."""
        return print_problems(self.path, self.text, self.warnings, self.bases)

    def print_document(self) -> str:
        """The policy as it is in force: YAML that stands on its own, with what it extends merged in."""
        files = " over ".join((self.path, *self.bases))
        return f"# {files}\n" + write_yaml(self.in_force)

    @property
    def in_force(self) -> dict[str, Any]:
        """The document without what it extends: it stands on its own."""
        return {key: value for key, value in self.document.items() if key not in ("extends", "remove")}


def load_policy(path: str | Path, capabilities: Set[str] | None = None) -> Policy:
    """The policy in this file. Raises `PolicyError`, which prints every problem, when it may not act."""
    return read_policy_file(path, capabilities).policy


def read_policy_file(
    path: str | Path, capabilities: Collection[str] | None = None, settable: Collection[str] | None = None
) -> PolicyFile:
    """As `load_policy`, with digest and warnings. `capabilities` is what the trainer declares; None: not known yet. `settable`:
    settings that it can be given; None: every one."""
    files = _read_files(Path(path))
    text, bases = files[0].text, {file.name: file.text for file in files[1:]}
    layers = Layers(files, capabilities, settable)
    policy, located = layers.judge()
    rank = {file.name: place for place, file in enumerate(files)}
    located.sort(key=lambda problem: (rank[problem.file], problem.line, problem.column))
    errors = tuple(problem for problem in located if problem.severity == "error")
    if errors or policy is None:
        raise PolicyError(print_problems(str(path), text, errors, bases), errors)
    return PolicyFile(str(path), _digest(files), policy, tuple(located), text, bases, layers.joined.value)


def policy_digest(path: str | Path) -> str:
    """SHA-256 in hexadecimal: of the file's bytes; of a policy that extends others, of the digests of all its files, one a line,
    its own first. Raises `PolicyError` when one of them cannot be read."""
    return _digest(_read_files(Path(path)))


def _digest(files: Sequence[SourceFile]) -> str:
    digests = [hashlib.sha256(file.raw).hexdigest() for file in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _read_files(path: Path) -> list[SourceFile]:
    """The file, what it extends, what that extends, and so on. What is wrong with the first file itself is left to the caller."""
    files = [_read_file(path, "")]
    while isinstance(named := files[-1].document.get("extends"), str):
        files.append(base := _read_base(files, named))
        if problems := base.yaml.problems or _problems_around_spec(base):
            raise _refused(files, problems)
    return files


def _problems_around_spec(file: SourceFile) -> Sequence[Problem]:
    """What is wrong with a file that another extends, but for its spec, which need not be complete."""
    document = file.document
    spec = document.get("spec", {} if "extends" in document else None)
    return validate_policy({**document, "spec": {"rules": []}} if isinstance(spec, dict) else file.yaml.value)[1]


def _refused(files: Sequence[SourceFile], problems: Sequence[Problem]) -> PolicyError:
    """These problems of the last file, for whoever asked for the first."""
    located = tuple(files[-1].locate(problem) for problem in problems)
    texts = {file.name: file.text for file in files}
    return PolicyError(print_problems(str(files[0].path), files[0].text, located, texts), located)


def _read_file(path: Path, name: str) -> SourceFile:
    raw = _read_bytes(path)
    text = _decoded(raw, str(path))
    return SourceFile(path, name, raw, text, read_yaml(text))


def _read_base(files: Sequence[SourceFile], named: str) -> SourceFile:
    """The file that the last of these extends."""

    def refused(message: str, remedy: str) -> PolicyError:
        return _refused(files, [Problem("extends", message, remedy)])

    path = files[-1].path.parent / named
    if _is_missing(path):
        if named not in shipped_policies():
            beside = [name for name in (f"{named}.yaml", f"{named}.yml") if not _is_missing(files[-1].path.parent / name)]
            remedy = f"did you mean '{beside[0]}'?" if beside else did_you_mean(named, shipped_policies(), "shipped policies")
            raise refused(f"'{named}' is neither a shipped policy nor a file: there is no {path}", remedy)
        path = _shipped(named)
    known = [os.path.realpath(file.path) for file in files]
    if (real := os.path.realpath(path)) in known:
        circle = [*files[known.index(real) :], files[known.index(real)]]
        raise refused("a circle: " + " extends ".join(file.path.name for file in circle), "let one of them stand on its own")
    if len(files) == FILES_MAX:
        raise refused(f"more than {FILES_MAX} policies, each extending the next", "extend one that stands on its own")
    try:
        return _read_file(path, str(path))
    except PolicyError as error:
        found = error.problems[0]
        raise refused(f"'{named}' ({path}): {found.message}", found.remedy) from None


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def shipped_policies() -> tuple[str, ...]:
    """Names of the policies that come with sentinel."""
    entries = SHIPPED.iterdir() if SHIPPED.is_dir() else ()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def shipped_policy_path(name: str | Path) -> Path:
    """`default` and `policies/default.yaml` name the shipped policy, unless something of that path exists."""
    match = _NAME.fullmatch(str(name))
    if Path(name).is_file() or match is None or match[1] not in shipped_policies():
        return Path(name)
    return _shipped(match[1])


def _shipped(name: str) -> Path:
    return SHIPPED / f"{name}.yaml"


def _refuse(path: Path, message: str, remedy: str) -> PolicyError:
    problem = Problem("", message, remedy)
    return PolicyError(print_problems(str(path), "", (problem,)), (problem,))


def _read_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise _refuse(path, "this is a directory, not a policy file", "name the file inside it")
        if path.exists() and not path.is_file():
            raise _refuse(path, "this is not a regular file", "name a policy file")
        with path.open("rb") as file:
            raw = file.read(SIZE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refuse(path, "no such file", f"check the path; shipped policies: {', '.join(shipped_policies())}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refuse(path, f"cannot be read: {reason}", "check path and permissions") from None
    if len(raw) > SIZE_MAX_BYTES:
        raise _refuse(path, f"larger than {SIZE_MAX_BYTES // 1024} KiB", "a policy is a few pages; is this the right file?")
    if not raw.strip():
        raise _refuse(path, "the file is empty", "start from a copy of a shipped policy, such as 'default'")
    return raw


def _decoded(raw: bytes, path: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refuse(Path(path), f"line {line} is not UTF-8 text (byte {error.start})", "save the file as UTF-8") from None
