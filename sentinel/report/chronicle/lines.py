"""The lines of the logbook for what is no incident: attempts, changes of settings with their effects, people, the run's ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sentinel.model import facts as f
from sentinel.model.attempts import SettingsInForce
from sentinel.model.operator_requests import Remark
from sentinel.plan.environment import changes_in_words, compare_commands
from sentinel.plan.overrides import without
from sentinel.report.chronicle.effects import changes_between, effect_words
from sentinel.report.chronicle.gathering import Gathered, Moment
from sentinel.report.chronicle.plain import plain
from sentinel.report.lineage import Branch
from sentinel.terminal.words import checked_words, describe, missing_words, refused_words


def moment_lines(run_dir: Path, found: Gathered, branches: Mapping[int, Branch], moment: Moment) -> list[str]:
    """What happened, and below it what belongs to it. Empty for what says nothing to a person."""
    match moment.fact:
        case f.AttemptLaunched() as launched:
            return _attempt(run_dir, branches, launched, moment.before or SettingsInForce())
        case f.OverridesAnswered() as answered:
            return _live_change(run_dir, found, answered)
        case f.SettingLapsed() as lapsed:
            after = without(lapsed.before, lapsed.keys)
            effect = effect_words(run_dir, lapsed.attempt, lapsed.step, None)
            changed = changes_between(lapsed.before, after)
            return [f"**Setting taken back** at step {lapsed.step}: {', '.join(changed)}: {plain(lapsed.reason)}", *_some(effect)]
        case f.LapseJudged() as judged:
            return [f"The lapse of {plain(' and '.join(judged.keys))} {judged.outcome}: {plain(judged.reason)}"]
        case f.RequestAnswered() as answered:
            return _request(found, moment.at_s, answered)
        case f.RunCreated() as created:
            return [f"**Run begun**: {plain(created.run_id)}{', observe only' if created.observe_only else ''}"]
        case f.SupervisorTookOver() as taken:
            return [f"Taken over by supervisor {taken.epoch} on {plain(taken.host)}, policy {plain(taken.policy_name)}"]
        case f.EnvironmentRead() as read:
            return [f"**What attempt {read.attempt} runs has changed**: {plain(changes_in_words(read.changes))}"]
        case f.NodeExcluded() as out:
            return [f"Node {plain(out.node)} is left out from now on: {plain(out.reason)}"]
        case f.NodesChecked() as checked:
            return [f"Nodes checked: {plain(checked_words(checked), 2000)}"]
        case f.ArgumentsRefused() as refused:
            return [f"**An argument is refused**: {plain(refused_words(refused))}"]
        case f.CommandChanged() as changed:
            return [f"**Goes on under another command**: {plain(compare_commands(changed.before, changed.command))}"]
        case f.PlaybookChanged() as laid:
            return [f"Incident {laid.incident}, under the policy applied: {plain(laid.reason)}"]
        case f.NumbersMissing() as missing:
            return [f"**Numbers are missing**: {plain(missing_words(missing))}"]
        case f.StopAsked(by=by):
            return [f"Stop asked for by {plain(by)}"]
        case f.Held(reason=reason):
            return [f"**Held for a person**: {plain(reason)}"]
        case f.RunEnded(outcome=outcome, reason=reason):
            return [f"**Run {plain(outcome)}**: {plain(reason)}"]
        case _:
            return []


def _request(found: Gathered, at_s: float, answered: f.RequestAnswered) -> list[str]:
    if isinstance(answered.wish, Remark):
        return [f"**Note by {plain(answered.by)}**: {plain(answered.wish.text, 2000)}"]
    line = describe(answered, at_s, found.state)
    return [plain(line.text)] if line is not None else []


def _attempt(run_dir: Path, branches: Mapping[int, Branch], launched: f.AttemptLaunched, before: SettingsInForce) -> list[str]:
    branch = branches[launched.attempt]
    origin = f"from step {branch.resumed_step}" if branch.resumed_step else "from scratch"
    origin += f" of attempt {branch.parent}" if branch.parent is not None else ""
    lines = [f"**Attempt {launched.attempt}** {origin}: {plain(launched.why)}"]
    changed = changes_between(before, launched.overrides)
    if changed:
        first = branch.resumed_step + 1
        effect = effect_words(run_dir, launched.attempt, first, branch.parent) if branch.parent is not None else ""
        lines += [f"Settings from here: {', '.join(changed)}", *_some(effect)]
    return [*lines, _trained(branch)]


def _trained(branch: Branch) -> str:
    if branch.first_step is None:
        trained = "It trained no step"
    else:
        trained = f"It trained steps {branch.first_step} to {branch.last_step}"
        kept = branch.survives_to
        if kept is None or kept < branch.first_step:
            trained += ", all of them abandoned later"
        elif kept < branch.last_step:
            trained += f", of which those after {kept} were abandoned"
    return f"{trained}; {plain(branch.outcome)}: {plain(branch.end_reason)}" if branch.outcome else f"{trained}; it has not ended"


def _live_change(run_dir: Path, found: Gathered, answered: f.OverridesAnswered) -> list[str]:
    write = found.writes.get(answered.id)
    changed = changes_between(write.before or SettingsInForce(), write.overrides) if write is not None else []
    if answered.not_in_force:
        return [f"The trainer did not take {plain(', '.join(answered.not_in_force))} at step {answered.step}"]
    if not changed:
        return []
    effect = effect_words(run_dir, answered.attempt, answered.step, None)
    return [f"**Settings changed while it ran**, from step {answered.step}: {', '.join(changed)}", *_some(effect)]


def _some(words: str) -> list[str]:
    return [words] if words else []
