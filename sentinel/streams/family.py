"""Which rows hold a metric of one family: `grad_norm/h.3` of `grad_norm/`. The members' names are the trainer's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

from sentinel.model.metrics import is_family

STEPS_KEPT = 4


class MetricFamily:
    """The newest steps whose row holds a member. Most logs hold none: a row as long as the last without one is not searched."""

    __slots__ = ("_bare", "_member", "name", "steps")

    def __init__(self, name: str) -> None:
        self.name = name
        self.clear()

    def clear(self) -> None:
        self.steps: deque[int] = deque(maxlen=STEPS_KEPT)
        self._member = ""  # the first that the newest row with members named
        self._bare = -1  # metrics in the newest row without one

    def take(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Whether the row holds a member."""
        if self._member not in metrics:
            if len(metrics) == self._bare:
                return False
            self._member = next(members_of(self.name, metrics), "")
            if not self._member:
                self._bare = len(metrics)
                return False
        self.steps.append(step)
        return True


def members_of(family: str, metrics: Iterable[str]) -> Iterator[str]:
    """The metrics of the family, in the order of the row."""
    return (name for name in metrics if name.startswith(family))


def holds_one_of(names: Iterable[str], metrics: Collection[str]) -> bool:
    """Whether a row holds one of these metrics, or a member of one of these families."""
    return any(any(members_of(name, metrics)) if is_family(name) else name in metrics for name in names)
