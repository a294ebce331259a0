"""What does not fit together in a profile that is well-formed: every mistake with its place, as `loading` tells it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentinel.client.setting_types import Choice
from sentinel.client.settings import SETTINGS
from sentinel.errors import Problem
from sentinel.policy.problems import Location, did_you_mean, path_text
from sentinel.trainers.profile import BATCHES, PLACEHOLDER, STEPS, ProfileSpec


def find_misfits(spec: ProfileSpec) -> Iterator[Problem]:
    """In the order of the model's fields."""
    yield from _of_words(spec, ("spec", "resume", "arguments"), spec.resume.arguments, ("root", "step", "checkpoint"))
    for flag, words in spec.resume.where_given.items():
        yield from _of_words(spec, ("spec", "resume", "where_given", flag), words, ("root", "step", "checkpoint"))
    yield from _of_words(spec, ("spec", "resume", "scratch"), spec.resume.scratch, ("root",))
    if spec.resume.arguments and spec.checkpoints is None:
        yield _problem(("spec", "resume"), "resume needs checkpoints", "say where they lie")
    for key in spec.settings:
        yield from _of_setting(spec, key)
    if spec.finish.early == "stopped" and not spec.flags.get(STEPS):
        remedy = "write flags: {steps: [--FLAG]}, or leave early: stopped out"
        yield _problem(("spec", "finish", "early"), "what is early is not known: no flag names the last step", remedy)
    if spec.finish.unless and spec.finish.early == "finished":
        yield _problem(("spec", "finish", "unless"), "any early end is a finish, so unless says nothing", "write early: stopped")
    for name, word in spec.environment.items():
        if PLACEHOLDER.search(word) is not None:
            remedy = "name a setting's words under arguments; a shell script finds them in SENTINEL_ARGS"
            yield _problem(("spec", "environment", name), f"'{word}': nothing is filled in here", remedy)
    if spec.skip is None:
        return
    yield from _of_words(spec, ("spec", "skip", "arguments"), spec.skip.arguments, BATCHES)
    if spec.data != "by step":
        remedy = "write data: by step, if the trainer's batches are in a fixed order; else leave skip out"
        yield _problem(("spec", "skip"), "skip needs data that is given by the step", remedy)


def _of_setting(spec: ProfileSpec, key: str) -> Iterator[Problem]:
    place: Location = ("spec", "settings", key)
    if key not in SETTINGS or SETTINGS[key].type is None:
        yield _problem(place, f"'{key}' is no setting", did_you_mean(key, tuple(SETTINGS), "settings"))
        return
    type_ = SETTINGS[key].type
    known = type_.words if isinstance(type_, Choice) else None
    for value, words in spec.templates(key).items():
        here = (*place, value) if value else place
        if value and known is None:
            message = f"'{key}' takes any value, and not only such as '{value}'"
            yield _problem(here, message, f"write {key}: [--FLAG, '{{value}}']")
        elif value and known is not None and value not in known:
            yield _problem(here, f"'{value}' is no {SETTINGS[key].label}", did_you_mean(value, known, "values"))
        yield from _of_words(spec, here, words, ("root", "value"))


def _of_words(spec: ProfileSpec, place: Location, words: Sequence[str], also: Sequence[str]) -> Iterator[Problem]:
    """Placeholders that nothing fills. `also`: what may stand there beside the profile's flags."""
    known = (*also, *spec.flags)
    for at, word in enumerate(words):
        for match in PLACEHOLDER.finditer(word):
            for name in (match[1], match[2]):
                if name is not None and name not in known:
                    message = f"'{word}': {{{name}}} is not known here"
                    yield _problem((*place, at), message, did_you_mean(name, known, "known here"))


def _problem(place: Location, message: str, remedy: str) -> Problem:
    return Problem(path_text(place), message, remedy)
