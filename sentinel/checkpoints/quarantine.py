"""Moving checkpoints aside: nothing is deleted here, a rename into `quarantine/attempt-NNNN/` is all that happens to one.

Where checkpoints/ lies on another filesystem than the run directory (a link to a scratch disk), nothing can be renamed out of
it: then quarantine is `checkpoints/.quarantine/`.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sentinel.checkpoints.files import PRUNED, is_there, list_entries, step_of_name
from sentinel.checkpoints.manifest import MANIFEST
from sentinel.client.atomic_file import ensure_directory, fsync_directory
from sentinel.client.disk_trouble import in_words
from sentinel.client.run_layout import CHECKPOINTS

QUARANTINE = "quarantine"
INSIDE = f".{QUARANTINE}"  # of checkpoints/, which it never leaves
COLLISIONS_MAX = 10_000
# `.step-00000400.77.ab.tmp` is the protocol's own; tmp-checkpoint-400, step400.partial, 400.orbax-checkpoint-tmp-17 are others'.
# Never a checkpoint, whatever it holds. Whole words alone, and none by itself: `templates`, `attempts` and `tmp` are somebody's.
_ASIDE = re.compile(r"\.?(tmp|temp|partial)[-_.].+|.+[-_.](tmp|temp|partial)([-_.]?[0-9a-f]+)?", re.IGNORECASE)
_IMMOVABLE = (errno.EBUSY, errno.EPERM, errno.EACCES, errno.EROFS, errno.EXDEV)  # a mount, or a folder that a server shows


class Moved(NamedTuple):
    """One rename into quarantine; both paths relative to the run directory."""

    source: str
    target: str


def quarantine_above(
    run_dir: Path,
    step: int,
    attempt: int,
    progressed: Callable[[], None] = lambda: None,
    passed_over: Callable[[str], None] = lambda _: None,
) -> tuple[Moved, ...]:
    """Move every checkpoint above `step`, and every unfinished save, to quarantine. Done twice, it moves nothing.

    Call it when the attempt's processes are gone: a save still being written would be taken away under its writer.
    `progressed` is called before every rename, and may raise to end it there. `passed_over` is told of an unfinished save that
    cannot be moved: nobody takes it for a checkpoint.
    Raises OSError when any other rename fails; what was moved before stays moved.
    """
    assert step >= 0, f"a step is not negative: {step}"
    assert attempt >= 0, f"an attempt is not negative: {attempt}"
    doomed = [name for name in list_entries(run_dir) if _is_above_or_unfinished(run_dir, name, step)]
    if not doomed:
        return ()
    try:
        return _move(run_dir, doomed, f"{QUARANTINE}/attempt-{attempt:04d}", progressed, passed_over)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return _move(run_dir, doomed, f"{CHECKPOINTS}/{INSIDE}/attempt-{attempt:04d}", progressed, passed_over)


def quarantine_folder(run_dir: Path, attempt: int) -> Path:
    """Where that attempt's quarantine lies: inside checkpoints/ where it was moved there, else beside it. It need not exist."""
    inside = run_dir / CHECKPOINTS / INSIDE / f"attempt-{attempt:04d}"
    return inside if inside.is_dir() else run_dir / QUARANTINE / f"attempt-{attempt:04d}"


def _move(
    run_dir: Path, doomed: list[str], place: str, progressed: Callable[[], None], passed_over: Callable[[str], None]
) -> tuple[Moved, ...]:
    folder = run_dir / place
    ensure_directory(folder)
    moved = []
    for name in doomed:
        source, target = run_dir / CHECKPOINTS / name, _free_place(folder, name)
        progressed()
        try:
            os.rename(source, target)
        except FileNotFoundError:
            continue  # moved or finished by somebody else between the look and the act
        except OSError as error:
            is_elsewhere = error.errno == errno.EXDEV and INSIDE not in place  # then the place inside is tried
            if is_elsewhere or step_of_name(name) is not None or not _ASIDE.fullmatch(name) or error.errno not in _IMMOVABLE:
                raise
            passed_over(f"{CHECKPOINTS}/{name} stays, for it cannot be moved: {in_words(error)}")
            continue
        moved.append(Moved(f"{CHECKPOINTS}/{name}", f"{place}/{target.name}"))
    for touched in (folder, folder.parent, run_dir, run_dir / CHECKPOINTS):
        fsync_directory(touched)
    return tuple(moved)


def _is_above_or_unfinished(run_dir: Path, name: str, step: int) -> bool:
    if name == INSIDE or name.startswith(PRUNED):
        return False
    named = step_of_name(name)
    if named is not None and named > step:
        return True
    if named is None and _ASIDE.fullmatch(name):
        return True
    is_ours = name.startswith("step-")  # anything else in there is somebody's own and stays
    return is_ours and not is_there(run_dir / CHECKPOINTS / name / MANIFEST)


def _free_place(folder: Path, name: str) -> Path:
    """`folder/name`, or `folder/name.2`, `.3` … when that is taken: a rename would replace an empty directory silently."""
    for number in range(1, COLLISIONS_MAX):
        place = folder / (name if number == 1 else f"{name}.{number}")
        if not os.path.lexists(place):
            return place
    raise FileExistsError(17, "no free name in quarantine; move its older entries elsewhere", str(folder / name))
