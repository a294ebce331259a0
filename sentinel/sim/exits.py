"""How the simulated keeper words the end of an attempt: the ranks' own records first, then what it saw, else 'unknown'."""

from __future__ import annotations

from signal import Signals

from sentinel.model.attempts import RankExit

Record = tuple[int, str | None]


def rank_exit(rank: int, value: int | None, record: Record | None, *, was_kept: bool) -> RankExit:
    """`value`: the exit value, negative for a signal. `was_kept` False: the keeper was dead and saw nothing."""
    if record is not None:
        return RankExit(rank, record[0], None, "record", record[1])
    if not was_kept:
        return RankExit(rank, None, None, "unknown")
    assert value is not None, "a report is written when nothing lives"
    if value < 0:
        return RankExit(rank, None, -value, "reaped", how(value))
    return RankExit(rank, value, None, "reaped")


def how(value: int) -> str:
    """An exit value in words, to follow a subject."""
    return f"ended with code {value}" if value >= 0 else f"was ended by signal {-value} ({Signals(-value).name})"
