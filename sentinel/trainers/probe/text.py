"""What a probe says to a person: the sentences and the lines that would add what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from sentinel.client.settings import SETTINGS
from sentinel.model.amounts import time_words
from sentinel.trainers.adding import PRINTED_LINE, how_to_add_metric, how_to_add_rows
from sentinel.trainers.describe import metrics_source
from sentinel.trainers.probe.judging import Missing, expected_grades, find_missing, profile_by_what_it_printed, resume_grade
from sentinel.trainers.probe.seen import EndedBy, ProbedCheckpoint, Seen
from sentinel.trainers.probe.trial import Trial
from sentinel.trainers.profile import TrainerProfile

KEPT_MAX = 4
_ENDED: dict[EndedBy, str] = {
    "steps": "it was ended after the steps that were asked for",
    "time": "it was ended when the time was over",
    "exit": "it ended by itself",
    "person": "it was ended by a person",
}
_GRADES = {
    "observed": "observed: the stream shows it",
    "asserted": "asserted: an argument is passed, and nothing is read back",
    "none": "none: it was not tried, or no row told it",
    "contradicted": "contradicted: the stream shows that it did not happen",
    "read_back": "read back",
}


def what_it_will_write(trial: Trial, folder: Path, is_kept: bool) -> Iterator[str]:
    """Said before anything is started."""
    end = "" if is_kept else ", which is removed at the end (--keep leaves it)"
    yield f"the probe writes into {folder}{end}"
    if trial.moved is not None:
        flag, before = trial.moved
        yield f"the trainer's checkpoints go there, too: {flag} {shlex.quote(before)} is replaced for the probe"
    elif trial.root is not None:
        yield f"the trainer writes its checkpoints into {trial.root}"
    else:
        yield "where the trainer writes is not known: it is started as it is"
    if trial.named_folders:
        yield f"what it does with the other folders in its command is not known: {', '.join(trial.named_folders)}"


def who_it_is(trial: Trial) -> str:
    if trial.by is None:
        return f"trainer: {trial.asked}, as named"
    if not trial.by:
        return f"trainer: not recognised by its command; watched as {trial.asked}"
    also = f" ({' and '.join(trial.rivals)} would fit as well)" if trial.rivals else ""
    return f"trainer: {trial.asked}, recognised by {', '.join(trial.by)} in the command{also}"


def probe_text(trial: Trial, seen: Seen, folder: Path, is_kept: bool) -> str:
    """The whole report."""
    first = seen.first
    status = f", with {first.status}" if first.ended_by == "exit" and first.status is not None else ""
    lines = [who_it_is(trial), f"{_ENDED[first.ended_by]}{status}, after {time_words(first.seconds)}"]
    lines += _section("watched", _watched(trial, seen))
    lines += _section("restored", _restored(trial, seen))
    lines += _section("changed at a launch", _changed(trial))
    lines += _section("proved", _proved(trial, seen))
    missing = find_missing(trial, seen)
    lines += _section("missing", [f"{sentence_of(one)}; {remedy_of(one, seen, trial.profile)}" for one in missing] or ["nothing"])
    if first.status not in (None, 0) or not first.rows:
        lines += _section("the end of what it printed", list(first.tail) or ["nothing"])
    if is_kept:
        lines.append(f"everything lies in {folder}")
    return "\n".join(lines)


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)]


def _watched(trial: Trial, seen: Seen) -> list[str]:
    first = seen.first
    if not first.rows:
        return [f"no row of numbers; looked for: {metrics_source(trial.profile.spec.metrics)}"]
    steps = [row.step for row in first.rows]
    every = "" if first.every_steps is None else f", every {first.every_steps} steps" if first.every_steps > 1 else ", every step"
    seconds = "" if first.row_seconds is None else f", about {time_words(first.row_seconds)} apart"
    rows = f"{len(steps)} rows, steps {steps[0]} to {steps[-1]}{every}{seconds}"
    counted = ", ".join(
        name if count == len(steps) else f"{name} ({count} of {len(steps)})" for name, count in first.metrics.items()
    )
    source = metrics_source(trial.profile.spec.metrics)
    beats = f"ranks seen as processes of this machine: {first.ranks}" if first.ranks else "no process of a rank was seen"
    return [f"from {source}: {rows}", f"metrics: {counted or 'none'}", beats]


def _restored(trial: Trial, seen: Seen) -> list[str]:
    places = trial.profile.spec.checkpoints
    if places is None:
        return ["nothing: the profile knows no checkpoints; the trainer is started again as it is"]
    asked = "" if seen.saves_every is None else f" (a save every {seen.saves_every} steps was asked for)"
    lines = [_kept(one) for one in seen.kept[:KEPT_MAX]] or [f"no checkpoint came{asked}"]
    if len(seen.kept) > KEPT_MAX:
        lines.append(f"and {len(seen.kept) - KEPT_MAX} more, up to step {seen.kept[-1].step}")
    if seen.mismatch is not None:
        lines.append(seen.mismatch.sentence)
    if seen.back is not None:
        back = seen.back
        where = (
            f"it went on behind step {back.began}" if back.began is not None else "no row came, so where it went on is not known"
        )
        lines.append(f"started again from the checkpoint of step {back.asked}: {where}")
    if trial.moved is None and seen.kept:
        names = ", ".join(one.name for one in seen.kept[-KEPT_MAX:])
        lines.append(f"left in {trial.root}: {names}; move them away before a run that is not to go on from them")
    if trial.real_root is not None and trial.moved is not None and _is_elsewhere(trial):
        lines.append(f"{trial.real_root} is on another disk, where sealing may take another way; --run-dir DIR probes there")
    return lines


def _is_elsewhere(trial: Trial) -> bool:
    assert trial.real_root is not None
    assert trial.root is not None
    return _device(trial.real_root) != _device(trial.root)


def _device(path: Path) -> int:
    there = next(one for one in (path, *path.parents) if one.exists())
    return there.stat().st_dev


def _kept(one: ProbedCheckpoint) -> str:
    size = f"{one.size / 2**20:.1f} MiB"
    if not one.is_complete:
        why = f": {', '.join(one.missing)} is missing" if one.missing else ""
        return f"step {one.step}: {one.name}, {size}, incomplete{why}"
    took = "" if one.seconds is None else f" in {time_words(one.seconds)}"
    return f"step {one.step}: {one.name}, {size}, complete, " + (f"sealed by {one.how}{took}" if one.how else "not sealed")


def _changed(trial: Trial) -> list[str]:
    profile = trial.profile
    lines = [
        f"{SETTINGS[key].label}{f' {value}' if value else ''}: {shlex.join(words) or 'without an argument'}"
        for key in profile.settings
        for value, words in profile.spec.templates(key).items()
    ]
    note = ["as the profile says; the probe does not try them, but for the interval of checkpoints"] if lines else []
    return [*lines, *note] or ["nothing: the profile has no arguments for settings"]


def _proved(trial: Trial, seen: Seen) -> list[str]:
    lines = [f"{key} can be {_GRADES[grade]}" for key, grade in expected_grades(trial.profile, seen.first).items()]
    if trial.profile.spec.checkpoints is not None:
        lines.append(f"going on from a checkpoint is {_GRADES[resume_grade(seen)]}")
    return lines or ["nothing can be proved: nothing can be changed"]


def sentence_of(missing: Missing) -> str:
    """What is missing."""
    what = missing.what
    return {
        "start": f"the command ended with {what}",
        "rows": "no row of numbers came: no loss is watched, only its end and its silence",
        "format": f"what it prints reads as {what}, and the profile reads it as something else",
        "steps": "its step numbers begin anew: behind the highest nothing is judged, nor is it known where it goes on",
        "metric": f"{what} was not among the metrics",
        "checkpoints": "no checkpoint came: nothing can be rolled back",
        "other_profile": f"what lies there is what {what} writes",
        "unsealed": "no checkpoint is complete, so none was sealed",
        "resume": f"it did not go on from the checkpoint of step {what}, as its rows show",
        "resume_unknown": f"no row told exactly where it went on from the checkpoint of step {what}",
        "resume_refused": f"it refuses {what}, by which the profile makes it go on from a checkpoint",
        "save_refused": f"it refuses {what}, by which the profile asks for checkpoints; it was started again without",
        "setting": f"no argument for {what}",
        "skip": "no argument that leaves data out: rungs with 'skip' are passed over",
        "order_of_data": "which data a step trains on is not known",
    }[missing.lack]


def remedy_of(missing: Missing, seen: Seen, profile: TrainerProfile) -> str:
    """The line that would add it, or where to look."""
    what, metrics, name = missing.what, profile.spec.metrics, profile.metadata.name
    own = "a copy of the profile (sentinel trainers show)"
    printing = () if seen.kept else profile_by_what_it_printed(seen)  # its checkpoints fit: only the numbers are read wrongly
    options = ", ".join(profile.options)
    its_own = f"name its own: --trainer {name}:OPTION=FLAG ({options})" if options else f"say its own in {own}"
    fits = " or ".join(f"--trainer {name}" for name in printing)
    if missing.lack in ("rows", "checkpoints") and seen.first.status not in (None, 0) and not seen.first.rows:
        return "it died before one could come"
    return {
        "start": "read the end of what it printed",
        "rows": f"try {fits}" if fits else how_to_add_rows(metrics, name),
        "format": f"take {fits}" if fits else f"{own} with metrics: {{from: output, format: {what}}}",
        "steps": "number the steps on through all epochs" + (f": {PRINTED_LINE}" if metrics.from_ == "output" else ""),
        "metric": how_to_add_metric(metrics, what),
        "checkpoints": "save more often (--checkpoint-every), give more --time, or say where they lie: "
        'checkpoints: {root: [--FLAG], pattern: "NAME-{step}"}',
        "other_profile": f"name it: --trainer {what}",
        "unsealed": "give more --time, or correct checkpoints: {complete: [FILE]}",
        "resume": 'correct resume: {arguments: [--FLAG, "{checkpoint}"]}',
        "resume_unknown": "give more --time, or try fewer --steps",
        "resume_refused": its_own,
        "save_refused": its_own,
        "setting": f'settings: {{{what}: [--FLAG, "{{value}}"]}}',
        "skip": 'skip: {arguments: [--FLAG, "{batches}"]}, with data: by step',
        "order_of_data": "data: by step, if the batch of a step follows from its number",
    }[missing.lack]
