"""Which shipped profile fits a command, by the flags that stand in it, by what it printed and by what it left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.telemetry.log_formats import UnreadableLog, open_log
from sentinel.trainers.imported import attached_script_of, hint_of
from sentinel.trainers.loading import load_profile, shipped_profiles
from sentinel.trainers.mismatch import OtherMatch, find_others
from sentinel.trainers.profile import ProfileSpec
from sentinel.trainers.rendering import flag_value, stands

NOTHING_KNOWN = "exit-only"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A shipped profile and those of its flags that stand in the command."""

    profile: str
    flags: tuple[str, ...]


def candidates(command: Sequence[str]) -> tuple[Candidate, ...]:
    """The profiles whose folder of checkpoints the command names, those with the most flags in it first."""
    found = []
    for name in shipped_profiles():
        spec = load_profile(name).spec
        if spec.checkpoints is not None and flag_value(command, spec.checkpoints.root) is not None:
            stand = tuple(flag for flag in dict.fromkeys(_flags(spec)) if stands(command, flag))
            found.append(Candidate(name, stand))
    return tuple(sorted(found, key=lambda one: (-len(one.flags), one.profile)))


def hint_at_start(command: Sequence[str], cwd: str) -> str:
    """Where no profile is named, the one that the command's script is for, by what it imports or by the flags in the command.
    Empty where none is seen, or the script imports sentinel itself."""
    if not any(word.endswith(".py") for word in command) or attached_script_of(command, cwd):
        return ""  # without a look at every profile
    found = candidates(command)
    by_flags = f"{', '.join(found[0].flags)} in the command: --trainer {found[0].profile}?" if found else ""
    return hint_of(command, cwd) or by_flags


def _flags(spec: ProfileSpec) -> Iterator[str]:
    assert spec.checkpoints is not None, "only such are asked"
    yield from spec.checkpoints.root
    for flags in spec.flags.values():
        yield from flags
    skip = spec.skip.arguments if spec.skip is not None else ()
    settings = (words for key in spec.settings for words in spec.templates(key).values())
    for words in (spec.resume.arguments, *spec.resume.where_given.values(), skip, *settings):
        yield from (word.partition("=")[0] for word in words if word.startswith("-"))


def printed_format(log: Path) -> str | None:
    """The format of what was printed, by its content; None where no step can be read from it."""
    try:
        return open_log(log)[0]
    except (UnreadableLog, OSError):
        return None


def profiles_of_format(format: str) -> tuple[str, ...]:
    """The shipped profiles that read this format from what is printed."""
    specs = {name: load_profile(name).spec.metrics for name in shipped_profiles()}
    return tuple(name for name, metrics in specs.items() if metrics.from_ == "output" and metrics.format == format)


def left_behind(folders: Sequence[Path], since_s: float) -> list[tuple[Path, OtherMatch]]:
    """In each of these folders, the profiles that know a checkpoint which was written since then."""
    found = []
    for folder in folders:
        try:
            found += [(folder, one) for one in find_others(folder) if any(f.newest_change_s >= since_s for f in one.found)]
        except OSError:
            continue
    return found
