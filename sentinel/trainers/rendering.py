"""A command, a profile and what is asked of an attempt: the words to start, and what of it a flag could say.

Nothing is run here and no file is read. What is passed as a flag is *asserted* by that; only the stream can show more.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sentinel.client.settings import SETTINGS
from sentinel.errors import UsageError
from sentinel.model.attempts import ResumePoint, SampleRange, SettingsInForce
from sentinel.plan.skip import merge
from sentinel.trainers.profile import PLACEHOLDER, STEPS, ProfileSkip, ProfileSpec, Stop, TrainerProfile

ARGUMENTS_VARIABLE = "SENTINEL_ARGS"
BATCHES_MAX = 20_000  # as arguments of one command
VARIABLE_BYTES_MAX = 128 * 1024  # linux/binfmts.h: with its name and the byte behind it


@dataclass(frozen=True, slots=True)
class Rendered:
    """`added`: the arguments behind the user's own. `asserted`: settings a flag was passed for, with their values, and `skip`
    with the batches that its arguments can mean. `root`: the folder of the trainer's checkpoints, absolute; None where there is
    none to know of."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    added: tuple[str, ...]
    asserted: Mapping[str, object] = field(default_factory=dict)
    root: str | None = None


def render(
    profile: TrainerProfile,
    command: Sequence[str],
    cwd: str,
    overrides: SettingsInForce,
    resume: ResumePoint | None,
    checkpoint: str | None,
    is_first: bool,
) -> Rendered:
    """What starts the attempt. `checkpoint`: the path under which the trainer finds the one to resume from. `is_first`: nothing
    of this run was started before; the command then begins as its user wrote it.

    Raises:
        UsageError: an argument needs a value that the command does not hold, or what is added is more than a variable holds.
    """
    spec = profile.spec
    root = find_root(spec, command, cwd)
    values: dict[str, object] = {"root": root}
    if resume is not None:
        beside = (more for flag, more in spec.resume.where_given.items() if stands(command, flag))
        resuming = (*spec.resume.arguments, *itertools.chain.from_iterable(beside))
        added = _fill(spec, command, resuming, values | {"step": resume.step, "checkpoint": checkpoint})
    else:
        added = () if is_first else _fill(spec, command, spec.resume.scratch, values)
    asserted: dict[str, object] = {}
    for key in profile.settings:
        value = getattr(overrides, key)
        words = spec.arguments_for(key, value) if SETTINGS[key].is_asked(value) else None
        if words is not None:
            added += _fill(spec, command, words, values | {"value": value})
            asserted[key] = value
    if spec.skip is not None and overrides.skip:
        added += _skipping(spec.skip, overrides.skip)
        asserted["skip"] = [[span.start, span.end] for span in passed_to(spec.skip, overrides.skip)]
    environment = {ARGUMENTS_VARIABLE: _in_variable(added), "PYTHONUNBUFFERED": "1", **spec.environment}
    argv = tuple(command) if spec.arguments == "environment" else (*command, *added)
    return Rendered(argv, environment, added, asserted, root)


def _in_variable(added: Sequence[str]) -> str:
    """For a shell script. The kernel starts no command with a longer one, and a script that finds none would train from the
    beginning."""
    text = shlex.join(added)
    size = len(os.fsencode(f"{ARGUMENTS_VARIABLE}={text}")) + 1
    if size > VARIABLE_BYTES_MAX:
        raise UsageError(
            f"--trainer: what is added has {size:,} bytes, and {ARGUMENTS_VARIABLE} holds {VARIABLE_BYTES_MAX:,} at most; "
            "let fewer batches be left out at once"
        )
    return text


def find_root(spec: ProfileSpec, command: Sequence[str], cwd: str) -> str | None:
    """The folder of the trainer's checkpoints, absolute; None for a profile without checkpoints. UsageError where the command
    does not say."""
    places = spec.checkpoints
    if places is None:
        return None
    found = places.path if places.path is not None else flag_value(command, places.root)
    if found is None:
        raise UsageError(
            f"--trainer: where its checkpoints lie is not known: no {' nor '.join(places.root) or 'flag'} stands in the command "
            f"({shlex.join(command)}); "
            "name the folder, as in --trainer NAME:root=DIR"
        )
    return os.path.normpath(os.path.join(cwd, found, places.below))


def saves_at(profile: TrainerProfile, command: Sequence[str]) -> Stop | None:
    """How this command is asked to save and to end; None where it cannot be asked."""
    stop = profile.spec.stop
    if stop is None or (stop.needs and not any(_is_set(command, flag) for flag in stop.needs)):
        return None
    return stop


def total_steps(spec: ProfileSpec, command: Sequence[str]) -> int | None:
    """The last step of the run, by the command or as a person named it; None where neither says, and where the command says
    what is no number of steps (-1: as many epochs as another flag tells)."""
    text = flag_value(command, spec.flags.get(STEPS, ()))
    try:
        value = float(text) if text is not None else spec.named[STEPS]
    except (KeyError, ValueError):
        return None
    return int(value) if value >= 1 and value.is_integer() else None


def may_end_early(spec: ProfileSpec, command: Sequence[str]) -> bool:
    """Whether this command may leave with 0 before its last step, and has finished all the same."""
    return spec.finish.early == "finished" or any(stands(command, flag) for flag in spec.finish.unless)


def stands(command: Sequence[str], flag: str) -> bool:
    """Whether the command has this flag, as `--flag` or `--flag=value`."""
    return any(word == flag or word.startswith(f"{flag}=") for word in command)


def _is_set(command: Sequence[str], flag: str) -> bool:
    return stands(command, flag) and (flag_value(command, (flag,)) or "").lower() not in ("false", "0", "no")


def flag_value(command: Sequence[str], flags: Sequence[str]) -> str | None:
    """What the last of these flags says, as `--flag value` or `--flag=value`."""
    found: str | None = None
    for at, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in flags:
            if equals:
                found = value
            elif at + 1 < len(command):
                found = command[at + 1]
    return found


def _fill(spec: ProfileSpec, command: Sequence[str], words: Sequence[str], values: Mapping[str, object]) -> tuple[str, ...]:
    def value_of(name: str, word: str) -> object:
        if name in values:
            return values[name]
        text = flag_value(command, spec.flags[name])
        try:
            return float(text) if text is not None else {**spec.defaults, **spec.named}[name]
        except (KeyError, ValueError):
            stands = f"says {text!r}, no number" if text is not None else "is not in the command"
            flags = " or ".join(spec.flags[name])
            remedy = f"add it to the command, or name it: --trainer NAME:{name}=NUMBER"
            raise UsageError(f"--trainer: '{word}' needs {flags}, which {stands}; {remedy}") from None

    def one(word: str) -> tuple[str, ...]:
        only = PLACEHOLDER.fullmatch(word)
        if only is not None and only[2] is None and isinstance(value := value_of(only[1], word), (tuple, list)):
            return tuple(_text(item) for item in value)
        parts: list[str] = []
        end = 0
        for match in PLACEHOLDER.finditer(word):
            value = value_of(match[1], word)
            if match[2] is not None:
                value = float(value) * float(value_of(match[2], word))  # type: ignore[arg-type]
            parts += [word[end : match.start()], f"{value:{match[3]}d}" if match[3] else _text(value)]
            end = match.end()
        return ("".join(parts) + word[end:],)

    return tuple(filled for word in words for filled in one(word))


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def passed_to(skip: ProfileSkip, spans: Sequence[SampleRange]) -> tuple[SampleRange, ...]:
    """Which batches the arguments can mean: of a trainer whose first number is not known, one more on each side."""
    if skip.counts_from != "either":
        return tuple(spans)
    return merge(SampleRange(max(0, span.start - 1), span.end + 1) for span in spans)


def _skipping(skip: ProfileSkip, spans: Sequence[SampleRange]) -> tuple[str, ...]:
    """A sample index is here the number of a batch, from 0."""
    first = 0 if skip.counts_from == "either" else skip.counts_from
    last = 1 if skip.counts_from == "either" else skip.counts_from
    lists_each = any("{batches}" in word for word in skip.arguments)
    if lists_each and sum(span.end - span.start for span in spans) > BATCHES_MAX:
        raise UsageError(f"--trainer: more than {BATCHES_MAX} batches are to be left out, which no command line holds")
    batches = {batch for span in spans for batch in range(span.start + first, span.end + last)} if lists_each else ()
    lists = {
        "{batches}": [str(batch) for batch in sorted(batches)],
        "{ranges}": [f"{span.start + first}-{span.end - 1 + last}" for span in spans],
    }
    return tuple(filled for word in skip.arguments for filled in _listed(word, lists))


def _listed(word: str, lists: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """A list that is a word by itself is a word for each; within a word, as in --skip={ranges}, it is written with commas."""
    if word in lists:
        return lists[word]
    for name, items in lists.items():
        word = word.replace(name, ",".join(items))
    return [word]
