"""What was read of a saved checkpoint, and how: judged elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SavedNorm:
    """`param_norm` as the manifest of the checkpoint of `step` has it, and what the stream `recorded` around that step: (step,
    param_norm) by rising step, empty where nothing was."""

    step: int
    norm: float
    recorded: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class BadTensor:
    """A tensor of a checkpoint's file with values that are not finite: how many it has in all, how many are NaN and how many
    infinite. `has_number`: another value of it is finite and not zero."""

    file: str
    name: str
    values: int
    nan: int
    infinite: int
    has_number: bool


@dataclass(frozen=True, slots=True)
class SavedValues:
    """The floating-point values in a checkpoint's files, looked at one by one.

    Attributes:
        files: how many files hold such values; values: how many they are.
        bad: the tensors with values that are not finite, those with NaN first; more_bad: how many such tensors are left out.
        unread: which values could not be counted, and why, in words.
    """

    files: int
    values: int
    bad: tuple[BadTensor, ...] = ()
    more_bad: int = 0
    unread: tuple[str, ...] = ()


SAMPLE_SHARE = 16  # where a remembered file is sampled, one stretch in so many is drawn
How = Literal["full", "sampled", "remembered"]
"""How much of a checkpoint is read again before a resume. `full`: every byte. `sampled`: parts of the files that are remembered,
and the others whole. `remembered`: the others alone."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """How a checkpoint was verified, in numbers. Every file counts once: as read whole, as sampled, or as remembered.

    Attributes:
        how: what was asked for.
        files, bytes: of the whole checkpoint.
        read_files: read whole now. sampled_files: drawn parts of them were read and compared with what they were.
        remembered_files: not read now. read_bytes: of all that was read now.
        since_s: wall time at which the oldest file that was not read whole now was; None where every one was.
        seconds: the whole check took so long. seed: what the samples were drawn by; empty where none were.
    """

    how: How
    files: int
    bytes: int
    read_files: int
    read_bytes: int
    sampled_files: int = 0
    remembered_files: int = 0
    since_s: float | None = None
    seconds: float = 0.0
    seed: str = ""


@dataclass(frozen=True, slots=True)
class SavedNumbers:
    """A checkpoint whose every byte is as its manifest says, or was when it was last read (`read`).

    Attributes:
        digest: sha256 of its manifest.
        checked: what was compared, in words.
        numbers: the manifest's `metrics` by name, NaN and infinities among them; empty where it has none.
        norm: its own norm beside the recorded one; older: that of the next older checkpoint. None where there is no such number.
        values: what its files hold; None where nobody looked.
        read: how it was verified; None where nobody says.
    """

    digest: str
    checked: str = "every byte matches its digest"
    numbers: tuple[tuple[str, float], ...] = ()
    norm: SavedNorm | None = None
    older: SavedNorm | None = None
    values: SavedValues | None = None
    read: ReadBack | None = None
