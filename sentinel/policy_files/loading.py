"""Policy files: YAML on disk to a checked `Policy`, every error with its line, a caret and the remedy.

    load_policy(shipped_policy_path("default"))

`yaml_positions` reads the text, `sentinel.policy.schema` gives it types, `sentinel.policy.checks` judges whether it can work.
This module knows files, and joins the three.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import re
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from sentinel.channels import registry as _registry  # noqa: F401 - completes the language
from sentinel.errors import PolicyError, Problem
from sentinel.policy.checks import check_policy
from sentinel.policy.problems import print_problems
from sentinel.policy.schema import Policy
from sentinel.policy.schema_problems import validate_policy
from sentinel.policy_files.yaml_positions import read_yaml

SIZE_MAX_BYTES = 256 * 1024

_NAME = re.compile(r"(?:policies/)?([A-Za-z0-9_-]+)(?:\.ya?ml)?")


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy that may act, with what was read and what a careful reader would ask about."""

    path: str
    digest: str
    policy: Policy
    warnings: tuple[Problem, ...]
    text: str

    def print_warnings(self) -> str:
        """The warnings, printed as errors are; empty when there are none."""
        return print_problems(self.path, self.text, self.warnings)


def load_policy(path: str | Path, capabilities: Set[str] | None = None) -> Policy:
    """The policy in this file. Raises `PolicyError`, which prints every problem, when it may not act."""
    return read_policy_file(path, capabilities).policy


def read_policy_file(path: str | Path, capabilities: Set[str] | None = None) -> PolicyFile:
    """As `load_policy`, with digest and warnings. `capabilities` is what the trainer declares; None: not known yet."""
    raw = _read_bytes(Path(path))
    text = _decoded(raw, str(path))
    read = read_yaml(text)
    policy: Policy | None = None
    problems = tuple(read.problems)
    if not problems:
        policy, problems = validate_policy(read.value)
    if policy is not None:
        problems = check_policy(policy, capabilities)
    located = sorted((read.locate(problem) for problem in problems), key=lambda problem: (problem.line, problem.column))
    errors = tuple(problem for problem in located if problem.severity == "error")
    if errors or policy is None:
        raise PolicyError(print_problems(str(path), text, errors), errors)
    return PolicyFile(str(path), hashlib.sha256(raw).hexdigest(), policy, tuple(located), text)


def policy_digest(path: str | Path) -> str:
    """SHA-256 of the file's bytes, in hexadecimal. Raises `PolicyError` when the file cannot be read."""
    return hashlib.sha256(_read_bytes(Path(path))).hexdigest()


def shipped_policies() -> tuple[str, ...]:
    """Names of the policies that come with sentinel."""
    entries = importlib.resources.files("policies").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def shipped_policy_path(name: str | Path) -> Path:
    """`default` and `policies/default.yaml` name the shipped policy, unless something of that path exists."""
    match = _NAME.fullmatch(str(name))
    if Path(name).is_file() or match is None or match[1] not in shipped_policies():
        return Path(name)
    return Path(str(importlib.resources.files("policies").joinpath(f"{match[1]}.yaml")))


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
