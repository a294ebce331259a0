"""From what a probe has seen to what is missing and to the grades that proofs can have. Facts in, facts out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sentinel.client.settings import SETTINGS
from sentinel.model.proof import Grade
from sentinel.plan.proving import LEARNING_RATE, SKIP
from sentinel.trainers.probe.recognise import profiles_of_format
from sentinel.trainers.probe.seen import Launch, Seen
from sentinel.trainers.probe.trial import Trial
from sentinel.trainers.profile import TrainerProfile

WANTED = ("loss", "grad_norm", "lr")  # what the detectors of numbers and the proof of a learning rate read
RESUME = "resume"

Lack = Literal[
    "start",
    "rows",
    "format",
    "metric",
    "steps",
    "checkpoints",
    "other_profile",
    "unsealed",
    "resume",
    "resume_unknown",
    "resume_refused",
    "save_refused",
    "setting",
    "skip",
    "order_of_data",
]


@dataclass(frozen=True, slots=True)
class Missing:
    """`what`: the metric, setting, format or profile in question. `severe`: without it the trainer cannot be watched or restored,
    which the exit code says."""

    lack: Lack
    what: str = ""
    severe: bool = False


def expected_grades(profile: TrainerProfile, launch: Launch) -> dict[str, Grade]:
    """How well each setting that the profile has can be proved: an argument is asserted, only what the stream shows is more."""
    grades: dict[str, Grade] = dict.fromkeys(profile.settings, "asserted")
    if LEARNING_RATE in grades and "lr" in launch.metrics:
        grades[LEARNING_RATE] = "observed"
    skip = profile.spec.skip
    if skip is not None:
        grades[SKIP] = "observed" if skip.spends_steps and launch.every_steps == 1 else "asserted"
    return grades


def resume_grade(seen: Seen) -> Grade:
    """Of the arguments that make it go on from a checkpoint; `none` where it was not tried, or where its first row does not tell
    exactly where it went on. It is contradicted where it began before, or at another checkpoint."""
    if seen.back is None or seen.back.began is None or seen.first.numbering.is_renewed:
        return "none"
    asked, began = seen.back.asked, seen.back.began
    if began == asked:
        return "observed"
    return "contradicted" if began < asked or began in {one.step for one in seen.kept} else "none"


def find_missing(trial: Trial, seen: Seen) -> tuple[Missing, ...]:
    """What is missing, the gravest first."""
    found = [*_of_rows(trial, seen), *_of_checkpoints(trial, seen), *_of_settings(trial.profile)]
    return tuple(sorted(found, key=lambda one: not one.severe))


def _of_rows(trial: Trial, seen: Seen) -> Iterator[Missing]:
    first, metrics = seen.first, trial.profile.spec.metrics
    if first.status not in (None, 0):
        yield Missing("start", str(first.status), severe=True)
    if not first.rows:
        yield Missing("rows", severe=True)
        for format in seen.printed:
            if metrics.from_ != "output" or metrics.format not in ("auto", format):
                yield Missing("format", format, severe=True)
        return
    if first.numbering.is_renewed:
        yield Missing("steps", severe=True)
    yield from (Missing("metric", name, severe=name == "loss") for name in WANTED if name not in first.metrics)


def _of_checkpoints(trial: Trial, seen: Seen) -> Iterator[Missing]:
    places = trial.profile.spec.checkpoints
    others = seen.mismatch.others if seen.mismatch is not None else ()
    if not seen.kept:
        yield Missing("checkpoints", severe=places is not None)
    elif not any(one.how for one in seen.kept):
        yield Missing("unsealed", severe=True)
    named = [other.profile for other in others] or [profile for _, profile, _ in seen.left]
    yield from (Missing("other_profile", name, severe=True) for name in dict.fromkeys(named))
    if seen.refused:
        yield Missing("save_refused", ", ".join(seen.refused))
    if seen.back is not None and seen.back.refused:
        yield Missing("resume_refused", ", ".join(seen.back.refused), severe=True)
    elif seen.back is not None and resume_grade(seen) != "observed" and not seen.first.numbering.is_renewed:
        lack: Lack = "resume" if resume_grade(seen) == "contradicted" else "resume_unknown"
        yield Missing(lack, str(seen.back.asked), severe=True)


def _of_settings(profile: TrainerProfile) -> Iterator[Missing]:
    for key in ("lr_scale", "clip_norm"):
        if key not in profile.settings:
            yield Missing("setting", SETTINGS[key].key)
    if profile.spec.skip is None:
        yield Missing("skip")
    if profile.spec.data != "by step":
        yield Missing("order_of_data")


def profile_by_what_it_printed(seen: Seen) -> tuple[str, ...]:
    """Shipped profiles that read what it printed."""
    return tuple(dict.fromkeys(name for format in seen.printed for name in profiles_of_format(format)))
