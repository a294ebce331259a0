"""Which rows hold a metric of one family: `grad_norm/h.3` of `grad_norm/`. The members' names are the trainer's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sentinel.model.metrics import is_family

STEPS_KEPT = 4
SHAPES_KEPT = 64  # sets of metrics that rows may have, remembered; the rows of a log have a few


def members_of(family: str, metrics: Iterable[str]) -> Iterator[str]:
    """The metrics of the family, in the order of the row."""
    return (name for name in metrics if name.startswith(family))


def holds_one_of(names: Iterable[str], metrics: Collection[str]) -> bool:
    """Whether a row holds one of these metrics, or a member of one of these families."""
    return any(any(members_of(name, metrics)) if is_family(name) else name in metrics for name in names)
