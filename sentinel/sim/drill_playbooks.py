"""Playbooks that a drill file rehearses in place of its policy's own, read and checked as a policy's are."""

from __future__ import annotations

from sentinel.policy.checks_playbooks import check_playbook
from sentinel.policy.schema import Rung
from sentinel.policy.schema_problems import validate_rung
from sentinel.sim.drill_fields import Fields


class Playbooks(Fields):
    def _playbooks(self, raw: object) -> dict[str, tuple[Rung, ...]]:
        found: dict[str, tuple[Rung, ...]] = {}
        if not isinstance(raw, dict):
            self._add("playbooks", "this is no mapping of playbooks", "write name: and its rungs below it")
            return found
        for name, rungs in raw.items():
            path = f"playbooks.{name}"
            read = [self._rung(rung, f"{path}[{index}]") for index, rung in enumerate(self._list(rungs, path))]
            found[str(name)] = tuple(rung for rung in read if rung is not None)
            if read and None not in read:
                problems = check_playbook(path, found[str(name)], 0, None)
                self.problems += [problem for problem in problems if problem.severity == "error"]
        return found

    def _rung(self, raw: object, path: str) -> Rung | None:
        rung, problems = validate_rung(raw)
        for problem in problems:
            self._add(f"{path}.{problem.path}".rstrip("."), problem.message, problem.remedy)
        return rung
