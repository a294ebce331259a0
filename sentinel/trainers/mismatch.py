"""Why no checkpoint is found where the profile expects them, and whose pattern matches what lies there instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.run_layout import attempts_folder
from sentinel.trainers.found import FoundCheckpoint, find_checkpoints, list_names, matching
from sentinel.trainers.loading import load_profile, shipped_profiles
from sentinel.trainers.pickled_step import read_step_key
from sentinel.trainers.profile import PATTERN_STEP, CheckpointFiles
from sentinel.trainers.tracker import tracked_step
from sentinel.trainers.whole import look

NAMED_MAX = 3  # of the names that another profile matches


@dataclass(frozen=True, slots=True)
class OtherMatch:
    """A shipped profile whose pattern matches what lies in the folder."""

    profile: str
    pattern: str
    found: tuple[FoundCheckpoint, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the newest, oldest first."""
        return tuple(one.path.name for one in self.found[-NAMED_MAX:])


@dataclass(frozen=True, slots=True)
class Mismatch:
    """`there`: what lies in the folder, as far as it is named; None where there is no such folder. `unread`: files that match
    and do not show their step under `step_key`."""

    pattern: str
    root: Path
    there: tuple[str, ...] | None
    others: tuple[OtherMatch, ...]
    unread: tuple[Path, ...] = ()
    step_key: str = ""

    @property
    def sentence(self) -> str:
        if self.unread:
            names = ", ".join(str(path.relative_to(self.root)) for path in self.unread[:NAMED_MAX])
            shows = f"shows no step: no whole number under {self.step_key!r} in a dictionary that torch.save wrote"
            return f"{names} under {self.root} {shows}; name the key that holds it (checkpoints: {{step_key: KEY}})"
        if self.there is None:
            return f"no file matches {self.pattern}: the folder {self.root} is not there"
        start = f"no file matches {self.pattern} under {self.root}; there "
        if not self.others:
            return start + (f"is {', '.join(self.there)}" if self.there else "is nothing")
        words = (f"are {', '.join(other.names)}: --trainer {other.profile}?" for other in self.others)
        return start + " and ".join(words)


def find_mismatch(places: CheckpointFiles, root: Path) -> Mismatch | None:
    """None where a checkpoint is found. Raises OSError where the folder is there and cannot be read."""
    if find_checkpoints(places, root):
        return None
    there = tuple(list_names(root)) if root.is_dir() else None
    unread = tuple(_unread(places, root))
    return Mismatch(places.pattern, root, there, tuple(_others(places, root)), unread, places.step_key or "")


def _unread(places: CheckpointFiles, root: Path) -> Iterator[Path]:
    """Checkpoints by their names, of which nobody knows the step. Not those that are cut off: they hold nothing to go on from.
    Raises OSError."""
    if places.step_key is None or PATTERN_STEP.search(places.pattern) is not None:
        return
    for path in matching(places.pattern, root):
        with suppress(FileNotFoundError):  # the trainer is replacing it
            is_written = path.is_file() and path.stat().st_size > 0
            if is_written and read_step_key(path, places.step_key) is None and look(path, [""]) != "torn":
                yield path


def find_others(base: Path) -> Iterator[OtherMatch]:
    """Every shipped profile whose pattern matches below this folder, which is the one that its flag would name."""
    for name in shipped_profiles():
        places = load_profile(name).spec.checkpoints
        found = find_checkpoints(places, base / places.below) if places is not None and base.is_dir() else []
        if places is not None and found:
            yield OtherMatch(name, places.pattern, tuple(found))


def _others(own: CheckpointFiles, root: Path) -> Iterator[OtherMatch]:
    depth = len(Path(own.below).parts)
    base = root.parents[depth - 1] if 0 < depth <= len(root.parents) else root
    seen: set[str] = set()
    for folder in dict.fromkeys((base, root)):
        for other in find_others(folder):
            if other.profile not in seen and other.pattern != own.pattern:
                seen.add(other.profile)
                yield other


def why_tracker_misleads(places: CheckpointFiles, root: Path, there: Iterable[FoundCheckpoint]) -> str:
    """A sentence where the tracker names a step of which there is no checkpoint: from there the trainer cannot go on. Else empty.
    `there`: what was found a moment ago. Raises OSError."""
    step = tracked_step(places, root)
    if places.tracker is None or step < 0 or any(found.step == step for found in there):
        return ""
    if any(found.step == step for found in find_checkpoints(places, root)):
        return ""  # it came since
    return f"{root / places.tracker.file} names step {step}, and no {places.pattern} of that step lies under {root}"


def reason_against_scratch(run_dir: Path, places: CheckpointFiles, root: Path) -> str:
    """Why a later attempt must not start from the beginning: in the folder lies no checkpoint of this profile, but one of another
    trainer, written since this run began. The start would lose what the run has trained. Empty: nothing speaks against it.

    Raises OSError.
    """
    mismatch = find_mismatch(places, root)
    began_s = _began_s(run_dir)
    if mismatch is None or began_s is None:
        return ""
    if any(path.stat().st_mtime >= began_s for path in mismatch.unread):
        return f"{mismatch.sentence}. It was written since this run began, and a start from the beginning would write over it"
    ours = [other for other in mismatch.others if any(found.newest_change_s >= began_s for found in other.found)]
    if not ours:
        return ""
    return (
        f"{mismatch.sentence} They were written since this run began, and a start from the beginning would lose them: run it "
        f"again with --trainer {ours[0].profile}, or move them away"
    )


def _began_s(run_dir: Path) -> float | None:
    """When the first attempt was launched, by the clock of the files; None where that cannot be seen."""
    specs = [path.stat().st_mtime for path in attempts_folder(run_dir).glob("*/spec.json")]
    return min(specs, default=None)
