"""A policy and what it extends, judged as one policy; every problem is shown where somebody wrote what causes it.

`sentinel.policy.inheritance` merges the documents, `sentinel.policy.schema` gives the values types, `sentinel.policy.checks`
judges whether they can work together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sentinel.errors import Problem
from sentinel.policy.checks import check_policy
from sentinel.policy.inheritance import Joined, Origin, join
from sentinel.policy.schema import Policy
from sentinel.policy.schema_problems import validate_policy
from sentinel.policy.unruled import gathered
from sentinel.policy_files.yaml_positions import YamlText

_REFERENCE = ("spec", "detectors", "behind_reference", "reference")
_RULE = re.compile(r"spec\.rules\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One policy file as it was read; `name` is what a problem calls it, empty for the one that was asked for."""

    path: Path
    name: str
    raw: bytes
    text: str
    yaml: YamlText

    @property
    def document(self) -> dict[str, Any]:
        """Empty where the file holds something else than a mapping, or what cannot be used."""
        return self.yaml.value if isinstance(self.yaml.value, dict) and not self.yaml.problems else {}

    def locate(self, problem: Problem) -> Problem:
        return replace(self.yaml.locate(problem), file=self.name)


class Layers:
    """A policy and what it extends, judged as one policy; every problem is shown where somebody wrote what causes it."""

    def __init__(
        self, files: Sequence[SourceFile], capabilities: Collection[str] | None, settable: Collection[str] | None = None
    ) -> None:
        self._files, self._capabilities, self._settable = files, capabilities, settable
        self._documents = [file.document for file in files]
        self._is_alone = len(files) == 1
        is_plain = self._is_alone and "remove" not in files[0].document
        self.joined = Joined(files[0].yaml.value) if is_plain else join(self._documents)
        self._without: dict[str, set[tuple[str, str]] | None] = {}
        self._rebase_reference()

    def judge(self) -> tuple[Policy | None, list[Problem]]:
        """The policy, where it can be one, and every problem with its file and line."""
        unread = [*((0, problem) for problem in self._files[0].yaml.problems), *self.joined.problems]
        if unread:
            return None, [self._files[source].locate(problem) for source, problem in unread]
        policy, problems = self._judged(self.joined.value)
        return policy, gathered([self._located(problem, policy is not None) for problem in problems])

    def _judged(self, value: Any) -> tuple[Policy | None, tuple[Problem, ...]]:
        policy, problems = validate_policy(value)
        if policy is not None:
            return policy, check_policy(policy, self._capabilities, self._settable)
        extends = tuple(problem for problem in problems if problem.path == "extends")
        return None, extends or problems  # what a policy lacks whose base is unknown, nobody can say

    def _located(self, problem: Problem, is_whole: bool) -> Problem:
        """`is_whole`: all values are right by themselves, so that a problem is in how they go together."""
        if self._is_alone:
            return self._files[0].locate(problem)
        origin = self.joined.origin(problem.path)
        found = self._placed(problem, origin)
        beside = f"; it extends '{self._extends}'" if is_whole else ""
        if origin.source == 0 and (not is_whole or self.joined.is_written(origin.path)):
            return replace(found, message=found.message + beside)
        inner = Layers(self._files[1:], self._capabilities, self._settable)
        policy, problems = inner._judged(inner.joined.value)
        same = next((p for p in problems if _key(inner.joined, p) == _key(self.joined, problem)), None)
        if same is not None:
            return inner._located(same, policy is not None)
        unit = next((unit for unit in self.joined.written if self._is_cause(unit, problem, is_whole)), None)
        if origin.source:
            beside = f" ({found.path} of '{self._extends}', {found.file}:{found.line})" if unit is not None else ""
        cause = self._placed(replace(problem, at=None), Origin(0, unit)) if unit is not None else found
        return replace(cause, message=cause.message + beside)

    @property
    def _extends(self) -> str:
        return str(self._documents[0]["extends"])

    def _is_cause(self, unit: str, problem: Problem, is_whole: bool) -> bool:
        """Whether the problem is gone where the policy does not write this one thing."""
        if unit not in self._without:
            joined = join(self._documents, {unit})
            policy, problems = self._judged(joined.value)
            is_worse = bool(joined.problems) or (is_whole and policy is None)
            self._without[unit] = None if is_worse else {_key(joined, problem) for problem in problems}
        left = self._without[unit]
        return left is not None and _key(self.joined, problem) not in left

    def _placed(self, problem: Problem, origin: Origin) -> Problem:
        """With the line at `origin`, and rules by their index in that file, or by name and place in another."""

        def entry(rule: re.Match[str]) -> str:
            there = self.joined.origin(rule[0])
            if there.source == origin.source:
                return there.path
            file = self._files[there.source]
            return f"'{self.joined.entry_name('spec.rules', int(rule[1]))}' ({file.path}:{file.yaml.places[there.path][0]})"

        message = _RULE.sub(entry, problem.message)
        return self._files[origin.source].locate(replace(problem, path=origin.path, message=message))

    def _rebase_reference(self) -> None:
        """A relative path starts at the file in which it is written."""
        if self._is_alone:
            return
        settings = self.joined.value["spec"]
        for key in _REFERENCE[1:-1]:
            settings = settings.get(key) if isinstance(settings, dict) else None
        named = settings.get(_REFERENCE[-1]) if isinstance(settings, dict) else None
        origin = self.joined.origin(".".join(_REFERENCE))
        base = self._files[origin.source].path.parent
        if isinstance(named, str) and isinstance(settings, dict) and base != self._files[0].path.parent:
            settings[_REFERENCE[-1]] = os.path.abspath(base / named)


def _key(joined: Joined, problem: Problem) -> tuple[str, str]:
    return joined.named(problem.path), joined.named(problem.message)
