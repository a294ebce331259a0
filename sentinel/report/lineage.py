"""`sentinel lineage`: every attempt of a run, where it came from, which of its steps survive in the present weights, and why.

Read from the journal's facts alone, so it also shows attempts whose checkpoints are long gone. The maker of the checkpoint an
attempt resumed from is whoever had committed that step last when it was launched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sentinel.model import facts as f
from sentinel.model.actions import StartAttempt
from sentinel.model.facts import Fact
from sentinel.report.settings import setting_text, settings_asked


@dataclass(slots=True)
class Branch:
    """One attempt. `first_step`: the first it trained itself, None when it never did; `survives_to`: the last of its steps that
    the newest attempt stands on, None when none does. `parent` None: from scratch."""

    attempt: int
    parent: int | None
    resumed_step: int
    why: str
    settings: dict[str, Any]
    last_step: int
    first_step: int | None = None
    outcome: str = ""
    end_reason: str = ""
    survives_to: int | None = None
    changed_live: list[dict[str, Any]] = field(default_factory=list)
    exclude_nodes: list[str] = field(default_factory=list)
    environment_changes: list[str] = field(default_factory=list)
    environment_unknown: list[str] = field(default_factory=list)


class Lineage:
    """The attempts of a run, folded from its facts one by one."""

    def __init__(self) -> None:
        self._branches: dict[int, Branch] = {}
        self._makers: dict[int, int] = {}  # step → who committed the checkpoint that lies there

    def take(self, fact: Fact) -> None:
        known, makers = self._branches, self._makers
        match fact:
            case f.AttemptLaunched(attempt=number, resume=resume):
                step = resume.step if resume else 0
                parent = makers.get(step) if resume else None
                self._makers = {at: maker for at, maker in makers.items() if at <= step}
                known[number] = Branch(number, parent, step, fact.why, settings_asked(fact.overrides), step)
            case f.CheckpointCommitted(attempt=maker, step=step):
                makers[step] = maker
                if maker in known:
                    known[maker].last_step = max(known[maker].last_step, step)
            case f.ReceiptSeen(attempt=number, resumed_step=step) if number in known:
                branch = known[number]
                if step != branch.resumed_step:  # the trainer passed a damaged checkpoint over
                    branch.parent, branch.resumed_step, branch.last_step = makers.get(step) if step else None, step, step
            case f.ActionDecided(action=StartAttempt(attempt=number, exclude_nodes=nodes)) if number in known:
                known[number].exclude_nodes = list(nodes)
            case f.EnvironmentRead(attempt=number) if number in known:
                known[number].environment_changes = list(fact.changes)
                known[number].environment_unknown = list(fact.unknown)
            case f.FirstStep(attempt=number, step=step) if number in known:
                known[number].first_step, known[number].last_step = step, max(step, known[number].last_step)
            case f.OverridesAnswered(attempt=number, id=name, step=step) if number in known:
                known[number].changed_live.append({"id": name, "step": step, "refused": list(fact.not_in_force)})
            case f.AttemptEnded(attempt=number) if number in known:
                branch = known[number]
                branch.outcome, branch.end_reason = fact.outcome, fact.reason
                branch.last_step = max(fact.last_step, branch.resumed_step)
            case _:
                pass

    @property
    def newest(self) -> int | None:
        """The newest attempt; None before the first."""
        return max(self._branches, default=None)

    def branches(self, newest_step: int | None = None) -> list[Branch]:
        """The attempts in the order they were launched, each with its parent and what of it survives. Copies: they do not change
        any more. `newest_step`: of the newest attempt, which the journal does not know while it lives."""
        found = {number: replace(branch, changed_live=list(branch.changed_live)) for number, branch in self._branches.items()}
        newest = found[max(found)] if found else None
        if newest is not None and newest_step is not None and not newest.outcome:
            newest.last_step = max(newest.last_step, newest_step)
        _mark_surviving(found)
        return list(found.values())


def lineage_text(branches: list[dict[str, Any]], newest_step: int | None = None) -> str:
    """The tree for a terminal: `o` survives, `x` was abandoned, and what was cut off an attempt stands below it."""
    if not branches:
        return "no attempt was launched yet"
    lines: list[str] = []
    for branch in branches:
        is_newest = branch is branches[-1]
        last = max(branch["last_step"], newest_step or 0) if is_newest and not branch["outcome"] else branch["last_step"]
        kept = last if is_newest else branch["survives_to"]
        origin = f"from step {branch['resumed_step']}" if branch["resumed_step"] else "from scratch"
        origin += f" of attempt {branch['parent']}" if branch["parent"] is not None else ""
        first = branch["first_step"]
        trained = "no step" if first is None else f"steps {first}..{last}"
        cut = "" if kept is not None and kept >= last else "; abandoned" if kept is None else f"; those after {kept} abandoned"
        lines.append(f"{'o' if kept is not None else 'x'} {branch['attempt']:>3}  {origin}: {trained}{cut}")
        lines.append(f"|      launched: {branch['why']}")
        if branch["exclude_nodes"]:
            lines.append(f"|      without the nodes {', '.join(branch['exclude_nodes'])}")
        lines += [f"|      runs other than before: {change}" for change in branch["environment_changes"]]
        lines += [f"|      what it runs is not wholly known: {why}" for why in branch["environment_unknown"]]
        if branch["settings"]:
            lines.append(
                "|      settings: " + ", ".join(f"{key} {setting_text(key, value)}" for key, value in branch["settings"].items())
            )
        for change in branch["changed_live"]:
            words = f"{', '.join(change['refused'])} not in force" if change["refused"] else "in force"
            lines.append(f"|      settings {change['id']} {words} from step {change['step']}")
        end = f"{branch['outcome']}: {branch['end_reason']}" if branch["outcome"] else "has not ended"
        lines.append(f"|      {end}" if not is_newest else f"       {end}")
    return "\n".join(lines)


def _mark_surviving(branches: Mapping[int, Branch]) -> None:
    """Down from the newest attempt: of each parent, what lies up to the step its child resumed at."""
    branch = branches[max(branches)] if branches else None
    bound = branch.last_step if branch is not None else 0
    while branch is not None:
        branch.survives_to = bound
        bound = branch.resumed_step
        branch = branches.get(branch.parent) if branch.parent is not None and branch.parent < branch.attempt else None


def branch_document(branch: Branch) -> dict[str, Any]:
    return {name: getattr(branch, name) for name in Branch.__slots__}
