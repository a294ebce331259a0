"""What an attempt runs: its program's source, its configuration files, its interpreter, the libraries installed for it, and the
variables that change how they compute. Read at every launch, so that a change between two attempts does not go unnoticed."""

from __future__ import annotations

from dataclasses import dataclass

Named = tuple[tuple[str, str], ...]  # name → digest, version or value, sorted by name


@dataclass(frozen=True, slots=True)
class Environment:
    """A part that is None could not be read: it is unknown, which is neither changed nor unchanged.

    Attributes:
        code, configs: file → sha256 of its bytes, relative to the command's directory where it lies below it.
        interpreter: as in `CPython 3.12.3 (/usr/bin/python3)`.
        distributions: what is installed for that interpreter, name → version.
        variables: of the environment the command is given; never secrets.
        unknown: a sentence for each part that could not be read.
        capped: a sentence for each part that was read in part only; of these, what is missing says nothing.
    """

    code: Named | None = None
    configs: Named | None = None
    interpreter: str | None = None
    distributions: Named | None = None
    variables: Named | None = None
    unknown: tuple[str, ...] = ()
    capped: tuple[str, ...] = ()
