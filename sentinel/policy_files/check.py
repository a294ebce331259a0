"""`sentinel policy check`: every file named, every problem of each, and one line for what a policy that may act holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.errors import PolicyError, Problem, UsageError
from sentinel.model.capabilities import CAPABILITIES, MORE
from sentinel.policy.available import Abilities
from sentinel.policy.problems import did_you_mean
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import read_policy_file, shipped_policy_path

KNOWN = (*CAPABILITIES, *MORE, "skip_spends_steps")


Also = Callable[[Policy, Path], object]


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """`text` is what a person reads of it."""

    file: str
    ok: bool
    text: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class CheckReport:
    files: tuple[CheckedFile, ...]

    @property
    def ok(self) -> bool:
        return all(file.ok for file in self.files)

    @property
    def text(self) -> str:
        return "\n".join(file.text for file in self.files)

    @property
    def document(self) -> list[dict[str, Any]]:
        return [
            {"file": file.file, "ok": file.ok, "problems": [_plain(problem) for problem in file.problems]} for file in self.files
        ]


def check_files(
    files: Sequence[str], capabilities: str | None = None, also: Also | None = None, able: Abilities | None = None
) -> CheckReport:
    """`capabilities`: what the trainer declares, with commas between; None: not known, and nothing is said. `also` judges
    what a policy names outside itself (a reference run), and raises PolicyError. `able`: what a profile says of
    the trainer."""
    if able is not None and capabilities is not None:
        raise UsageError(f"--capabilities {capabilities}: the profile {able.trainer} says that already; leave one of the two out")
    if able is None and capabilities is not None:
        able = Abilities("", _declared(capabilities))
    return CheckReport(tuple(_check(file, able, also) for file in files))


def _declared(text: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    for word in sorted(words):
        if word not in KNOWN:
            raise UsageError(f"--capabilities {word}: not known; {did_you_mean(word, KNOWN, 'capabilities')}")
    return words


def _check(file: str, able: Abilities | None, also: Also | None) -> CheckedFile:
    path = shipped_policy_path(file)
    try:
        read = read_policy_file(path, able.capabilities if able else None, able.settable if able else None)
        if also is not None:
            also(read.policy, path)
    except PolicyError as error:
        return CheckedFile(file, False, error.message, error.problems)
    parts = (read.print_warnings(), f"{file}: fine. {_holds(read.policy)}")
    return CheckedFile(file, True, "\n".join(part for part in parts if part), read.warnings)


def _holds(policy: Policy) -> str:
    spec = policy.spec
    playbooks = ", ".join(f"{name} ({len(rungs)} rungs)" for name, rungs in spec.playbooks.items())
    written = sum(rule.expr is not None for rule in spec.rules)
    on_expressions = f", {written} on expressions" if written else ""
    extends = f"; extends {policy.extends}" if policy.extends is not None else ""
    return f"{len(spec.rules)} rules{on_expressions}; playbooks {playbooks or 'none'}; mode {spec.mode}{extends}"


def _plain(problem: Problem) -> dict[str, Any]:
    """`file` stands beside the others where the problem is in a file that this policy extends."""
    file = {"file": problem.file} if problem.file else {}
    return file | {
        "severity": problem.severity, "line": problem.line, "column": problem.column, "path": problem.path,
        "message": problem.message, "remedy": problem.remedy,
    }  # fmt: skip
